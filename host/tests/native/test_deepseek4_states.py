"""Any order of sync, extend, rewind, fork, snapshot and restore over the banks of one session, against a model that
rebuilds every timeline from nothing: the next logits are the same to the bit.

DS4_STATE_STEPS asks for more steps than the few that every run takes; the long run is DS4_STATE_STEPS=10000.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from ds4.core.engine import EngineThread
from ds4.core.session import Session
from ds4.errors import EngineError
from ds4.sys.native import NativeModel, NativeSession, Row
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from support.small_deepseek4 import VOCAB, Bits, bits, feed, opened, session, write
from support.vocabularies import byte_level

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

STEPS = int(os.environ.get("DS4_STATE_STEPS", "240"))
STEPS_AN_EXAMPLE = 40
BANKS, CTX, ROWS = 3, 300, 24
REACH = 2 * ROWS  # positions that a bank can go back

TOKENS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=8)
BANK = st.integers(0, BANKS - 1)
LENGTH = st.integers(0, CTX)


class Rebuilt:
    """Logits after a timeline, computed from nothing in one step; remembered, since shrinking asks again."""

    def __init__(self, model: NativeModel) -> None:
        self.session = session(model, n_ctx=CTX, max_rows=CTX, max_out=CTX)
        self.known: dict[tuple[int, ...], Bits] = {}

    def after(self, tokens: list[int]) -> Bits:
        key = tuple(tokens)
        if key not in self.known:
            self.session.truncate(0, 0)
            rows = [Row(0, p, token, logits=p == len(tokens) - 1) for p, token in enumerate(tokens)]
            result = self.session.wait(self.session.submit(rows))
            self.known[key] = bits(memoryview(result.logits(len(rows) - 1)))  # type: ignore[arg-type]
        return self.known[key]


class Machine(RuleBasedStateMachine):
    """Bank 0 belongs to a core session with its ledger, the others are used directly."""

    made: NativeSession
    rebuilt: Rebuilt
    engine: EngineThread
    steps = 0
    rebuilds = 0

    @initialize()
    def begin(self) -> None:
        for bank in range(BANKS):
            self.made.truncate(bank, 0)
        self.session = Session(self.engine, self.made, byte_level(), None)
        self.tokens: list[list[int]] = [[] for _ in range(BANKS)]
        self.high = [0] * BANKS  # the furthest that the bank has been since it was empty or restored
        self.base = [0] * BANKS  # where it was restored
        self.saved: list[tuple[bytes, list[int]]] = []

    # ---- what the rules share

    def floor(self, bank: int) -> int:
        return max(0, self.high[bank] - REACH, self.base[bank])

    def note(self, bank: int, tokens: list[int]) -> None:
        """The bank now holds these; it was cut or grew."""
        self.tokens[bank] = tokens
        self.high[bank] = max(self.high[bank], len(tokens)) if tokens else 0
        self.base[bank] = self.base[bank] if tokens else 0

    def grow(self, bank: int, tokens: list[int], chunk: int) -> None:
        """Evaluates what the bank lacks of `tokens`, and compares what follows."""
        start = len(self.tokens[bank])
        found = feed(self.made, bank, tokens, start, chunk)
        if bank == 0:
            for token in tokens[start:]:
                self.session.ledger.append(token)
        self.note(bank, tokens)
        assert (bits(found[-1]) == self.rebuilt.after(tokens)).all()

    def probe(self, bank: int, token: int) -> None:
        Machine.steps += 1
        if len(self.tokens[bank]) < CTX:
            self.grow(bank, [*self.tokens[bank], token], 1)
        assert self.made.length(bank) == len(self.tokens[bank])
        assert self.made.rewind_floor(bank) == self.floor(bank)
        assert self.session.tokens == self.tokens[0]

    # ---- rules

    @rule(bank=BANK, tokens=TOKENS, repeat=st.integers(1, 12), chunk=st.integers(1, ROWS))
    def extend(self, bank: int, tokens: list[int], repeat: int, chunk: int) -> None:
        more = (tokens * repeat)[: CTX - len(self.tokens[bank])]
        if more:
            self.grow(bank, self.tokens[bank] + more, chunk)
        self.probe(bank, tokens[0])

    @rule(tokens=TOKENS, token=st.integers(0, VOCAB - 1))
    def extend_all_in_one_step(self, tokens: list[int], token: int) -> None:
        room = min(CTX - len(own) for own in self.tokens)
        more = tokens[:room]
        if not more:
            return
        rows = [
            Row(bank, len(own) + i, t, logits=i == len(more) - 1)
            for bank, own in enumerate(self.tokens)
            for i, t in enumerate(more)
        ]
        result = self.made.wait(self.made.submit(rows))
        for bank in range(BANKS):
            self.note(bank, self.tokens[bank] + more)
            last = result.logits((bank + 1) * len(more) - 1)
            assert (bits(memoryview(last)) == self.rebuilt.after(self.tokens[bank])).all()  # type: ignore[arg-type]
        for t in more:
            self.session.ledger.append(t)
        self.probe(0, token)

    @rule(source=BANK, kept=LENGTH, back=st.integers(0, REACH), near=st.booleans(), tokens=TOKENS)
    def sync(self, source: int, kept: int, back: int, near: bool, tokens: list[int]) -> None:
        """A prompt that shares with a bank what it held, or lately held."""
        own = self.tokens[source]
        kept = max(0, len(own) - back) if near else min(kept, len(own))
        prompt = (own[:kept] + tokens)[:CTX]
        before, floor = self.tokens[0], self.floor(0)
        shared = os.path.commonprefix([before, prompt])
        held = self.session.sync(prompt)
        exact = len(shared) >= min(floor, len(before))
        assert held == (len(shared) if exact else 0)
        Machine.rebuilds += not exact and len(shared) > 0
        if held == 0:
            self.high[0] = self.base[0] = 0
        self.note(0, prompt)
        self.probe(0, tokens[0])

    @rule(bank=BANK, length=LENGTH, back=st.integers(0, REACH), near=st.booleans(), token=st.integers(0, VOCAB - 1))
    def rewind(self, bank: int, length: int, back: int, near: bool, token: int) -> None:
        own = self.tokens[bank]
        length = max(0, len(own) - back) if near else min(length, len(own))
        exact = length == 0 or length >= min(self.floor(bank), len(own))
        if bank == 0:
            assert self.session.rewind(length) == (length if exact else 0)
            length = length if exact else 0
        elif exact:
            self.made.truncate(bank, length)
        else:
            with pytest.raises(EngineError) as caught:
                self.made.truncate(bank, length)
            assert caught.value.code == "engine_rewind"
            length = len(own)
        self.note(bank, own[:length])
        self.probe(bank, token)

    @rule(
        source=BANK, into=BANK, length=LENGTH, back=st.integers(0, REACH), near=st.booleans(), token=st.integers(0, 9)
    )
    def fork(self, source: int, into: int, length: int, back: int, near: bool, token: int) -> None:
        own = self.tokens[source]
        length = max(0, len(own) - back) if near else min(length, len(own))
        if source == into or 0 < length < self.floor(source):
            return
        self.made.copy(source, into, length)
        self.high[into], self.base[into] = self.high[source], self.base[source]
        self.note(into, own[:length])
        if into == 0:
            self.session.ledger.adopt(own[:length])
        self.probe(into, token)

    @rule(bank=BANK)
    def snapshot(self, bank: int) -> None:
        taken = self.session.snapshot() if bank == 0 else self.made.snapshot(bank)
        self.saved = [*self.saved[-3:], (bytes(taken), list(self.tokens[bank]))]
        self.probe(bank, 1)

    @precondition(lambda self: self.saved)
    @rule(bank=BANK, which=st.integers(0, 3), token=st.integers(0, VOCAB - 1))
    def restore(self, bank: int, which: int, token: int) -> None:
        data, tokens = self.saved[which % len(self.saved)]
        if bank == 0:
            self.session.restore(data, tokens)
        else:
            assert self.made.restore(bank, data) == len(tokens)
        self.high[bank] = self.base[bank] = len(tokens)
        self.note(bank, list(tokens))
        self.probe(bank, token)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[type[Machine]]:
    with opened(write(tmp_path_factory.mktemp("states") / "model.gguf")) as model, EngineThread() as engine:
        made = session(model, n_banks=BANKS, n_ctx=CTX, max_rows=ROWS, max_out=ROWS)
        fields: dict[str, Any] = {"made": made, "rebuilt": Rebuilt(model), "engine": engine}
        yield type("Machine", (Machine,), fields)
        made.close()
        fields["rebuilt"].session.close()


def test_every_order_of_state_changes_goes_on_as_if_rebuilt_from_nothing(machine: type[Machine]) -> None:
    Machine.steps = Machine.rebuilds = 0
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=-(-STEPS // STEPS_AN_EXAMPLE),
            stateful_step_count=STEPS_AN_EXAMPLE,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Machine.steps >= STEPS // 4
    if STEPS >= 1000:
        assert Machine.rebuilds > 0
    print(f"{Machine.steps} steps, {Machine.rebuilds} prompts rebuilt for want of an exact way back")
