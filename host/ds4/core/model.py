"""A model, opened: the public door to ds4 from Python.

    from ds4.core.model import Model

    with Model.open("SmolLM2-135M-Instruct.Q4_1.gguf") as model, model.session() as session:
        for event in session.generate([{"role": "user", "content": "What is the capital of France?"}]):
            print(event.text, end="", flush=True)

Everything may be called from any thread: one engine thread per model owns the native handles. See `ds4.core.session`
for what a session can do. What goes wrong is a `ds4.errors.Ds4Error` with a stable `code`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path

from ds4.core import bind, expert_tables, memory_plan
from ds4.core.chat import Dialect
from ds4.core.dialects import AS_SHOWN, Override, dialect
from ds4.core.engine import EngineThread
from ds4.core.families import deepseek4
from ds4.core.identify import Identity, identify_inventory
from ds4.core.inventory import Inventory
from ds4.core.inventory import load as load_inventory
from ds4.core.memory_plan import PREFILL_WIDTH
from ds4.core.session import Session
from ds4.core.tokenizer import Tokenizer
from ds4.errors import UnsupportedModelError
from ds4.sys.cpus import physical_cores
from ds4.sys.descriptors import Backend, GgmlType, Numeric, SessionDesc, SessionFlags
from ds4.sys.memory import available_bytes
from ds4.sys.native import NativeModel, NativeSession


class Model:
    """Made by Model.open.

    identity: what the file says of itself. inventory, plan: its tensors and how they are bound. tokenizer: of its
    vocabulary. dialect: how it writes chats (None: it completes texts only). threads: how many compute. engine, native:
    the thread and the handle, for those who schedule steps themselves (the server).
    """

    def __init__(
        self,
        inventory: Inventory,
        plan: bind.BindPlan,
        tokenizer: Tokenizer,
        dialect: Dialect | None,
        engine: EngineThread,
        native: NativeModel,
        threads: int,
    ) -> None:
        self.inventory, self.plan, self.tokenizer, self.dialect = inventory, plan, tokenizer, dialect
        self.engine, self.native, self.threads = engine, native, threads
        self.identity: Identity = identify_inventory(inventory)
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        drafting: str | os.PathLike[str] | None = None,
        warm: bool = True,
        answers: Override = AS_SHOWN,
        progress: Callable[[int, int], bool | None] | None = None,
    ) -> Model:
        """Opens a GGUF file (of several shards: the first). Reads metadata, checks the bind plan, then maps the
        weights.

        threads: None is one per physical core that this process may use. drafting: a file that holds the model's
        drafting block (MTP), where the model does not. warm: reads all weights once, so that the first answer is not
        slowed by the disk; progress(done, total) follows that in bytes, on the engine thread, and ends it with
        Cancelled by returning True. answers: how they are read, where not as the chat template shows. Raises
        ModelFileError, UnsupportedModelError, TokenizerError, TemplateError, EngineError, and SettingsError where
        there is no template whose answers could be read otherwise.
        """
        inventory = load_inventory(Path(path))
        if drafting is not None:
            inventory = deepseek4.attach(inventory, load_inventory(Path(drafting)))
        plan = bind.plan(inventory)
        expert_tables.check(plan)
        tokenizer = Tokenizer.from_metadata(inventory.metadata)
        chat = dialect(inventory.metadata, tokenizer, answers)
        engine = EngineThread()
        try:
            native = engine.call(NativeModel.open, plan.desc())
            bind.match(plan, engine.call(native.slots))
            if warm:
                engine.call(native.warm, progress)
        except BaseException:
            engine.close()
            raise
        count = threads if threads is not None else physical_cores()
        return cls(inventory, plan, tokenizer, chat, engine, native, count)

    @property
    def path(self) -> Path:
        return self.inventory.path

    def session(
        self,
        ctx: int | None = None,
        *,
        threads: int | None = None,
        numeric: Numeric = Numeric.SHIP,
        kv_type: GgmlType = GgmlType.F16,
        backend: Backend = Backend.CPU,
        prefill_width: int = PREFILL_WIDTH,
        drafting: bool = False,
    ) -> Session:
        """A session of `ctx` positions; None: what the model was trained for, as far as memory goes.

        prefill_width: most prompt tokens in one step. drafting: guess a token ahead with the model's drafting block
        (MTP); the answers are the same. Raises MemoryPlanError, EngineError, and UnsupportedModelError without such a
        block.
        """
        weights, hparams = self.plan.weight_bytes, self.plan.hparams
        if drafting and hparams.n_blocks == hparams.n_layer:
            raise UnsupportedModelError(
                "the model has no drafting block (MTP)", subject=str(self.path), code="unsupported_drafting"
            )
        size = memory_plan.plan(hparams, kv_type, weights, available_bytes() + weights, ctx, 1, prefill_width).ctx
        desc = SessionDesc(
            n_banks=1,
            n_ctx=size,
            max_rows=max(min(prefill_width, size), 2 if drafting else 1),
            max_out=2 if drafting else 1,
            n_threads=self.threads if threads is None else threads,
            backend=backend,
            numeric=numeric,
            kv_type=kv_type,
            flags=SessionFlags.DRAFT if drafting else SessionFlags(0),
        )
        native = self.engine.call(NativeSession, self.native, desc)
        session = Session(self.engine, native, self.tokenizer, self.dialect)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """Closes its sessions, the weights and the engine thread. May be called twice."""
        if self.engine.closed:
            return
        for session in list(self._sessions):
            session.close()
        self.engine.call(self.native.close)
        self.engine.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
