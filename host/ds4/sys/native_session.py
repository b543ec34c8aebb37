"""The banks of a session, the steps over them and what a step drew.

The path of one token, submit then wait, reuses one batch, one error and a ring of result structs, and allocates no
cffi object of its own.
"""

from __future__ import annotations

import struct
import threading
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ds4.sys.convert import argument, closed, fail, sampler_struct, session_struct
from ds4.sys.descriptors import MAX_TOP, STEPS_IN_FLIGHT, SamplerDesc, SessionDesc
from ds4.sys.handles import Handle
from ds4.sys.native_snapshot import NativeSnapshot

if TYPE_CHECKING:
    from ds4.sys.native import NativeModel

_ROW = struct.Struct("=6i")  # ds4_row
_OUTPUT, _LOGITS = 1, 2
_RING = STEPS_IN_FLIGHT + 1


class Row(NamedTuple):
    """One row of a step (ds4_row).

    token: >= 0, or -1 for "the token that row `token_from` of the step submitted before this one draws".
    output: draw a token here. logits: keep its raw logits too. top: 0..64 top log-probabilities wanted; needs output.
    """

    bank: int
    position: int
    token: int
    token_from: int = -1
    output: bool = False
    logits: bool = False
    top: int = 0


class StepResult:
    """What one step drew. Read lazily: valid until two further steps have been submitted, then an EngineError.

    tokens: one per row, -1 where the row asked for no output. elapsed_ns: time that the step ran on the backend.
    """

    __slots__ = ("_out", "_result", "_sequence", "_session", "_ticket", "elapsed_ns", "tokens")

    def __init__(self, session: NativeSession, sequence: int, ticket: int, result: Any) -> None:
        self._session, self._sequence, self._ticket, self._result = session, sequence, ticket, result
        unpack = session.bridge.ffi.unpack
        n_rows, n_out = result.n_rows, result.n_out
        out = unpack(result.row_out, n_rows)
        drawn = unpack(result.tokens, n_out) if n_out else []
        self._out: list[int] = out
        self.tokens: list[int] = [drawn[i] if i >= 0 else -1 for i in out]
        self.elapsed_ns: int = result.elapsed_ns

    def _index(self, row: int) -> int:
        if self._session.closed:
            raise closed("session")
        if self._session.submitted >= self._sequence + STEPS_IN_FLIGHT:
            raise argument("this step's result is gone: two further steps have been submitted since")
        index = self._out[row]
        if index < 0:
            raise argument(f"row {row} asked for no output")
        return index

    def logprob(self, row: int) -> float:
        """Natural log-probability of the drawn token under the raw logits; 0.0 for rows that asked for no top."""
        return float(self._result.logprobs[self._index(row)])

    def top(self, row: int, count: int = MAX_TOP) -> list[tuple[int, float]]:
        """The `count` (at most what the row asked for) likeliest (token, log-probability), likeliest first."""
        ffi, at = self._session.bridge.ffi, self._index(row) * MAX_TOP
        count = max(0, min(count, self._session.tops(self._sequence)[row]))
        ids = ffi.unpack(self._result.top_ids + at, count) if count else []
        values = ffi.unpack(self._result.top_logprobs + at, count) if count else []
        return list(zip(ids, values, strict=True))

    def logits(self, row: int) -> memoryview[float]:
        """A copy of the row's raw logits, float32 [n_vocab]. EngineError where the row did not ask for them."""
        self._index(row)
        pointer = self._session.result_logits(self._ticket, row)
        ffi = self._session.bridge.ffi
        if pointer == ffi.NULL:
            raise argument(f"row {row} did not ask for its logits")
        return memoryview(bytes(ffi.buffer(pointer, 4 * self._session.n_vocab))).cast("f")


class NativeSession:
    """N banks of KV state and the step executor over them."""

    def __init__(self, model: NativeModel, desc: SessionDesc) -> None:
        bridge = model.bridge
        ffi, lib = bridge.ffi, bridge.lib
        out, self._error = ffi.new("ds4_session **"), ffi.new("ds4_error *")
        keep = model.handle
        status = lib.ds4_session_create(keep.pointer, session_struct(bridge, desc), out, self._error)
        if status:
            fail(bridge, status, self._error)
        self._handle: Handle | None = Handle(out[0], lib.ds4_session_free, keep)
        self._session = out[0]
        self.bridge, self.desc = bridge, desc
        self.n_vocab, self.d_model = model.hparams.n_vocab, model.hparams.d_model
        status = lib.ds4_batch_create(desc.max_rows, out_batch := ffi.new("ds4_batch **"), self._error)
        if status:
            self._handle.close()
            fail(bridge, status, self._error)
        self._batch_handle = Handle(out_batch[0], lib.ds4_batch_free)
        self._batch = out_batch[0]
        self._rows = ffi.buffer(lib.ds4_batch_rows(self._batch), desc.max_rows * _ROW.size)
        self._ticket = ffi.new("int64_t *")
        self._results = [ffi.new("ds4_result *") for _ in range(_RING)]
        self._tops: list[list[int]] = [[] for _ in range(_RING)]
        self._submit, self._wait = lib.ds4_submit, lib.ds4_wait
        self._cancelling = threading.Lock()  # a cancel from another thread must not meet the free
        self._sequences: dict[int, int] = {}  # open ticket -> its number
        self.submitted = 0  # steps submitted so far

    @property
    def closed(self) -> bool:
        return self._handle is None

    def _alive(self) -> Any:
        if self._handle is None:
            raise closed("session")
        return self._session

    def _check(self, status: int) -> None:
        if status:
            fail(self.bridge, status, self._error)

    def submit(self, rows: Sequence[Row]) -> int:
        """Starts a step over the rows and returns its ticket at once.

        EngineError: engine_busy with two steps open already, engine_context past a bank's context, engine_argument.
        """
        return self._start(self._submit, rows)

    def submit_draft(self, rows: Sequence[Row]) -> int:
        """Starts a step that guesses, for sessions with SessionFlags.DRAFT: one row a bank, with output, at the bank's
        length. The output is the token expected after the row's; banks stay as they are.
        """
        return self._start(self.bridge.lib.ds4_submit_draft, rows)

    def submit_embed(self, rows: Sequence[Row]) -> int:
        """As submit, and the final norm of every row is kept for `embed`. Nothing else can be submitted before the
        ticket has been waited for: engine_busy.
        """
        return self._start(self.bridge.lib.ds4_submit_embed, rows)

    def embed(self, ticket: int, row: int, count: int, into: array[float]) -> None:
        """Adds the final norms of `count` rows from `row` on, of the submit_embed ticket waited for last, to `into`: an
        array of d_model doubles. One row after the other, so where steps were cut does not show.
        """
        if into.typecode != "d" or len(into) != self.d_model:
            raise argument(f"a sum of {len(into)} {into.typecode!r} (expected {self.d_model} 'd')")
        into_c = self.bridge.ffi.from_buffer("double[]", into)
        self._check(self.bridge.lib.ds4_result_embed(self._alive(), ticket, row, count, into_c, self._error))

    def _start(self, submit: Any, rows: Sequence[Row]) -> int:
        session = self._alive()
        count = len(rows)
        if count > self.desc.max_rows:
            raise argument(f"a step of {count} rows (the session was made for {self.desc.max_rows})")
        pack, buffer, at = _ROW.pack_into, self._rows, 0
        tops: list[int] = []
        try:
            for bank, position, token, token_from, output, logits, top in rows:
                flags = _OUTPUT | _LOGITS if logits else _OUTPUT if output else 0
                pack(buffer, at, bank, position, token, token_from, flags, top)
                tops.append(top)
                at += 24
        except struct.error as error:
            raise argument(f"a row holds a value that is not a 32-bit integer: {error}") from None
        status = submit(session, self._batch, count, self._ticket, self._error)
        if status:
            fail(self.bridge, status, self._error)
        ticket: int = self._ticket[0]
        self.submitted = sequence = self.submitted + 1
        self._tops[sequence % _RING] = tops
        self._sequences[ticket] = sequence
        return ticket

    def wait(self, ticket: int) -> StepResult:
        """Blocks until the step is done. Tickets are waited for in order, each once. Cancelled if it was
        cancelled.
        """
        session = self._alive()
        sequence = self._sequences.pop(ticket, 0)
        if not sequence:
            raise argument(f"ticket {ticket} is not open")
        result = self._results[sequence % _RING]
        status = self._wait(session, ticket, result, self._error)
        if status:
            fail(self.bridge, status, self._error)
        return StepResult(self, sequence, ticket, result)

    def tops(self, sequence: int) -> list[int]:
        return self._tops[sequence % _RING]

    @property
    def hidden_width(self) -> int:
        """Elements of one point of `hidden`."""
        return int(self.bridge.lib.ds4_hidden_width(self._alive()))

    def hidden(self, ticket: int, row: int, point: int) -> memoryview[float]:
        """For sessions with SessionFlags.HIDDEN: the residual streams [ds4_hidden_width], float32, of an output row of
        the ticket waited for last, before the next submission. point 0: the embedding; i: the output of layer i - 1.
        """
        session = self._alive()
        store = bytearray(4 * max(1, self.bridge.lib.ds4_hidden_width(session)))
        out = self.bridge.ffi.from_buffer("float[]", store)
        self._check(self.bridge.lib.ds4_result_hidden(session, ticket, row, point, out, self._error))
        return memoryview(store).cast("f")

    def result_logits(self, ticket: int, row: int) -> Any:
        return self.bridge.lib.ds4_result_logits(self._alive(), ticket, row)

    def set_sampler(self, bank: int, desc: SamplerDesc) -> None:
        """How outputs of the bank are drawn, from the next submitted step on."""
        arguments, keep = sampler_struct(self.bridge, desc)
        self._check(self.bridge.lib.ds4_bank_set_sampler(self._alive(), bank, arguments, self._error))
        del keep

    def set_mask(self, bank: int, mask: bytes | bytearray | memoryview | None) -> None:
        """Allows only tokens whose bit is set (little-endian 32-bit words, bit id % 32 of word id / 32); None:
        all.
        """
        ffi = self.bridge.ffi
        if mask is None:
            words, count = ffi.NULL, 0
        else:
            count, rest = divmod(memoryview(mask).nbytes, 4)
            if rest:
                raise argument(f"a mask of {4 * count + rest} bytes (expected whole 32-bit words)")
            words = ffi.from_buffer("uint32_t[]", mask)
        self._check(self.bridge.lib.ds4_bank_set_mask(self._alive(), bank, words, count, self._error))

    def length(self, bank: int) -> int:
        """Committed positions of the bank."""
        length = int(self.bridge.lib.ds4_bank_length(self._alive(), bank))
        if length < 0:
            raise argument(f"no bank {bank} (the session has {self.desc.n_banks})")
        return length

    def rewind_floor(self, bank: int) -> int:
        """The least length above 0 that truncate and copy can go back to; 0 is always possible."""
        floor = int(self.bridge.lib.ds4_bank_rewind_floor(self._alive(), bank))
        if floor < 0:
            raise argument(f"no bank {bank} (the session has {self.desc.n_banks})")
        return floor

    def truncate(self, bank: int, length: int) -> None:
        """Forgets positions length and on. engine_busy while an open step uses the bank; engine_rewind where
        0 < length < rewind_floor(bank).
        """
        self._check(self.bridge.lib.ds4_bank_truncate(self._alive(), bank, length, self._error))

    def copy(self, source: int, target: int, length: int) -> None:
        """Makes the first `length` positions of bank `target` those of `source`; what `target` held is gone."""
        self._check(self.bridge.lib.ds4_bank_copy(self._alive(), source, target, length, self._error))

    def snapshot(self, bank: int) -> NativeSnapshot:
        out = self.bridge.ffi.new("ds4_snapshot **")
        self._check(self.bridge.lib.ds4_snapshot_take(self._alive(), bank, out, self._error))
        return NativeSnapshot(self.bridge, out[0])

    def restore(self, bank: int, snapshot: NativeSnapshot | bytes | bytearray | memoryview) -> int:
        """Puts a snapshot into a bank and returns its length in positions. Bytes are checked whole before the bank is
        touched: EngineError engine_format where they are damaged or of another shape."""
        session = self._alive()
        if not isinstance(snapshot, NativeSnapshot):
            out = self.bridge.ffi.new("ds4_snapshot **")
            data = self.bridge.ffi.from_buffer(snapshot)
            self._check(self.bridge.lib.ds4_snapshot_load(data, len(data), out, self._error))
            snapshot = NativeSnapshot(self.bridge, out[0])
        self._check(self.bridge.lib.ds4_snapshot_restore(session, bank, snapshot.pointer, self._error))
        return snapshot.length

    def cancel(self) -> None:
        """Makes the steps submitted so far end with Cancelled at the next layer's end. [any thread]"""
        with self._cancelling:
            if self._handle is not None:
                self.bridge.lib.ds4_session_cancel(self._handle.pointer)

    def close(self) -> None:
        """Frees the banks. An open step is waited for by native; its result is lost."""
        with self._cancelling:
            handle, self._handle = self._handle, None
        if handle is not None:
            self._sequences.clear()
            self._batch_handle.close()
            handle.close()
