"""An engine of pure bookkeeping: it holds what a native session would hold and refuses what a native session would."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Seq

from ds4.server.schedule.scheduler import IN_FLIGHT, Row, Scheduler, Step
from ds4.server.schedule.sequence import Sequence

VOCAB = 50


def rule(tokens: Seq[int]) -> int:
    """The token drawn after `tokens`; depends on all of them."""
    return (sum((i + 1) * t for i, t in enumerate(tokens)) * 7 + len(tokens)) % VOCAB


class Engine:
    """Banks as token lists, and at most two steps in flight."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.banks: list[list[int]] = [[] for _ in scheduler.banks]
        self.flight: deque[tuple[Step, list[int], dict[int, int]]] = deque()
        self.drawn: dict[int, list[int]] = {}
        self.steps: list[Step] = []

    def submit(self, step: Step) -> None:
        assert len(self.flight) < IN_FLIGHT
        busy = {row.bank for open_step, _, _ in self.flight for row in open_step.rows}
        for sequence in step.admitted:
            placement = sequence.placement
            assert placement is not None
            touched = {placement.bank.index} | ({placement.source.index} if placement.source else set())
            assert not touched & busy, "a bank of a step in flight was changed"
            source = self.banks[placement.source.index if placement.source else placement.bank.index]
            assert len(source) >= placement.keep
            self.banks[placement.bank.index] = source[: placement.keep]
        before = {row.bank: len(self.banks[row.bank]) for row in step.rows}
        tokens = []
        for row in step.rows:
            tokens.append(self._run(row))
        self._check_rows(step.rows)
        self.flight.append((step, tokens, before))
        self.steps.append(step)

    def _run(self, row: Row) -> int:
        bank = self.banks[row.bank]
        assert row.position == len(bank), "rows of a bank continue its length"
        token = row.token
        if token < 0:
            assert self.flight, "a chained row needs a step before it"
            token = self.flight[-1][1][row.token_from]
            assert token >= 0, "a chained row's source drew a token"
        bank.append(token)
        return rule(bank) if row.output else -1

    def _check_rows(self, rows: list[Row]) -> None:
        seen: list[int] = []
        for row in rows:
            if not seen or seen[-1] != row.bank:
                assert row.bank not in seen, "rows of one bank are consecutive"
                seen.append(row.bank)

    def collect(self, elapsed_ns: int = 1_000_000, now: float = 0.0) -> None:
        _, tokens, _ = self.flight.popleft()
        for sequence, token, _ in self.scheduler.complete(tokens, elapsed_ns, now):
            self.drawn.setdefault(sequence.key, []).append(token)

    def cancel(self) -> None:
        """All steps in flight end cancelled."""
        for _, _, before in reversed(self.flight):
            for bank, length in before.items():
                del self.banks[bank][length:]
        self.flight.clear()
        self.scheduler.abandon()

    def turn(self, now: float = 0.0, elapsed_ns: int = 1_000_000) -> bool:
        """One round of the engine loop. False: nothing is left to do."""
        step = self.scheduler.plan(now)
        if step is not None:
            self.submit(step)
        if self.flight and (step is None or len(self.flight) == IN_FLIGHT):
            self.collect(elapsed_ns, now)
            return True
        return step is not None

    def drain(self, decode_ns: int = 1_000_000, token_ns: int = 0) -> None:
        """Runs to the end; a step takes decode_ns and token_ns for each prompt row."""
        for _ in range(100_000):
            if not self.turn(elapsed_ns=decode_ns + token_ns * (self.flight[0][0].prompt_rows if self.flight else 0)):
                return
        raise AssertionError("it never ends")

    def check_banks(self) -> None:
        """Scheduler and engine agree about every bank that no step in flight uses."""
        for bank in self.scheduler.banks:
            if not bank.open:
                held = self.banks[bank.index]
                assert len(bank.tokens) == len(held)
                assert all(mine in (-1, theirs) for mine, theirs in zip(bank.tokens, held, strict=True))


def expected(prompt: list[int], max_tokens: int, stop_ids: frozenset[int] = frozenset()) -> list[int]:
    """What one sequence draws when it is served alone."""
    tokens = list(prompt)
    drawn: list[int] = []
    while len(drawn) < max_tokens:
        drawn.append(rule(tokens))
        if drawn[-1] in stop_ids:
            break
        tokens.append(drawn[-1])
    return drawn


def sequence(key: int, prompt: list[int], max_tokens: int = 8, **more: object) -> Sequence:
    return Sequence(key, prompt, max_tokens, **more)  # type: ignore[arg-type]
