"""The wire form of `wire`, as oracles/wire/README.md states it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from ds4.core.json_text import is_json
from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Failed, Finished, KeepAlive, TokenLogprob
from ds4.server.limits import LARGEST_COUNT, UINT64
from ds4.server.surfaces.asked import Surface
from ds4.server.surfaces.chat_render import ChatRenderer
from ds4.server.surfaces.completions_render import CompletionRenderer
from ds4.server.surfaces.messages_render import MessagesFacts, MessagesRenderer
from ds4.server.surfaces.rendering import AnswerFacts, TokenBytes
from ds4.server.surfaces.responses_answer import Outside, ResponseAnswer, ResponseFacts
from ds4.server.surfaces.responses_tools import Tool
from ds4.server.surfaces.wire_steps import Facts, Order, Said, Step, bad
from ds4.server.surfaces.writing import Rendered, Writing
from ds4.sys.tape import TapeError, escape, lines, unescape

_SURFACES = (b"chat", b"completions", b"messages", b"responses")
_SAID = (b"open", b"close", b"whole", b"cancel", b"unstored")
_FIXED = frozenset({"error", "incomplete_details", "completed_at", "usage", "status", "timings", "output"})
_LATEST = 1e12
_SECONDS = (1 << 53) - 1


class Given(Outside):
    """Ids and a time that are on the tape."""

    def __init__(self, suffixes: Sequence[str] = (), finished: int = 0) -> None:
        super().__init__()
        self._suffixes, self._finished = list(suffixes), finished

    def suffix(self, number: int) -> str:
        if number >= len(self._suffixes):
            raise TapeError("more items than suffixes")
        return self._suffixes[number]

    @property
    def suffixes(self) -> Sequence[str]:
        return self._suffixes


@dataclass(frozen=True, slots=True)
class WireInput:
    """tokens: bytes of the tokens that the events' log-probabilities name."""

    surface: Surface
    streamed: bool
    facts: Facts
    steps: Sequence[Step]
    tokens: Sequence[bytes] = ()


class Written(Rendered):
    """The replacement, but for responses."""

    def __init__(
        self, surface: str, facts: AnswerFacts | MessagesFacts, streamed: bool, token_bytes: TokenBytes
    ) -> None:
        if isinstance(facts, MessagesFacts):
            super().__init__(MessagesRenderer(facts), 1, streamed)
        else:
            kind = ChatRenderer if surface == "chat" else CompletionRenderer
            super().__init__(kind(facts, token_bytes), facts.choices, streamed)


# ---- writing the input ----


def double(value: float) -> int:
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


def _optional(text: str | None) -> bytes:
    return b"-" if text is None else b"=" + escape(text)


def write_head(surface: str, streamed: bool, facts: Facts) -> bytes:
    """The lines in front of the events."""
    head = b"wire %b %d\n" % (surface.encode(), streamed)
    if isinstance(facts, AnswerFacts):
        return head + b"facts %b %d %b %b %d %d %d %d %d\n" % (
            *(escape(facts.id), facts.created, escape(facts.model), escape(facts.fingerprint)),
            *(facts.n, facts.prompts, facts.usage, facts.logprobs, facts.reads),
        )
    if isinstance(facts, MessagesFacts):
        return head + b"facts %b %b %d %d %d %d %b\n" % (
            *(escape(facts.id), escape(facts.model), facts.prompt),
            *(facts.writes, facts.hides, facts.warms, escape(facts.request_id)),
        )
    assert isinstance(facts.outside, Given)
    rows = [
        b"facts %d %d %d %d %d\n"
        % (facts.outside.finished(), facts.queued, facts.summary, facts.sealed, facts.parallel)
    ]
    rows += [b"member %b %b\n" % (escape(name), escape(value)) for name, value in facts.members.items()]
    rows += [
        b"tool %b %b %b %d\n" % (escape(told), escape(tool.name), _optional(tool.namespace), tool.custom)
        for told, tool in facts.tools.items()
    ]
    rows += [b"suffix %b\n" % escape(suffix) for suffix in facts.outside.suffixes]
    return head + b"".join(rows)


def write_step(step: Step, token_bytes: TokenBytes) -> bytes:
    match step:
        case str():
            return step.encode() + b"\n"
        case Delta():
            verb = b"reasoning" if step.reasoning else b"delta"
            return b"%b %d %b %b" % (verb, step.choice, escape(step.text), _tokens(step.logprobs, token_bytes))
        case CallDelta():
            words = escape(step.id), escape(step.name), escape(step.arguments), _tokens(step.logprobs, token_bytes)
            return b"call %d %d %b %b %b %b" % (step.choice, step.index, *words)
        case CallsVoid():
            return b"void %d %d\n" % (step.choice, step.first)
        case Finished():
            times = double(step.arrived), double(step.first_token), double(step.last_token)
            return b"finish %d %b %d %d %d %d %d %d %d %b\n" % (
                *(step.choice, step.reason.encode(), step.prompt_tokens, step.cached_tokens, step.completion_tokens),
                *(*times, step.reasoning_tokens, _optional(step.stop)),
            )
        case Failed(error):
            optional = _optional(error.code), _optional(error.param)
            return b"fail %d %b %b %b %b\n" % (error.status, escape(error.type), *optional, escape(error.message))
        case KeepAlive():
            return b"alive\n"
    raise AssertionError(f"{step!r} is nothing that is written")


def _tokens(entries: list[TokenLogprob] | None, token_bytes: TokenBytes) -> bytes:
    if entries is None:
        return b"-\n"
    rows = [b"%d\n" % len(entries)]
    for entry in entries:
        pairs = [(entry.token, entry.logprob), *entry.top]
        words = [b"%b %d" % (escape(token_bytes(token)), double(value)) for token, value in pairs]
        rows.append(b"token %b\n" % b" ".join(words))
    return b"".join(rows)


def write_input(given: WireInput) -> bytes:
    steps = [write_step(step, given.tokens.__getitem__) for step in given.steps]
    return write_head(given.surface, given.streamed, given.facts) + b"".join(steps)


# ---- reading it ----


def _text(word: bytes) -> str:
    try:
        return unescape(word).decode()
    except UnicodeDecodeError:
        raise bad("not text") from None


def _number(word: bytes, most: int, least: int = 0) -> int:
    if not word.isdigit() or (word[:1] == b"0" and word != b"0") or len(word) > 20 or not least <= int(word) <= most:
        raise bad(f"not a number from {least} to {most}")
    return int(word)


def _count(word: bytes, least: int = 0) -> int:
    return _number(word, LARGEST_COUNT, least)


def _switch(word: bytes) -> bool:
    return bool(_number(word, 1))


def _maybe(word: bytes) -> str | None:
    if word == b"-":
        return None
    if word[:1] != b"=":
        raise bad("not an optional text")
    return _text(word[1:])


def _double(word: bytes) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", _number(word, UINT64)))[0]
    if not math.isfinite(value):
        raise bad("not finite")
    return value


def _time(word: bytes) -> float:
    value = _double(word)
    if not 0.0 <= value <= _LATEST or math.copysign(1.0, value) < 0:
        raise bad("not a time")
    return value


def _openai_facts(words: list[bytes], surface: bytes) -> AnswerFacts:
    id, created, model, fingerprint, n, prompts, usage, logprobs, reads = words
    facts = AnswerFacts(
        id=_text(id),
        created=_number(created, _SECONDS),
        model=_text(model),
        fingerprint=_text(fingerprint),
        n=_number(n, 8, 1),
        prompts=_number(prompts, 64, 1),
        usage=_switch(usage),
        logprobs=_switch(logprobs),
        reads=_switch(reads),
    )
    if facts.reads and surface == b"completions":
        raise bad("completions are not read")
    return facts


def _messages_facts(words: list[bytes]) -> MessagesFacts:
    id, model, prompt, writes, hides, warms, request = words
    switches = _switch(writes), _switch(hides), _switch(warms)
    return MessagesFacts(_text(id), _text(model), _count(prompt), *switches, _text(request))


def _response_facts(words: list[bytes], rows: Iterator[list[bytes]]) -> tuple[ResponseFacts, list[bytes] | None]:
    """The facts, and the row behind them."""
    finished, queued, summary, sealed, parallel = words
    members: dict[str, bytes] = {}
    tools: dict[str, Tool] = {}
    suffixes: list[str] = []
    row = next(rows, None)
    while row is not None and row[:1] == [b"member"] and len(row) == 3:
        name, value = _text(row[1]), _text(row[2])
        if name in members or name in _FIXED or not is_json(value):
            raise bad("a member")
        members[name] = value.encode()
        row = next(rows, None)
    while row is not None and row[:1] == [b"tool"] and len(row) == 5:
        if (told := _text(row[1])) in tools:
            raise bad("a tool")
        tools[told] = Tool(_text(row[2]), _maybe(row[3]), _switch(row[4]))
        row = next(rows, None)
    while row is not None and row[:1] == [b"suffix"] and len(row) == 2:
        suffixes.append(_text(row[1]))
        row = next(rows, None)
    given = Given(suffixes, _number(finished, _SECONDS))
    switches = _switch(queued), _switch(summary), _switch(sealed), _switch(parallel)
    return ResponseFacts(members, tools, *switches, given), row


class _Steps:
    """The rows of the events as steps."""

    def __init__(self, rows: Iterator[list[bytes]]) -> None:
        self._rows = rows
        self.tokens: list[bytes] = []

    def read(self, words: list[bytes]) -> Step:
        match words:
            case [verb] if verb in _SAID:
                return cast(Said, verb.decode())
            case [b"alive"]:
                return KeepAlive()
            case [b"delta" | b"reasoning" as verb, choice, text, tokens]:
                return Delta(_count(choice), _text(text), self._logprobs(tokens), verb == b"reasoning")
            case [b"call", choice, index, id, name, arguments, tokens]:
                texts = _text(id), _text(name), _text(arguments)
                return CallDelta(_count(choice), _count(index), *texts, self._logprobs(tokens))
            case [b"void", choice, first]:
                return CallsVoid(_count(choice), _count(first))
            case [b"finish", choice, b"stop" | b"length" | b"tool_calls" as reason, *counts, thought, stop] if (
                len(counts) == 6
            ):
                why = cast("Literal['stop', 'length', 'tool_calls']", reason.decode())
                prompt, cached, completion = map(_count, counts[:3])
                times = _time(counts[3]), _time(counts[4]), _time(counts[5])
                end = _count(thought), _maybe(stop)
                return Finished(_count(choice), why, prompt, cached, completion, *times, *end)
            case [b"fail", status, type, code, param, message]:
                error = ApiError(_number(status, 599, 400), _text(message), code=_maybe(code), param=_maybe(param))
                error.type = _text(type)
                return Failed(error)
        raise bad("not an event")

    def _logprobs(self, word: bytes) -> list[TokenLogprob] | None:
        if word == b"-":
            return None
        entries = []
        for _ in range(_count(word)):
            row = next(self._rows, [])
            if row[:1] != [b"token"] or len(row) < 3 or len(row) % 2 == 0:
                raise bad("not a token")
            pairs = []
            for at in range(1, len(row), 2):
                pairs.append((len(self.tokens), _double(row[at + 1])))
                self.tokens.append(unescape(row[at]))
            entries.append(TokenLogprob(*pairs[0], pairs[1:]))
        return entries


def read_input(tape: bytes) -> WireInput:
    """TapeError for what is no tape of wire; but that there are too few suffixes shows only when they are used."""
    rows = iter(lines(tape))
    match next(rows, None):
        case [b"wire", surface, word] if surface in _SURFACES:
            streamed = _switch(word)
        case _:
            raise bad("the first line")
    head = next(rows, [])
    lengths = {b"messages": 8, b"responses": 6}
    if head[:1] != [b"facts"] or len(head) != lengths.get(surface, 10):
        raise bad("the facts")
    facts: Facts
    row: list[bytes] | None
    if surface == b"responses":
        facts, row = _response_facts(head[1:], rows)
        if facts.queued and streamed:
            raise bad("streamed from the background")
    else:
        facts = _messages_facts(head[1:]) if surface == b"messages" else _openai_facts(head[1:], surface)
        row = next(rows, None)
    reader, order, steps = _Steps(rows), Order(surface, streamed, facts), list[Step]()
    while row is not None:
        step = reader.read(row)
        order.check(step)
        steps.append(step)
        row = next(rows, None)
    return WireInput(cast(Surface, surface.decode()), streamed, facts, steps, reader.tokens)


# ---- the answer ----


def run(given: WireInput) -> list[tuple[bool, bytes]]:
    """What each step gives, and whether it is the whole body."""
    token_bytes = given.tokens.__getitem__
    if isinstance(given.facts, ResponseFacts):
        response = ResponseAnswer(given.facts, given.streamed, token_bytes)
        also: dict[str, Callable[[], None]] = {"cancel": response.cancel, "unstored": response.not_stored}
        return _play(response, given.steps, also)
    return _play(Written(given.surface, given.facts, given.streamed, token_bytes), given.steps, {})


def _play(writing: Writing, steps: Sequence[Step], also: dict[str, Callable[[], None]]) -> list[tuple[bool, bytes]]:
    out = []
    for step in steps:
        match step:
            case "open":
                out.append((False, writing.opening()))
            case "close":
                out.append((False, writing.closing()))
            case "whole":
                out.append((True, writing.whole()))
            case str():
                also[step]()
                out.append((False, b""))
            case _:
                out.append((False, writing.take(step)))
    return out


def write_output(result: Sequence[tuple[bool, bytes]]) -> bytes:
    return b"".join([b"%b %b\n" % (b"body" if whole else b"sent", escape(data)) for whole, data in result])


def read_output(tape: bytes) -> list[tuple[bool, bytes]]:
    """TapeError for what is no output of wire."""
    out = []
    for row in lines(tape):
        if len(row) != 2 or row[0] not in (b"sent", b"body"):
            raise bad("not an output line")
        out.append((row[0] == b"body", unescape(row[1])))
    return out


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))
