"""wire: an answer's events as the SSE stream or the body of its surface."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Failed, Finished, KeepAlive, TokenLogprob
from ds4.server.surfaces.asked import Surface
from ds4.server.surfaces.messages_render import MessagesFacts
from ds4.server.surfaces.rendering import AnswerFacts
from ds4.server.surfaces.responses_answer import ResponseFacts
from ds4.server.surfaces.responses_tools import Tool
from ds4.server.surfaces.wire_steps import Facts, Step
from ds4.server.surfaces.wire_tapes import Given, WireInput, by_tape, run, write_input

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

_TEXTS = (
    *("Hello", " world", "", "é", "日本", "😀", '"', "\\", "\n\n", "\x00\x1f\x7f", "\u2028", "data: x\n\nevent: y"),
    *("a", "b ", "</think>", "{}", "\t\r\b\f", "𝄞", "/"),
)  # fmt: skip
_ARGUMENTS = (
    *('{"a": 1', ', "b": "x', '"', "}", "{", '"', ": ", "[1, {", "]", "tru", "e", "null", " ", "\n", "-0", "1e5"),
    *("NaN", '{"a": 1}', "{}", "[", '"\\ud83d', "\\ude00", "\\u00e9", "\\", "x", '"input"', "9" * 20, "\x01", ","),
    *("é", "\u00a0", '"k": [2], '),
)  # fmt: skip
_CUSTOM = (
    *('{"input": "', '{"input"', ": ", '"', "}", "x", "\\", "u", "\\ud83d", "\\ude00", "\\u0041", "d83d", "\\n", "\\q"),
    *("\\uZ", " ", '{"x": 1, "input": "y\\ud800"}', "{", "[", "NaN", "\n", "\x02", "é", "\u00a0", '{"input": 3}', "1"),
)  # fmt: skip
_TOKENS = (
    *(b"a", b" the", b"\xc3\xa9", b"\xe4\xb8", b"\xf0\x9f\x98", b"\xff", b"\xed\xa0\x80", b"", b'"\\', b"\xc0\xaf"),
    *(b"\xf4\x90\x80\x80", b"\xe2\x28\xa1", b"x\xf0\x80y", b"\xf0\x9f\x98\x80", b"\n"),
)  # fmt: skip
_NUMBERS = (0.0, -0.5, -1e-07, -9999.0, -0.1, -2.5e16, -1.0, -0.30000000000000004, 5e-324, -1.7976931348623157e308)
_TIMES = (1.0, 1.5, 1.2345675, 0.0, 2.0, 2.0005, 3.1415926535, 1e9, 1e12, 1e-300, 1.0000005)
_STATUSES = (500, 503, 429, 400, 401, 403, 404, 408, 413, 504, 502, 499, 599)
_MEMBERS = (
    *(("id", b'"resp_1"'), ("store", b"true"), ("temperature", b"1.0"), ("tools", b'[ {"type":"custom"} ]')),
    *(("metadata", b'{"k": "\\u00e9"}'), ("\u00e9\n", b"null"), ("big", b"9" * 30), ("object", b'"response"')),
)  # fmt: skip
_TOOLS = {
    "f": Tool("f"),
    "patch": Tool("patch", custom=True),
    "ns.g": Tool("g", "ns"),
    "ns.p": Tool("p", "ns", custom=True),
    "e": Tool("e", ""),
}
_NAMES = ("f", "patch", "ns.g", "ns.p", "made up", "", "e")
_COUNTS = (1, 5, 0, 100, 2**31)


class _Story:
    """Makes events that there can be, one after another."""

    def __init__(self, choose: Choices, surface: Surface, facts: Facts) -> None:
        self.choose, self.surface, self.facts = choose, surface, facts
        self.choices = facts.choices if isinstance(facts, AnswerFacts) else 1
        self.left = list(range(self.choices))
        self.calls = [0] * self.choices
        self.open: list[tuple[int, str] | None] = [None] * self.choices
        self.tokens: list[bytes] = []
        self.plain = isinstance(facts, AnswerFacts) and not facts.reads

    def text(self) -> str:
        return "".join([self.choose.of(_TEXTS) for _ in range(1 + self.choose.below(2))])

    def logprobs(self) -> list[TokenLogprob] | None:
        if isinstance(self.facts, MessagesFacts):
            return None
        if isinstance(self.facts, AnswerFacts):
            if not self.facts.logprobs:
                return None
        elif not self.choose.once_in(4):
            return None
        entries = []
        for _ in range(self.choose.below(3)):
            pairs = []
            for _ in range(1 + self.choose.below(4)):
                pairs.append((len(self.tokens), self.choose.of(_NUMBERS)))
                self.tokens.append(self.choose.of(_TOKENS))
            entries.append(TokenLogprob(*pairs[0], pairs[1:]))
        return entries

    def next(self) -> Step:
        choose = self.choose
        choice = choose.of(self.left)
        how = choose.below(32)
        opened = self.open[choice]
        if self.plain or how < 8:
            self.open[choice] = None
            return Delta(choice, self.text(), self.logprobs())
        if how < 12:
            self.open[choice] = None
            return Delta(choice, self.text(), self.logprobs(), reasoning=True)
        if opened is not None and how < 15:
            self.open[choice] = None
            return CallsVoid(choice, opened[0] if how < 14 else choose.below(opened[0] + 1))
        if opened is not None and how < 27:
            pieces = _CUSTOM if opened[1] in ("patch", "ns.p") else _ARGUMENTS
            arguments = "".join([choose.of(pieces) for _ in range(1 + choose.below(3))])
            return CallDelta(choice, opened[0], arguments=arguments, logprobs=self.logprobs())
        if self.calls[choice] and how == 27:
            return CallDelta(choice, choose.below(self.calls[choice]), logprobs=self.logprobs())
        name = choose.of(_NAMES)
        self.open[choice] = self.calls[choice], name
        self.calls[choice] += 1
        pieces = _CUSTOM if name in ("patch", "ns.p") else _ARGUMENTS
        arguments = choose.of(pieces) if how % 2 else ""
        index = self.calls[choice] - 1
        return CallDelta(choice, index, f"call_{index}", name, arguments, self.logprobs())

    def end(self) -> Step:
        choose = self.choose
        choice = self.left.pop(choose.below(len(self.left)))
        prompt = choose.of(_COUNTS)
        arrived = choose.of(_TIMES)
        first = arrived + choose.of((0.25, 0.0001234, 0.0)) if choose.below(4) else choose.of(_TIMES)
        last = first + choose.of((0.5, 3.3333, 0.0)) if choose.below(4) else choose.of(_TIMES)
        arrived, first, last = (min(time, 1e12) for time in (arrived, first, last))
        stop = choose.of((None, None, "END", "", '"\n'))
        return Finished(
            choice,
            choose.of(("stop", "tool_calls", "length")),
            prompt,
            choose.below(prompt + 1) if prompt < 256 else 7,
            choose.of(_COUNTS),
            arrived,
            first,
            last,
            choose.of((0, 3)),
            stop,
        )

    def failure(self) -> Step:
        choose = self.choose
        texts = choose.of((None, "x", "", "é")), choose.of((None, "messages", ""))
        return Failed(ApiError(choose.of(_STATUSES), self.text(), code=texts[0], param=texts[1], type="server_error"))


def _facts(choose: Choices, surface: Surface, streamed: bool, items: int) -> Facts:
    how = choose.below(256)
    bits = [bool(how >> n & 1) for n in range(8)]
    match surface:
        case "messages":
            return MessagesFacts("msg_1", "m\u00e9", choose.of(_COUNTS), bits[0], bits[1], bits[2] and bits[3], "req_1")
        case "responses":
            members = dict(_MEMBERS[: choose.below(len(_MEMBERS) + 1)])
            suffixes = [f"{n:x}" for n in range(items)]
            queued = bits[0] and not streamed
            given = Given(suffixes, 1764400000)
            return ResponseFacts(members, _TOOLS, queued, bits[1], bits[2] and bits[3], bits[4] or bits[5], given)
    n, prompts = choose.of(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (3, 1)))
    return AnswerFacts("id", 1764400000, 'm"\n', "fp", n, prompts, bits[0], bits[1] and bits[2], surface == "chat")


def tape(seed: bytes) -> bytes:
    """The input that a seed stands for."""
    choose = Choices(seed)
    surface: Surface = choose.of(("responses", "messages", "chat", "completions", "responses", "messages", "chat"))
    streamed = choose.below(3) < 2
    length = choose.below(14)
    facts = _facts(choose, surface, streamed, length)
    story = _Story(choose, surface, facts)
    steps: list[Step] = ["open"] if streamed else []
    for _ in range(length):
        if streamed and choose.once_in(12):
            steps.append(KeepAlive())
        if surface == "responses" and choose.once_in(24):
            steps.append("whole")
        steps.append(story.next())
        if len(story.left) > 1 and choose.once_in(6):
            steps.append(story.end())
    how = choose.below(16)
    failed = how == 15
    if failed:
        steps.append(story.failure())
    elif how == 14 and surface == "responses":
        steps.append("cancel")
    else:
        while story.left:
            steps.append(story.end())
    if surface == "responses" and choose.once_in(8):
        steps.append("unstored")
    if streamed:
        steps.append("close")
    if surface == "responses" or not (streamed or failed):
        steps.append("whole")
    return write_input(WireInput(surface, streamed, facts, steps, story.tokens))


def _soak(rng: random.Random) -> bytes:
    """A long answer: hundreds of pieces and calls."""
    choose = Choices(rng.randbytes(20_000))
    surface: Surface = rng.choice(("chat", "messages", "responses"))
    streamed = rng.random() < 0.7
    facts = _facts(choose, surface, streamed, 600)
    story = _Story(choose, surface, facts)
    steps: list[Step] = [*(["open"] if streamed else [])]  # type: ignore[list-item]
    steps += [story.next() for _ in range(600)]
    while story.left:
        steps.append(story.end())
    steps += ["close"] if streamed else ["whole"]
    return write_input(WireInput(surface, streamed, facts, steps, story.tokens))


def _spoken() -> tuple[Callable[[], object], bytes]:
    """A stream of 200 pieces of text, as chat completions."""
    facts = AnswerFacts("chatcmpl-0123456789abcdef", 1764400000, "model", "fp", usage=True, reads=True)
    events: list[Any] = [Delta(0, f" word{n}") for n in range(200)]
    end = Finished(0, "stop", 20, 0, 200, 1.0, 1.5, 9.0)
    given = WireInput("chat", True, facts, ["open", *events, end, "close"])
    return lambda: run(given), write_input(given)


COMPONENT = Component(
    name="wire",
    about="an answer's events as the SSE stream or the JSON body of chat, completions, messages or responses",
    axes=("wire", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=24, most=256),
    soak=_soak,
    speed=Speed(_spoken),
    sources=(
        "host/ds4/core/json_text.py",
        "host/ds4/server/envelopes.py",
        "host/ds4/server/errors.py",
        "host/ds4/server/events.py",
        "host/ds4/server/limits.py",
        "host/ds4/server/surfaces/chat_render.py",
        "host/ds4/server/surfaces/chunk_render.py",
        "host/ds4/server/surfaces/completions_render.py",
        "host/ds4/server/surfaces/messages_render.py",
        "host/ds4/server/surfaces/rendering.py",
        "host/ds4/server/surfaces/responses_answer.py",
        "host/ds4/server/surfaces/responses_parts.py",
        "host/ds4/server/surfaces/responses_tools.py",
        "host/ds4/server/surfaces/wire*.py",
        "host/ds4/server/surfaces/writing.py",
        "oracles/wire/*",
        "oracles/common/*",
        "parity/components/wire.py",
        "parity/choices.py",
        "goldens/wire/**",
    ),
)
