"""Typed owners of the engine's handles: NativeModel, NativeSession, NativeSnapshot.

They add to ds4_bridge.h what C cannot: a session keeps its model alive, close() may be called twice, use after close
is an EngineError, and a result that native has since reused refuses to be read. They do not add threads: like the
handles, these objects belong to one thread at a time (`ds4.core.engine` is that thread); only `NativeSession.cancel`
may be called from anywhere. Native calls release the GIL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ds4.sys.bridge import Bridge, load
from ds4.sys.convert import closed, fail, model_struct, slot_from
from ds4.sys.descriptors import HParams, ModelDesc, Slot
from ds4.sys.handles import Handle
from ds4.sys.native_session import NativeSession, Row, StepResult
from ds4.sys.native_snapshot import NativeSnapshot
from ds4.sys.probe import (
    cpu_kernels,
    dequantize,
    kv_bytes_per_position,
    matmul_probe,
    sample_logits,
    sample_uniform,
    type_block,
    version,
)

__all__ = [
    "NativeModel",
    "NativeSession",
    "NativeSnapshot",
    "Row",
    "StepResult",
    "cpu_kernels",
    "dequantize",
    "kv_bytes_per_position",
    "matmul_probe",
    "sample_logits",
    "sample_uniform",
    "type_block",
    "version",
]


class NativeModel:
    """A bound model: mapped weights, no state. close() takes effect once the model's last session is closed."""

    def __init__(self, bridge: Bridge, handle: Handle, hparams: HParams) -> None:
        self.bridge = bridge
        self._handle: Handle | None = handle
        self.hparams = hparams

    @classmethod
    def open(cls, desc: ModelDesc) -> NativeModel:
        """Binds the plan to its files. EngineError: engine_mismatch where the files differ, engine_io,
        engine_argument.
        """
        bridge = load()
        arguments, keep = model_struct(bridge, desc)
        out, error = bridge.ffi.new("ds4_model **"), bridge.ffi.new("ds4_error *")
        status = bridge.lib.ds4_model_open(arguments, out, error)
        del keep
        if status:
            fail(bridge, status, error)
        return cls(bridge, Handle(out[0], bridge.lib.ds4_model_free), desc.hparams)

    @staticmethod
    def check(desc: ModelDesc) -> None:
        """Checks the plan by itself; opens no file."""
        bridge = load()
        arguments, keep = model_struct(bridge, desc)
        error = bridge.ffi.new("ds4_error *")
        status = bridge.lib.ds4_bind_plan_check(arguments, error)
        del keep
        if status:
            fail(bridge, status, error)

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            raise closed("model")
        return self._handle

    def slots(self) -> list[Slot]:
        """The tensors as native found them by its own walk of the files, in the plan's order."""
        out = self.bridge.ffi.new("const ds4_slot **")
        count = self.bridge.lib.ds4_model_slots(self.handle.pointer, out)
        return [slot_from(self.bridge, out[0][i]) for i in range(count)]

    @property
    def active_bytes(self) -> int:
        """Bytes of weights that one decoded token reads."""
        return int(self.bridge.lib.ds4_model_active_bytes(self.handle.pointer))

    def warm(self, progress: Callable[[int, int], bool | None] | None = None) -> None:
        """Reads every weight page once. progress(done, total) in bytes; True from it stops early (Cancelled).

        An exception of progress stops the reading and is raised here.
        """
        ffi, raised = self.bridge.ffi, []

        def step(done: int, total: int, _user: Any) -> int:
            try:
                return 1 if progress is not None and progress(done, total) else 0
            except BaseException as error:
                raised.append(error)
                return 1

        callback = ffi.NULL if progress is None else ffi.callback("ds4_progress_fn", step)
        error = ffi.new("ds4_error *")
        status = self.bridge.lib.ds4_model_warm(self.handle.pointer, callback, ffi.NULL, error)
        if raised:
            raise raised[0]
        if status:
            fail(self.bridge, status, error)

    def close(self) -> None:
        self._handle = None
