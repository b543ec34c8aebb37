"""Writes worked/*.jsonl: answers as the bytes of their surfaces.

    PYTHONPATH=host:host/tests python goldens/wire/generate.py

No renderer of ours is called: what stands here makes each message out of the whole story so far, by the shapes that the
APIs' references publish. Every stream and every body must then be one to the automata written from these references
(host/tests/support), and to the types of the official SDKs (openai, anthropic).
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from answers.chat import Chat
from answers.completions import Completions
from answers.messages import Messages
from answers.proof import prove
from answers.responses import Responses
from answers.said import Said
from answers.stories import FAILS, STORIES, Event, custom_of, events, plain_of
from answers.tape import Entries

HERE = pathlib.Path(__file__).parent
CASES: dict[str, list[tuple[str, bytes, bytes]]] = {}


def add(file: str, case: str, said: Said, given: list[Event], logprobs: Any = None) -> None:
    tape, out = said.play(given, logprobs)
    prove(said, out)
    CASES.setdefault(file, []).append((case, tape, out))


def framed(given: list[Event], streamed: bool, *before: Event) -> list[Event]:
    return [("open",), *given, *before, ("close",)] if streamed else [*given, *before, ("whole",)]


OPENAI: dict[str, Any] = {"n": 1, "prompts": 1, "usage": 0, "logprobs": False, "reads": 1}
ANTHROPIC: dict[str, Any] = {"writes": 0, "hides": 0, "warms": 0}
NEWER: dict[str, Any] = {"queued": 0, "summary": 0, "sealed": 0, "parallel": 1}


def stories() -> None:
    for story in STORIES:
        for streamed in (True, False):
            for how in (0, 1, 2):
                if how == 2 and (not streamed or len(str(STORIES[story][0])) > 90):
                    continue
                name = f"{story}, {'streamed' if streamed else 'whole'}, cut {how}"
                given = events(story, how)
                add("chat", name, Chat(streamed, **{**OPENAI, "usage": how % 2}), framed(given, streamed))
                if plain_of(story):
                    facts = {**OPENAI, "reads": 0, "usage": how % 2}
                    add("completions", name, Completions(streamed, **facts), framed(given, streamed))
                if not custom_of(story):
                    facts = {**ANTHROPIC, "writes": how % 2}
                    add("messages", name, Messages(streamed, story, **facts), framed(given, streamed))
                if not custom_of(story) or how == 0:
                    add("responses", name, Responses(streamed, custom_of(story), **NEWER), framed(given, streamed))


def variations() -> None:
    for story in ("thought", "thoughts between", "text and calls", "thought only", "void, then a call", "nothing"):
        for streamed in (True, False):
            given = events(story, 1)
            alive: list[Event] = [("alive",)] if streamed else []
            for name, facts in (("hidden", {"hides": 1}), ("warming", {"warms": 1}), ("written", {"writes": 1})):
                said: Said = Messages(streamed, story, **{**ANTHROPIC, **facts})
                add("messages", f"{story}, {name}, {streamed=}", said, framed([*alive, *given], streamed))
            for name, facts in (
                ("summary", {"summary": 1}),
                ("sealed", {"sealed": 1}),
                ("sealed summary", {"sealed": 1, "summary": 1}),
                ("one call", {"parallel": 0}),
            ):
                said = Responses(streamed, **{**NEWER, **facts})
                more: list[Event] = [("unstored",)] if name == "sealed" else []
                add("responses", f"{story}, {name}, {streamed=}", said, framed([*alive, *given], streamed, *more))
        given = [("whole",), *events(story, 1)[:-1], ("whole",), ("cancel",), ("unstored",), ("whole",)]
        add("responses", f"{story}, in the background, cancelled", Responses(False, **{**NEWER, "queued": 1}), given)
        given = [("open",), *events(story, 1)[:-1], ("cancel",), ("whole",), ("close",)]
        add("responses", f"{story}, streamed, cancelled", Responses(True, **NEWER), given)


def failures() -> None:
    for number, fail in enumerate(FAILS):
        event: Event = ("fail", *fail)
        for streamed in (True, False):
            for story, how in (("text and calls", 1), ("nothing", 0)):
                given = [*(events(story, how)[:-1]), event]
                ends: list[Event] = [("open",), ("alive",), *given, ("close",)] if streamed else given
                name = f"failure {number} after {story}, {streamed=}"
                add("chat", name, Chat(streamed, **OPENAI), ends)
                add("messages", name, Messages(streamed, story, **ANTHROPIC), ends)
                add("responses", name, Responses(streamed, **NEWER), [*ends, ("whole",)])
            ends = [("open",), ("delta", 0, "a"), event, ("close",)] if streamed else [event]
            add("completions", f"failure {number}, {streamed=}", Completions(streamed, **{**OPENAI, "reads": 0}), ends)


def choices() -> None:
    for n, prompts in ((2, 1), (3, 2), (8, 1)):
        for streamed in (True, False):
            for kind in (Chat, Completions):
                reads = int(kind is Chat)
                tracks = [
                    events(("thought", "a call", "text")[i % 3] if reads else ("text", "cut text")[i % 2], 1, i)
                    for i in range(n * prompts)
                ]
                given = []
                while any(tracks):
                    for track in reversed(tracks):
                        given += [track.pop(0)] if track else []
                facts = {**OPENAI, "n": n, "prompts": prompts, "usage": 1, "reads": reads}
                name = f"{prompts} prompts, {n} choices, {streamed=}"
                add(kind.surface, name, kind(streamed, **facts), framed(given, streamed))


def probabilities() -> None:
    def many(number: int, event: Event) -> Entries:
        drawn = [[(0, -0.5), (0, -0.5), (2, -1e-07), (5, -9999.0)], [(1, -0.25), (3, -2.0), (7, -3.0), (1, -4.0)]]
        return [*drawn, [(4, 0.0)], [(6, -1.5e16), (2, -1.0)]][number % 4 : 4]

    def few(number: int, event: Event) -> Entries:
        return [] if number % 2 else [[(number % 8, -0.1 * number)]]

    for story in ("text", "cut text", "thought", "text and calls", "void, then a call", "nothing"):
        for streamed in (True, False):
            for name, source in (("many", many), ("few", few)):
                case = f"log-probabilities of {story}, {name}, {streamed=}"
                given = framed(events(story, 1), streamed)
                add("logprobs", f"chat: {case}", Chat(streamed, **{**OPENAI, "logprobs": True}), given, source)
                add("logprobs", f"responses: {case}", Responses(streamed, **NEWER), given, source)
                if plain_of(story):
                    facts = {**OPENAI, "logprobs": True, "reads": 0}
                    add("logprobs", f"completions: {case}", Completions(streamed, **facts), given, source)


def main() -> None:
    for make in (stories, variations, failures, choices, probabilities):
        make()
    folder = HERE / "worked"
    folder.mkdir(exist_ok=True)
    for file, cases in CASES.items():
        rows = [
            json.dumps({"case": case, "input": tape.decode(), "expected": out.decode()}) + "\n"
            for case, tape, out in cases
        ]
        (folder / f"{file}.jsonl").write_text("".join(rows))
        print(file, len(cases), sum(map(len, rows)))


if __name__ == "__main__":
    main()
