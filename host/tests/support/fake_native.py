"""NativeModel and NativeSession without a library: the same methods, errors and limits, and tokens that can be
predicted.

The token drawn at a position is a pure function of the bank's tokens up to there, `FakeModel.rule(tokens)`. The
default hashes them, so a wrong or stale prefix shows up as other output. A bank's KV state is its token list, so
copies, snapshots and truncation mean what they mean natively. A cancelled or failed step leaves its banks as they
were.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ds4.errors import Cancelled, EngineError
from ds4.sys.descriptors import (
    MAX_TOP,
    STEPS_IN_FLIGHT,
    Family,
    GgmlType,
    HParams,
    ModelDesc,
    RopeKind,
    SamplerDesc,
    SessionDesc,
    SessionFlags,
    Slot,
    Status,
)
from ds4.sys.native import Row

NO_FLAGS = SessionFlags(0)
Rule = Callable[[Sequence[int]], int]

TINY = HParams(
    family=Family.LLAMA,
    n_layer=2,
    d_model=32,
    n_head=2,
    n_head_kv=1,
    head_dim=16,
    d_ff=64,
    n_vocab=256,
    n_ctx_train=512,
    rope_kind=RopeKind.NORM,
    rope_dim=16,
    rms_eps=1e-5,
    rope_base=10000.0,
)


def hashed(n_vocab: int) -> Rule:
    """A token that depends on every token before it."""

    def rule(tokens: Sequence[int]) -> int:
        digest = hashlib.blake2b(json.dumps(list(tokens)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % n_vocab

    return rule


def scripted(script: Sequence[int], prompt: int, then: int = 0) -> Rule:
    """Draws `script` after a prompt of `prompt` tokens, then `then` for ever."""

    def rule(tokens: Sequence[int]) -> int:
        at = len(tokens) - prompt
        return script[at] if 0 <= at < len(script) else then

    return rule


def error(status: Status, message: str) -> EngineError:
    return EngineError(message, status=status, code="engine_" + status.name.lower())


class FakeModel:
    """Stands in for NativeModel. slots are echoed back from the plan."""

    def __init__(self, hparams: HParams = TINY, rule: Rule | None = None, desc: ModelDesc | None = None) -> None:
        self.hparams = hparams
        self.rule = rule or hashed(hparams.n_vocab)
        self.desc = desc
        self.closed = False
        self.active_bytes = 1_000_000

    @classmethod
    def open(cls, desc: ModelDesc) -> FakeModel:
        return cls(desc.hparams, desc=desc)

    def slots(self) -> list[Slot]:
        return list(self.desc.slots) if self.desc is not None else []

    def warm(self, progress: Callable[[int, int], bool | None] | None = None) -> None:
        for done in (500_000, 1_000_000):
            if progress is not None and progress(done, 1_000_000):
                raise Cancelled("stopped")

    def session(self, desc: SessionDesc) -> FakeSession:
        return FakeSession(self, desc)

    def close(self) -> None:
        self.closed = True


@dataclass
class _Step:
    ticket: int
    rows: list[Row]
    before: dict[int, int]
    masks: dict[int, bytes | None]  # of the banks, as they were when the step was submitted
    cancelled: bool = False
    drawn: list[int] = field(default_factory=list)
    failure: EngineError | None = None


class FakeResult:
    """Stands in for StepResult."""

    def __init__(self, session: FakeSession, step: _Step, elapsed_ns: int) -> None:
        self._session, self._step = session, step
        self.tokens = list(step.drawn)
        self.elapsed_ns = elapsed_ns

    def _row(self, row: int) -> Row:
        if self._session.ticket >= self._step.ticket + STEPS_IN_FLIGHT:
            raise error(Status.ARG, "this step's result is gone: two further steps have been submitted since")
        if self.tokens[row] < 0:
            raise error(Status.ARG, f"row {row} asked for no output")
        return self._step.rows[row]

    def logprob(self, row: int) -> float:
        return -0.5 if self._row(row).top else 0.0

    def top(self, row: int, count: int = MAX_TOP) -> list[tuple[int, float]]:
        wanted = min(count, self._row(row).top)
        vocab = self._session.model.hparams.n_vocab
        return [((self.tokens[row] + i) % vocab, -0.5 - i) for i in range(wanted)]

    def logits(self, row: int) -> memoryview[float]:
        if not self._row(row).logits:
            raise error(Status.ARG, f"row {row} did not ask for its logits")
        vocab = self._session.model.hparams.n_vocab
        store = memoryview(bytearray(4 * vocab)).cast("f")
        store[self.tokens[row]] = math.e
        return store


def _allowed(token: int, mask: bytes | None) -> int:
    """The token, or the next one, round and round, that the mask allows."""
    if mask is None:
        return token
    return next(i for i in [*range(token, 8 * len(mask)), *range(token)] if mask[i // 8] >> i % 8 & 1)


class FakeSnapshot:
    def __init__(self, tokens: list[int]) -> None:
        self.length = len(tokens)
        self._data = b"FAKE" + json.dumps(tokens).encode()
        self.nbytes = len(self._data)

    def view(self) -> memoryview:
        return memoryview(self._data)

    def __bytes__(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return self.nbytes

    def close(self) -> None:
        pass


class FakeSession:
    """Stands in for NativeSession.

    log: every submitted step's rows, for asserting on what the host asked of the engine.
    on_wait: called before a step runs; a place for tests to block, cancel or count.
    fail_next: an exception that the next wait raises instead of running its step.
    guess: what a step that guesses draws; guesses: how many there were.
    keeps: positions that a bank can go back at most, as with rolling state; None: all.
    """

    def __init__(self, model: FakeModel, desc: SessionDesc) -> None:
        self.model, self.desc, self.n_vocab = model, desc, model.hparams.n_vocab
        self.banks: list[list[int]] = [[] for _ in range(desc.n_banks)]
        self.samplers: dict[int, SamplerDesc] = {}
        self.masks: dict[int, bytes | None] = {}
        self.log: list[list[Row]] = []
        self.on_wait: Callable[[FakeSession], None] | None = None
        self.fail_next: EngineError | None = None
        self.keeps: int | None = None
        self.guess: Rule = model.rule
        self.guesses = 0
        self._high: dict[int, int] = {}
        self.ticket = 0
        self.closed = False
        self.cancels = 0
        self._open: list[_Step] = []
        self._last: _Step | None = None
        self._lock = threading.Lock()

    def _alive(self) -> None:
        if self.closed:
            raise EngineError("the session is closed", status=Status.ARG, code="engine_closed")

    def _bank(self, bank: int) -> list[int]:
        self._alive()
        if not 0 <= bank < len(self.banks):
            raise error(Status.ARG, f"no bank {bank} (the session has {len(self.banks)})")
        return self.banks[bank]

    def _idle(self, bank: int) -> list[int]:
        tokens = self._bank(bank)
        if any(bank in step.before for step in self._open):
            raise error(Status.BUSY, f"bank {bank} is used by an open step")
        return tokens

    def submit(self, rows: Sequence[Row]) -> int:
        self._alive()
        if len(self._open) >= STEPS_IN_FLIGHT:
            raise error(Status.BUSY, f"{STEPS_IN_FLIGHT} steps are open")
        if not 1 <= len(rows) <= self.desc.max_rows:
            raise error(Status.ARG, f"{len(rows)} rows (expected 1..{self.desc.max_rows})")
        if sum(row.output or row.logits for row in rows) > self.desc.max_out:
            raise error(Status.ARG, f"more than {self.desc.max_out} outputs")
        before: dict[int, int] = {}
        ends: dict[int, int] = {}
        for row in rows:
            tokens = self._bank(row.bank)
            before.setdefault(row.bank, len(tokens))
            end = ends.setdefault(row.bank, len(tokens))
            if row.position != end:
                raise error(Status.ARG, f"bank {row.bank}: position {row.position} (expected {end})")
            if row.position >= self.desc.n_ctx:
                raise error(Status.CONTEXT, f"bank {row.bank}: position {row.position} (context {self.desc.n_ctx})")
            if row.token < -1 or row.token >= self.n_vocab or row.top > MAX_TOP:
                raise error(Status.ARG, f"row {row} is out of range")
            if row.token == -1 and (self._last is None or not 0 <= row.token_from < len(self._last.rows)):
                raise error(Status.ARG, f"no row {row.token_from} in the step before")
            ends[row.bank] = end + 1
        self.ticket += 1
        step = _Step(self.ticket, list(rows), before, dict(self.masks))
        previous = self._last
        if previous is not None and not previous.drawn and any(row.token == -1 for row in rows):
            self._run(previous)
        for row in rows:
            token = row.token
            if token == -1:
                assert previous is not None
                token = previous.drawn[row.token_from] if previous.drawn else 0
            self.banks[row.bank].append(token)
        self.log.append(list(rows))
        with self._lock:
            self._open.append(step)
        self._last = step
        return step.ticket

    def submit_draft(self, rows: Sequence[Row]) -> int:
        """Draws `guess(tokens)` for each row and leaves the banks as they are."""
        if SessionFlags.DRAFT not in self.desc.flags:
            raise error(Status.ARG, "a session without flag 2 (draft)")
        for row in rows:
            if not 0 < row.position == len(self._bank(row.bank)):
                raise error(Status.ARG, f"bank {row.bank}: position {row.position}")
        self.ticket += 1
        drawn = [self.guess([*self.banks[row.bank], row.token]) for row in rows]
        self._last = step = _Step(self.ticket, list(rows), {}, {}, drawn=drawn)
        with self._lock:
            self._open.append(step)
        self.guesses += 1
        return step.ticket

    def _run(self, step: _Step) -> None:
        step.drawn = [
            _allowed(self.model.rule(self.banks[row.bank][: row.position + 1]), step.masks.get(row.bank))
            if row.output or row.logits
            else -1
            for row in step.rows
        ]

    def wait(self, ticket: int) -> FakeResult:
        self._alive()
        if not self._open or self._open[0].ticket != ticket:
            raise error(Status.ARG, f"ticket {ticket} is not the oldest open one")
        if self.on_wait is not None:
            self.on_wait(self)
        with self._lock:
            step = self._open.pop(0)
        failure: Exception | None = Cancelled("cancelled") if step.cancelled else self.fail_next
        if failure is not None:
            self.fail_next = None
            for bank, length in step.before.items():
                del self.banks[bank][length:]
            for later in self._open:  # steps that stand on this one fall with it
                later.cancelled = True
                later.before = {bank: min(n, step.before.get(bank, n)) for bank, n in later.before.items()}
            raise failure
        if not step.drawn:
            self._run(step)
        return FakeResult(self, step, 1000)

    def set_sampler(self, bank: int, desc: SamplerDesc) -> None:
        self._bank(bank)
        self.samplers[bank] = desc

    def set_mask(self, bank: int, mask: bytes | bytearray | memoryview | None) -> None:
        self._bank(bank)
        self.masks[bank] = None if mask is None else bytes(mask)

    def length(self, bank: int) -> int:
        return len(self._bank(bank))

    def rewind_floor(self, bank: int) -> int:
        if self.keeps is None:
            return 0
        self._high[bank] = max(self._high.get(bank, 0), len(self._bank(bank)))
        return max(0, self._high[bank] - self.keeps)

    def _reach(self, bank: int, length: int) -> None:
        if 0 < length < self.rewind_floor(bank):
            raise error(Status.REWIND, f"bank {bank}: back to {length} (its floor is {self.rewind_floor(bank)})")

    def truncate(self, bank: int, length: int) -> None:
        tokens = self._idle(bank)
        if not 0 <= length <= len(tokens):
            raise error(Status.ARG, f"bank {bank}: truncate to {length} (it holds {len(tokens)})")
        self._reach(bank, length)
        del tokens[length:]
        if length == 0:
            self._high[bank] = 0

    def copy(self, source: int, target: int, length: int) -> None:
        tokens = self._idle(source)
        if not 0 <= length <= len(tokens):
            raise error(Status.ARG, f"bank {source}: copy of {length} (it holds {len(tokens)})")
        self._reach(source, length)
        self._idle(target)[:] = tokens[:length]
        self._high[target] = self._high.get(source, 0)

    def snapshot(self, bank: int) -> FakeSnapshot:
        return FakeSnapshot(self._idle(bank))

    def restore(self, bank: int, snapshot: FakeSnapshot | bytes | bytearray | memoryview) -> int:
        data = bytes(snapshot)
        if data[:4] != b"FAKE":
            raise error(Status.FORMAT, "not a snapshot")
        tokens = json.loads(data[4:])
        if len(tokens) > self.desc.n_ctx:
            raise error(Status.CONTEXT, f"a snapshot of {len(tokens)} positions (context {self.desc.n_ctx})")
        self._idle(bank)[:] = tokens
        return len(tokens)

    def cancel(self) -> None:
        self.cancels += 1
        with self._lock:
            for step in self._open:
                step.cancelled = True

    def close(self) -> None:
        self.closed = True


def fake_session(
    n_banks: int = 1,
    n_ctx: int = 128,
    rule: Rule | None = None,
    hparams: HParams = TINY,
    flags: SessionFlags = NO_FLAGS,
) -> FakeSession:
    """A session of a fake model, ready to use."""
    desc = SessionDesc(
        n_banks=n_banks,
        n_ctx=n_ctx,
        max_rows=32,
        max_out=max(n_banks, 8),
        n_threads=1,
        kv_type=GgmlType.F16,
        flags=flags,
    )
    return FakeSession(FakeModel(hparams, rule), desc)
