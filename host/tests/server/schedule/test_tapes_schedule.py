from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from ds4.errors import Ds4Error
from ds4.server.schedule import oracle as answered
from ds4.server.schedule import tapes
from ds4.server.schedule.admission import QueueLimits
from ds4.server.schedule.oracle import OracleScheduler
from ds4.server.schedule.scheduler import Scheduler, Step
from ds4.server.schedule.sequence import Sequence
from ds4.server.schedule.tapes import Hold, Op, ScheduleInput
from ds4.sys.tape import TapeError
from support.oracles import standing_in
from support.schedule_simulator import Engine, expected, sequence


@pytest.fixture(autouse=True)
def answered_by_the_replacement(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(answered, "oracle", standing_in(tapes.by_tape))
    yield


HEAD = "schedule 2 8 4 100 50\n"
GOOD = (
    HEAD
    + "hold 1 3 5 -1\nlearned 4059000000000000 -\n"
    + "seq 3 1 0 1 2 10 1 7 1 2\nseq 1 0 1 0 0 0 0 4\narrive 0\nplan 1\ncomplete -5 7\nfinish 1 stop\nabandon\n"
    + "forget 9 -9\nfloor 1 2147483647\nscope 7\nbelongs 0 2147483647\nbanks\npace\n"
)


def test_what_is_read_is_written_back() -> None:
    given = tapes.read_input(GOOD.encode())
    assert given.holds == (Hold(1, 3, (5, -1)),) and given.learned == (100.0, None)
    assert given.ops[0] == Op("seq", (3, 1, 0, 1, 2, 10, 1, 7, 1, 2))
    assert tapes.write_input(given).decode() == GOOD
    said = tapes.run(given)
    assert tapes.read_output(tapes.write_output(said)) == said


@pytest.mark.parametrize(
    "lines",
    ["arrive 0", "seq 0 1 0 1 0 0 0 1\n", "seq 1 1 0 1 0 0 1 1", "seq 1 1 0 1 0 0 0", "seq 1 1 1 1 0 0 0 1"]
    + ["seq 1 1 0 1 0 0 0 1\narrive 0\nseq 1 1 1 1 0 0 0 1", "seq 1 1 0 1 0 0 0 1\narrive 0\narrive 0", "plan -1"]
    + ["plan", "complete", "complete 1 -1", "finish 1 length", "finish 1", "abandon 1", "forget 1", "banks 0", "pace 0"]
    + ["plan 0\nhold 0 0", "hold 2 0", "hold 0 0\nhold 0 0", "learned - -\nlearned - -", "learned -", "learned 0 -"]
    + ["floor 0", "floor 2 0", "floor -1 0", "floor 0 -1", "floor 0 2147483648", "floor 0 0 0", "floor 0 0\nhold 0 0"]
    + [
        "scope",
        "scope -1",
        "scope 2147483648",
        "scope 0 0",
        "scope 1\nhold 0 0",
        "belongs 0",
        "belongs 2 0",
        "belongs 0 -1",
    ]
    + ["learned 0000000000000000 -", "learned 7FF0000000000000 -", "learned 4059000000000000 C059000000000000", ""],
)
def test_lines_that_are_none_are_refused(lines: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input((HEAD + lines + "\n").encode())


@pytest.mark.parametrize("head", ["", "plan 0", "schedule 0 8 4 100 50", "schedule 2 8 4 100", "schedule 2 8 4 100 -1"])
def test_a_tape_without_its_head_is_refused(head: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input((head + "\n").encode())


def test_more_banks_than_rows_is_the_whole_verdict() -> None:
    assert tapes.by_tape(b"schedule 2 1 4 100 50\nplan 0\n") == b"error rows\n"


def _rows(step: Step | None) -> object:
    if step is None:
        return None
    admitted = [
        (s.key, s.placement and (s.placement.bank.index, s.placement.keep, s.placement.reuse)) for s in step.admitted
    ]
    outputs = [(row, one.key) for row, one in step.outputs]
    spans = [(bank.index, length) for bank, length in step.spans]
    return step.rows, admitted, outputs, spans, step.decoding


def _state(scheduler: Scheduler) -> object:
    return (
        [s.key for s in scheduler.queue],
        [(s.key, s.asked, s.drawn, s.bank and s.bank.index) for s in scheduler.active],
        [(b.tokens, b.owner and b.owner.key, b.open, b.used_at, b.floor) for b in scheduler.banks],
        len(scheduler.open),
        scheduler.queued_bytes,
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_scheduler_that_asks_an_oracle_is_a_scheduler(seed: int) -> None:
    """Both are driven by one random run of arrivals, steps, hang-ups, cancelled steps and floors that move."""
    chance = random.Random(seed)
    limits = QueueLimits(max_queue=5, max_bytes=100, max_age=20)
    ours, theirs = Scheduler(3, 12, limits), OracleScheduler(3, 12, limits)
    pairs: list[tuple[Sequence, Sequence]] = []
    now = 0.0
    for _ in range(120):
        now += chance.random()
        if chance.random() < 0.2:
            prompt = [chance.randrange(3) for _ in range(chance.choice((1, 3, 80)))]
            joining: list[tuple[Sequence, Sequence]] = []
            for _ in range(chance.choice((1, 1, 3))):
                a, b = (
                    Sequence(
                        len(pairs) + len(joining),
                        prompt,
                        chance_tokens,
                        frozenset({4}),
                        leader=joining[0][side] if joining else None,
                        nbytes=10,
                    )
                    for side, chance_tokens in enumerate([chance.randrange(1, 6)] * 2)
                )
                joining.append((a, b))
            verdicts = [s.arrive([pair[i] for pair in joining], now) for i, s in enumerate((ours, theirs))]
            assert verdicts[0] == verdicts[1]
            pairs += joining if verdicts[0] is None else []
        if pairs and chance.random() < 0.05:
            a, b = chance.choice(pairs)
            assert ours.finish(a, "cancelled") == theirs.finish(b, "cancelled")
        if seed % 2 and chance.random() < 0.3:
            index, floor = chance.randrange(3), chance.choice((0, 1, 2, 3, 40, 79, 80, 1000))
            ours.banks[index].floor = theirs.banks[index].floor = floor
        if chance.random() < 0.03:
            assert [_rows(s) for s in ours.abandon()] == [_rows(s) for s in theirs.abandon()]
        assert _rows(ours.plan(now)) == _rows(theirs.plan(now))
        assert [s.key for s in ours.expired] == [s.key for s in theirs.expired]
        ours.expired.clear(), theirs.expired.clear()
        if ours.open and chance.random() < 0.6:
            tokens = [chance.randrange(5) if row.output else -1 for row in ours.open[0].rows]
            drawn = [[(s.key, t, r) for s, t, r in x.complete(tokens, 1000, now)] for x in (ours, theirs)]
            assert drawn[0] == drawn[1]
        assert _state(ours) == _state(theirs)
    assert [a.finish for a, _ in pairs] == [b.finish for _, b in pairs]


def test_its_tape_begins_anew_when_nobody_is_left_and_the_banks_are_still_warm() -> None:
    engine = Engine(OracleScheduler(2, 16, QueueLimits()))
    for turn in range(12):
        one = sequence(turn + 1, [1, 2, 3, turn], 8)
        engine.scheduler.arrive([one], turn)
        engine.drain()
        assert engine.drawn[turn + 1] == expected(one.prompt, 8)
        engine.check_banks()
    assert isinstance(engine.scheduler, OracleScheduler)
    assert len(engine.scheduler._tape) < 3000
    assert one.placement is not None and one.placement.keep == 3


def _second_turn(scheduler: Scheduler, prompt: list[int], floor: int) -> Sequence:
    """Busy for long enough that a tape begins anew; then a turn on a bank with that floor."""
    engine = Engine(scheduler)
    for turn in range(3):
        one = sequence(turn + 1, [7, 8, 9, turn], 30)
        scheduler.arrive([one], turn)
        engine.drain()
    scheduler.banks[0].floor = floor
    for key, tokens in ((10, [1, 2, 3, 4, 5]), (11, prompt)):
        one = sequence(key, tokens, 70)
        scheduler.arrive([one], key)
        engine.drain()
        assert engine.drawn[key] == expected(tokens, 70)
    return one


@pytest.mark.parametrize(("floor", "kept"), [(0, 4), (4, 4), (5, 0)])
def test_a_floor_reaches_the_oracle_and_stays_when_the_tape_begins_anew(floor: int, kept: int) -> None:
    for scheduler in (Scheduler(1, 16), OracleScheduler(1, 16)):
        one = _second_turn(scheduler, [1, 2, 3, 4, 9], floor)
        assert one.placement is not None and one.placement.keep == kept, type(scheduler).__name__


def test_the_tape_says_a_floor_once_until_it_moves() -> None:
    scheduler = OracleScheduler(2, 16)
    for floor in (0, 5, 5, 6, 0):
        scheduler.banks[1].floor = floor
        scheduler.forget(1, 0)
    said = [line for line in bytes(scheduler._tape).split(b"\n") if line.startswith(b"floor")]
    assert said == [b"floor 1 5", b"floor 1 6", b"floor 1 0"]


def test_a_candidates_shadow_plays_the_floors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[bytes] = []

    def replacement(tape: bytes) -> bytes:
        played.append(tape)
        return tapes.by_tape(tape)

    monkeypatch.setattr(answered, "by_tape", replacement)
    monkeypatch.setattr(answered.components, "SAMPLE", 2)
    monkeypatch.setattr(answered.components, "seen", Counter())
    _second_turn(OracleScheduler(1, 16, shadowed=True), [1, 2, 3, 4, 9], 5)
    assert played and any(b"\nfloor 0 5\n" in tape for tape in played)
    assert dict(answered.components.seen) == {"schedule": len(played)}


def test_what_the_oracle_refuses_is_an_error_of_that_code() -> None:
    scheduler = OracleScheduler(2, 16)
    with pytest.raises(Ds4Error) as refused:
        scheduler.forget(7, 0)
    assert refused.value.code == "bank"


def test_the_ledger_says_which_scheduler_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    for side, kind in (("python", Scheduler), ("oracle", OracleScheduler)):
        monkeypatch.setenv("DS4_COMPONENT_SCHEDULE", side)
        assert type(answered.scheduler(2, 16)) is kind
    assert ScheduleInput(2, 16, QueueLimits()).ops == ()
