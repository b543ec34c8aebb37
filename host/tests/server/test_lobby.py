"""Placement under the traffic of a coding agent, and what the server tells of its decisions."""

from __future__ import annotations

from ds4.core.sampling import Sampling
from ds4.server.job import Job
from ds4.server.limits import Limits
from ds4.server.lobby import Lobby, offer
from ds4.server.request import GenerationRequest, tail_calls
from ds4.server.schedule.admission import QueueLimits
from ds4.server.schedule.scheduler import Scheduler
from ds4.server.schedule.sequence import Sequence as Timeline


class Talk:
    """A scheduler behind a lobby, on which whole answers are run; a choice is a timeline and the calls it made."""

    def __init__(self, banks: int, context: int = 1 << 20) -> None:
        self.scheduler = Scheduler(banks, 4096, QueueLimits((1 << 31) - 1, 1 << 60, 4e9))
        self.lobby = Lobby(self.scheduler, offer(banks, context), Limits())
        self.now, self.keys = 0.0, 0

    def answer(
        self,
        prompt: list[int],
        *,
        calls: tuple[str, ...] = (),
        results: tuple[str, ...] = (),
        surface: str = "messages",
        scope: int = 0,
    ) -> Timeline:
        """Runs one request to its end, alone. calls: what its answer ends with; results: what it brings."""
        self.now += 1
        self.keys += 1
        request = GenerationRequest(
            "x", [prompt], Sampling(temperature=0.0), surface=surface, calls=results, scope=scope
        )  # type: ignore[arg-type]
        job = Job(request, self.now)
        timeline = Timeline(self.keys, prompt, 3, scope=scope)
        choice = _Choice(job, timeline, calls)
        job.choices.append(choice)  # type: ignore[arg-type]
        assert self.lobby.join(job, [timeline], self.now) is None
        assert self.lobby.release(self.now) == []
        while timeline.finish is None:
            step = self.scheduler.plan(self.now)
            for one in step.admitted if step is not None else ():
                self.lobby.admitted(job, one)
            if step is None or self.scheduler.open:
                open_step = self.scheduler.open[0]
                self.scheduler.complete([7] * len(open_step.rows), 1000, self.now)
        while self.scheduler.open:
            self.scheduler.complete([7] * len(self.scheduler.open[0].rows), 1000, self.now)
        self.lobby.left(choice)  # type: ignore[arg-type]
        self.lobby.publish(choice, self.now)  # type: ignore[arg-type]
        return timeline


class _Choice:
    def __init__(self, job: Job, timeline: Timeline, calls: tuple[str, ...]) -> None:
        self.job, self.timeline, self.calls = job, timeline, calls


SYSTEM = list(range(1000, 3000))


def _kept(timeline: Timeline) -> int:
    assert timeline.placement is not None
    return timeline.placement.keep


def test_an_agents_conversation_keeps_its_bank_among_titles_topics_and_side_agents() -> None:
    talk = Talk(2)
    history = [*SYSTEM, *range(5000, 5100)]
    lost = 0
    for turn in range(20):
        results = (f"toolu_{turn - 1}",) if turn else ()
        main = talk.answer(history, calls=(f"toolu_{turn}",), results=results)
        if turn:
            lost += len(history) - 60 - _kept(main)
        history = [*history, *main.drawn, *range(9000 + 60 * turn, 9060 + 60 * turn)]
        # Meanwhile: a title with a prompt of its own, and a side agent that shares the long system prompt.
        talk.answer([*range(20_000 + 100 * turn, 20_080 + 100 * turn)])
        talk.answer([*SYSTEM, *range(30_000 + 100 * turn, 30_050 + 100 * turn)])
    assert lost <= 20 * 5, "all but the newest tool results of each turn were held"


def test_a_conversation_of_text_keeps_its_bank_while_a_colder_one_is_free() -> None:
    talk = Talk(3)
    history, lost = [*SYSTEM, *range(5000, 5100)], 0
    for turn in range(10):
        main = talk.answer(history)
        lost += len(history) - 60 - _kept(main) if turn else 0
        history = [*history, *main.drawn, *range(9000 + 60 * turn, 9060 + 60 * turn)]
        talk.answer([*range(20_000 + 100 * turn, 20_080 + 100 * turn)])
        side = talk.answer([*SYSTEM, *range(30_000 + 100 * turn, 30_050 + 100 * turn)])
        assert _kept(side) >= len(SYSTEM), "what it shares is copied, not computed again"
    assert lost <= 10 * 5


def test_a_follow_up_goes_to_the_bank_that_was_kept_for_it_and_is_traced_as_a_continuation() -> None:
    talk = Talk(3)
    first = talk.answer([*SYSTEM, 1], calls=("call_a", "call_b"), surface="responses")
    assert first.bank is not None and talk.lobby.turns.ranks(10**9) == [(first.bank.index, 1)]
    follow = talk.answer([*SYSTEM, 1, *first.drawn, 2], results=("call_b", "call_a"), surface="responses")
    assert follow.bank is first.bank and follow.home == first.bank.index
    assert [record.live for record in talk.lobby.turns.records] == [False]
    assert talk.lobby.facts()["turns_live"] == 0


def test_another_keys_call_ids_lead_nowhere_and_take_no_guard_away() -> None:
    talk = Talk(2)
    first = talk.answer([*SYSTEM, 1], calls=("call_a",), scope=1)
    thief = talk.answer([*SYSTEM, 1, *first.drawn, 2], results=("call_a",), scope=2)
    assert thief.home == -1 and thief.bank is not first.bank and _kept(thief) == 0
    follow = talk.answer([*SYSTEM, 1, *first.drawn, 2], results=("call_a",), scope=1)
    assert follow.bank is first.bank and _kept(follow) > len(SYSTEM)


def test_side_work_takes_a_guarded_bank_only_where_there_is_no_other() -> None:
    talk = Talk(2)
    one = talk.answer([*range(100, 200)], calls=("a",))
    two = talk.answer([*range(300, 400)], calls=("b",))
    side = talk.answer([*range(500, 600)])
    assert side.bank is one.bank, "the turn that was published first gives way"
    assert two.bank is not side.bank
    again = talk.answer([*range(700, 800)])
    assert again.bank is side.bank, "nobody comes back for side work"


def test_the_calls_that_a_conversation_ends_with_are_those_of_its_last_tool_messages() -> None:
    def tool(name: str) -> dict[str, str]:
        return {"role": "tool", "tool_call_id": name}

    user, answer = {"role": "user", "content": "x"}, {"role": "assistant"}
    assert tail_calls([user, answer, tool("a"), tool("b")]) == ("a", "b")
    assert tail_calls([user, answer, tool("a"), user]) == ("a",)
    assert tail_calls([user, tool("old"), answer, tool("a")]) == ("a",)
    assert tail_calls([user, tool("old"), answer, user]) == ()
    assert tail_calls([tool("a")]) == ("a",) and tail_calls([]) == () and tail_calls([user]) == ()
