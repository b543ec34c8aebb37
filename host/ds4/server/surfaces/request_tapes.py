"""The wire form of `request`, as oracles/request/README.md states it, and requests read by the oracle."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ds4.core.chat import ChatRequest
from ds4.core.json_text import dumps
from ds4.core.output.grammar.rules import ToolRule
from ds4.core.sampling import Sampling
from ds4.errors import SamplingError
from ds4.server.errors import ApiError, from_error
from ds4.server.limits import UINT64
from ds4.server.request import Body, Options, parse_json
from ds4.server.surfaces import chat_request, completions_request, messages_request, responses_request
from ds4.server.surfaces.asked import Asked, Kept, ModelFacts, Shown, Surface
from ds4.server.surfaces.request_outside import outside
from ds4.server.surfaces.responses_tools import INPUT, Tool, Tools
from ds4.server.surfaces.tool_rules import ToolChoice, rules
from ds4.server.surfaces.wire_tapes import double
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, line, lines, text, unescape

_READERS = {
    "chat": chat_request.read,
    "completions": completions_request.read,
    "messages": messages_request.read,
    "responses": responses_request.read,
}


@dataclass(frozen=True, slots=True)
class RequestInput:
    surface: Surface
    model: ModelFacts
    body: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    status: int
    code: str | None
    param: str | None


@dataclass(frozen=True, slots=True)
class Outside:
    """The body has a field that is outside of the contract."""

    field: str


RequestResult = Asked | Refused | Outside


def replacement(surface: Surface, body: Body, model: ModelFacts) -> Asked:
    return _READERS[surface](body, model)


# ---- input ----


def write_input(given: RequestInput) -> bytes:
    model = given.model
    head = "request", given.surface, int(model.chats), int(model.thinks), int(model.cache), model.n_vocab
    defaults = _drawn(model.defaults)
    return line(*head) + line("model", model.name.encode()) + line("defaults", *defaults) + given.body


def _drawn(sampling: Sampling) -> list[int]:
    return [
        double(sampling.temperature),
        double(sampling.top_p),
        sampling.top_k,
        double(sampling.min_p),
        double(sampling.repetition_penalty),
        double(sampling.frequency_penalty),
        double(sampling.presence_penalty),
    ]


def _unsigned(word: bytes, most: int) -> int:
    if not word.isdigit() or (word[:1] == b"0" and word != b"0") or len(word) > 20 or int(word) > most:
        raise TapeError(f"not a number up to {most}: {word[:40]!r}")
    return int(word)


def _number(word: bytes) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", _unsigned(word, UINT64)))[0]
    return value


def _sampling(words: Sequence[bytes], **more: Any) -> Sampling:
    temperature, top_p, top_k, *others = words
    least, repetition, frequency, presence = map(_number, others)
    try:
        return Sampling(
            _number(temperature), _number(top_p), _unsigned(top_k, 2**31 - 1), least, repetition, frequency, presence,
            **more,
        )  # fmt: skip
    except SamplingError as error:
        raise TapeError(f"not a way to draw: {error}") from None


def read_input(tape: bytes) -> RequestInput:
    """TapeError for what is no tape of request."""
    *head, body = tape.split(b"\n", 3)
    if len(head) != 3:
        raise TapeError("three lines stand in front of the body")
    rows = [row.split(b" ") for row in head]
    match rows:
        case [
            [b"request", b"chat" | b"completions" | b"messages" | b"responses" as surface, *facts],
            [b"model", name],
            [b"defaults", *defaults],
        ] if len(facts) == 4 and len(defaults) == 7:
            chats, thinks, cache = (bool(_unsigned(word, 1)) for word in facts[:3])
            n_vocab = _unsigned(facts[3], 2**31 - 1)
        case _:
            raise TapeError("not the lines in front of a body")
    if not n_vocab:
        raise TapeError("a vocabulary of nothing")
    try:
        called = unescape(name).decode()
    except UnicodeDecodeError:
        raise TapeError("the model's name is not text") from None
    model = ModelFacts(called, n_vocab, chats, thinks, cache, _sampling(defaults))
    return RequestInput(cast(Surface, surface.decode()), model, body)


# ---- the answer ----


def run(given: RequestInput) -> RequestResult:
    try:
        body = parse_json(given.body)
        if field := outside(given.surface, dict(body.data)):
            return Outside(field)
        return replacement(given.surface, body, given.model)
    except (ApiError, SamplingError) as error:
        told = from_error(error)
        return Refused(told.status, told.code, told.param)


def _maybe(value: str | None) -> bytes:
    return b"-" if value is None else b"=" + escape(value)


def _integer(value: int | None) -> bytes:
    return b"-" if value is None else b"%d" % value


def _json(verb: bytes, values: Sequence[Any]) -> list[bytes]:
    return [b"%b %b\n" % (verb, escape(dumps(value))) for value in values]


def write_output(result: RequestResult) -> bytes:
    if isinstance(result, Refused):
        code = b"-" if result.code is None else escape(result.code)
        return b"error %d %b %b\n" % (result.status, code, _maybe(result.param))
    if isinstance(result, Outside):
        return b"outside %b\n" % escape(result.field)
    rows: list[bytes] = []
    if (chat := result.chat) is not None:
        rows.append(b"chat %b %b\n" % (_integer(chat.thinking), _maybe(chat.effort)))
        rows += _json(b"message", chat.messages) + _json(b"tool", chat.tools)
    for prompt in result.prompts:
        rows.append(b"prompt %b\n" % escape(prompt) if isinstance(prompt, str) else line("ids", *prompt))
    options, sampling = result.options, result.options.sampling
    rows.append(b"sampling %b %b\n" % (b" ".join([b"%d" % n for n in _drawn(sampling)]), _integer(sampling.seed)))
    rows += [b"bias %d %d\n" % (token, double(bias)) for token, bias in sampling.logit_bias.items()]
    rows += [b"stop %b\n" % escape(stop) for stop in options.stop]
    rows.append(b"answer %d %b %b\n" % (options.n, _integer(options.max_tokens), _integer(result.logprobs)))
    flags = options.stream, options.include_usage, options.ignore_eos, options.cache_prompt
    rows.append(b"flags %d %d %d %d\n" % flags)
    if (shown := result.shown) is not None:
        rows.append(b"shown %d %d %d %b\n" % (shown.caches, shown.hides, shown.warms, _integer(result.thought)))
    if (kept := result.kept) is not None:
        rows.append(b"keep %b %d %d\n" % (_maybe(kept.previous), kept.store, kept.background))
        rows.append(b"told %d %d %d\n" % (kept.summary, kept.sealed, kept.parallel))
        rows += _json(b"item", kept.items)
        rows += [
            b"known %b %b %b %d\n" % (escape(told), escape(tool.name), _maybe(tool.namespace), tool.custom)
            for told, tool in kept.tools.known.items()
        ]
        rows += _json(b"head", [kept.head])
    return b"".join(rows)


def _optional(word: bytes) -> str | None:
    return None if word == b"-" else text(word[1:])


def _count(word: bytes) -> int | None:
    return None if word == b"-" else _unsigned(word, UINT64)


def read_output(tape: bytes) -> RequestResult:
    """TapeError for what is no output of request."""
    rows = list(lines(tape))
    match rows:
        case [[b"error", status, code, param]]:
            return Refused(_unsigned(status, 599), None if code == b"-" else text(code), _optional(param))
        case [[b"outside", field]]:
            return Outside(text(field))
    try:
        return _asked(rows)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise TapeError(f"no output of request: {error}") from None


def _asked(rows: list[list[bytes]]) -> Asked:
    by: dict[bytes, list[list[bytes]]] = {}
    for verb, *words in rows:
        by.setdefault(verb, []).append(words)

    def values(verb: bytes) -> list[Any]:
        return [json.loads(text(word)) for (word,) in by.get(verb, [])]

    ((*drawn, seed),) = by[b"sampling"]
    biases = {_unsigned(token, 2**31): _number(bias) for token, bias in by.get(b"bias", [])}
    sampling = _sampling(drawn, logit_bias=biases, seed=_count(seed))
    ((n, budget, logprobs),) = by[b"answer"]
    ((stream, usage, ignore_eos, cache),) = by[b"flags"]
    stop = tuple([text(word) for (word,) in by.get(b"stop", [])])
    switches = ignore_eos == b"1", cache == b"1", stream == b"1", usage == b"1"
    options = Options(sampling, int(n), _count(budget), stop, *switches, progress=False)
    chat = None
    if head := by.get(b"chat"):
        ((thinking, effort),) = head
        thinks = None if thinking == b"-" else thinking == b"1"
        chat = ChatRequest(values(b"message"), values(b"tool"), thinking=thinks, effort=_optional(effort))
    prompts: list[str | list[int]] = [
        text(words[0]) if verb == b"prompt" else [int(word) for word in words]
        for verb, *words in rows
        if verb in (b"prompt", b"ids")
    ]
    shown = most = None
    if facts := by.get(b"shown"):
        ((caches, hides, warms, thought),) = facts
        shown, most = Shown(caches == b"1", hides == b"1", warms == b"1"), _count(thought)
    kept = _kept(by, values, chat) if chat is not None and b"keep" in by else None
    if chat is not None and kept is not None:
        chat = replace(chat, calls=kept.tools.calls)
    return Asked(options, _count(logprobs), chat, prompts, shown, kept, thought=most)


def _kept(by: dict[bytes, list[list[bytes]]], values: Any, chat: ChatRequest) -> Kept:
    ((previous, store, background),) = by[b"keep"]
    ((summary, sealed, parallel),) = by[b"told"]
    known = {
        text(told): Tool(text(name), _optional(space), custom == b"1")
        for told, name, space, custom in by.get(b"known", [])
    }
    told_of = cast("list[dict[str, Any]]", list(chat.tools))
    tools = [
        ToolRule(name, text=INPUT) if tool.custom else ToolRule(name, one["function"]["parameters"])
        for (name, tool), one in zip(known.items(), told_of, strict=True)
    ]
    calls = rules(tools, ToolChoice(), parallel=parallel == b"1")
    items, (head,) = values(b"item"), values(b"head")
    whole = previous == b"-" and not any(item["type"] == "item_reference" for item in items)
    return Kept(
        previous=_optional(previous),
        store=store == b"1",
        background=background == b"1",
        summary=summary == b"1",
        sealed=sealed == b"1",
        parallel=parallel == b"1",
        items=items,
        whole=whole,
        tools=Tools(told_of, known, tools, calls),
        head=head,
    )


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


def by_oracle(surface: Surface, body: Body, model: ModelFacts) -> Asked:
    """A body read by the oracle; one that its contract does not speak of is read as without it."""
    result = read_output(oracle("request").run(write_input(RequestInput(surface, model, body.raw))))
    match result:
        case Asked():
            return result
        case Outside():
            return replacement(surface, body, model)
        case Refused():
            raise _told(result, surface, body, model)


def _told(refused: Refused, surface: Surface, body: Body, model: ModelFacts) -> ApiError:
    """The oracle's refusal; in the replacement's words, where that refuses for the same reason."""
    try:
        replacement(surface, body, model)
    except (ApiError, SamplingError) as error:
        told = from_error(error)
        if (told.status, told.code, told.param) == (refused.status, refused.code, refused.param):
            return told
    field = "" if refused.param is None else f"'{refused.param}': "
    return ApiError(refused.status, f"{field}{refused.code}", code=refused.code, param=refused.param)
