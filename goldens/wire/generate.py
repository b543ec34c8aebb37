"""Writes worked/*.jsonl: answers as the bytes of their surfaces.

    PYTHONPATH=host:host/tests python goldens/wire/generate.py

No renderer of ours is called: what stands here makes each message out of the whole story so far, by the shapes that the
APIs' references publish. Every stream and every body must then be one to the automata written from these references
(host/tests/support), and to the types of the official SDKs (openai, anthropic).
"""

from __future__ import annotations

import base64
import json
import pathlib
import struct
from collections.abc import Iterator
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from ds4.sys.tape import line, lines, unescape
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from support.messages_events import MessageStream
from support.responses_automaton import check, parse

MSG = "msg_" + "0123456789abcdef" * 2
CALL_1, CALL_2 = (f"call_{n:032x}" for n in (1, 2))
HERE = pathlib.Path(__file__).parent
CHAT_EVENT: TypeAdapter[Any] = TypeAdapter(ChatCompletionChunk)
MESSAGES_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
RESPONSES_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

# ---- stories: t text, r reasoning, c call (id, name, pieces of arguments, the object that is certain), v void --------

WRITE = '{"path": "a.py", "n": 1.50, "deep": [{"x": null}]}'
INPUTS = {  # of the custom tool "patch": pieces of arguments, what each gives, what the end gives
    "plain": (['{"input": "é', '\\"\\\\\\n\\ud83d', '\\ude00x"}'], ["é", '"\\\n', "😀x"], ""),
    "halves": (['{ "input" :\t"\\ud8', "3d\\u0041", '\\udc00 \\q"', "}"], ["", "\ufffdA", "\ufffd q", ""], ""),
    "late": (['{"input": "\\ud83d\\ude', '00"}'], ["", "😀"], ""),
    "other": (['{"x": 1, "in', 'put": "y\\ud800"}'], ["", ""], "y\ufffd"),
    "none": (["rm -rf"], [""], "rm -rf"),
}
STORIES: dict[str, tuple[list[tuple[Any, ...]], tuple[str, str | None]]] = {
    "text": ([("t", 'Grüße, 世界 🌍!\n"quoted" \\ \x01\x7f\u2028')], ("stop", None)),
    "nothing": ([], ("stop", None)),
    "cut text": ([("t", "a “b")], ("length", None)),
    "a stop": ([("t", "one two ")], ("stop", "EN\nDE")),
    "thought": ([("r", "hm… "), ("t", "Yes.")], ("stop", None)),
    "thought only": ([("r", "hm and hm")], ("length", None)),
    "thoughts between": ([("r", "a"), ("t", "b"), ("r", "c"), ("t", "d")], ("stop", None)),
    "a call": ([("c", CALL_1, "f", WRITE, WRITE)], ("tool_calls", None)),
    "text and calls": (
        [("r", "so"), ("t", "Look:"), ("c", CALL_1, "f", WRITE, WRITE), ("c", CALL_2, "ns.g", "{}", "{}")],
        ("tool_calls", None),
    ),
    "a call without arguments": ([("c", CALL_1, "f", "", "{}")], ("length", None)),
    "a call that was cut": (
        [("c", CALL_1, "f", '{"a": [1, {"b": 2}], "c": "rm -rf /tm', '{"a": [1, {"b": 2}]}')],
        ("length", None),
    ),
    "a call cut in a number": ([("c", CALL_1, "f", '{"a": 1e5, "b": 12', '{"a": 1e5}')], ("length", None)),
    "arguments that are none": ([("c", CALL_1, "f", '{"a": NaN}', "{}")], ("tool_calls", None)),
    "a void call": ([("t", "a"), ("c", CALL_1, "f", '{"x": 1', "-"), ("v", 0), ("t", "<oops>")], ("stop", None)),
    "void, then a call": (
        [("c", CALL_1, "f", "{}", "-"), ("v", 0), ("t", "x"), ("c", CALL_2, "f", '{"y": 2}', '{"y": 2}')],
        ("tool_calls", None),
    ),
    "the second of two is void": (
        [("c", CALL_1, "f", "{}", "{}"), ("t", "-"), ("c", CALL_2, "g", "{}", "-"), ("v", 1), ("t", "z")],
        ("stop", None),
    ),
    **{
        f"a custom call: {name}": ([("c", CALL_1, "patch", pieces, None)], ("tool_calls", None))
        for name, (pieces, _, _) in INPUTS.items()
    },
}
FAILS = [
    (500, "server_error", "internal_error", None, "The engine failed: é😀\x7f\n"),
    (503, "server_error", "stopping", None, "The server is shutting down."),
    (429, "rate_limit_error", None, "messages", "Slower."),
    (400, "invalid_request_error", "x", "", "no"),
    (504, "server_error", None, None, "late"),
]
TOKENS = [b" caf\xc3\xa9", b"\xe4\xb8", b"\x96", b"\xf0\x9f\x8c\xff", b"", b'"\\', b"\xed\xa0\x80", b"\xe4\xb8"]
Event = tuple[Any, ...]


def text_cuts(text: str, how: int) -> list[str]:
    if how == 0 or len(text) < 2:
        return [text] if text else []
    if how == 1:
        return [text[: len(text) // 2], text[len(text) // 2 :]]
    return list(text)


def events(story: str, how: int, choice: int = 0) -> list[Event]:
    """A story as events: ("delta" | "reasoning", choice, text), ("call", choice, index, id, name, arguments), ("void",
    choice, first), ("finish", choice, reason, stop)."""
    parts, (reason, stop) = STORIES[story]
    made: list[Event] = []
    calls = 0
    for part in parts:
        match part:
            case ("t" | "r" as kind, text):
                verb = "delta" if kind == "t" else "reasoning"
                made += [(verb, choice, piece) for piece in text_cuts(text, how)]
            case ("v", first):
                made.append(("void", choice, first))
            case ("c", id, name, arguments, _):
                pieces = arguments if isinstance(arguments, list) else text_cuts(arguments, how)
                if how:  # the head by itself
                    made.append(("call", choice, calls, id, name, ""))
                    made += [("call", choice, calls, "", "", piece) for piece in pieces]
                else:
                    made.append(("call", choice, calls, id, name, (pieces or [""])[0]))
                    made += [("call", choice, calls, "", "", piece) for piece in pieces[1:]]
                calls += 1
    return [*made, ("finish", choice, reason, stop)]


def certain(story: str, index: int) -> str:
    calls = [part for part in STORIES[story][0] if part[0] == "c"]
    return str(calls[index][4])


# ---- numbers ---------------------------------------------------------------------------------------------------------

END = {"prompt": 12, "cached": 5, "completion": 7, "times": (1.5, 1.7512345, 3.25), "thought": 2}


def end_of(choice: int) -> dict[str, Any]:
    return {**END, "completion": 7 + choice, "times": (1.5, 1.7512345, 3.25 + choice)}


def double(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def dump(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def timings(ends: list[dict[str, Any]], n: int) -> dict[str, Any]:
    start, first = min(e["times"][0] for e in ends), min(e["times"][1] for e in ends)
    last = max(e["times"][2] for e in ends)
    computed = sum(e["prompt"] - e["cached"] for e in ends[::n])
    return {
        "ttft_ms": float(f"{1000.0 * (first - start):.3f}"),
        "prefill_tokens": computed,
        "prefill_cached_tokens": sum(e["cached"] for e in ends[::n]),
        "prefill_tok_s": float(f"{computed / (first - start):.2f}") if first > start else None,
        "decode_tok_s": float(f"{sum(e['completion'] - 1 for e in ends) / (last - first):.2f}")
        if last > first
        else None,
    }


# ---- the tape --------------------------------------------------------------------------------------------------------


def opt(value: str | None) -> bytes:
    return b"-" if value is None else b"=" + line(value.encode())[:-1]


def words(*parts: Any) -> bytes:
    """A line; bytes that are ready stand as they are, text is data."""
    out = []
    for part in parts:
        out.append(part if isinstance(part, bytes) else line(part.encode() if isinstance(part, str) else part)[:-1])
    return b" ".join(out) + b"\n"


def tokens_of(entries: list[list[tuple[int, float]]] | None) -> tuple[bytes, bytes]:
    if entries is None:
        return b"-", b""
    rows = b""
    for pairs in entries:
        flat = [word for token, value in pairs for word in (line(TOKENS[token])[:-1], b"%d" % double(value))]
        rows += words(b"token", *flat)
    return b"%d" % len(entries), rows


def event_line(event: Event, logprobs: list[list[tuple[int, float]]] | None) -> bytes:
    count, rows = tokens_of(logprobs)
    match event:
        case ("delta" | "reasoning" as verb, choice, text):
            return words(verb.encode(), choice, text, count) + rows
        case ("call", choice, index, id, name, arguments):
            return words(b"call", choice, index, id, name, arguments, count) + rows
        case ("void", choice, first):
            return words(b"void", choice, first)
        case ("finish", choice, reason, stop):
            end = end_of(choice)
            numbers = (
                end["prompt"],
                end["cached"],
                end["completion"],
                *(double(t) for t in end["times"]),
                end["thought"],
            )
            return words(b"finish", choice, reason.encode(), *numbers, opt(stop))
        case ("fail", status, type, code, param, message):
            return words(b"fail", status, type, opt(code), opt(param), message)
        case (verb,):
            return words(verb.encode())
    raise AssertionError(event)


# ---- what each surface says: a function of the story so far ----------------------------------------------------------


class Said:
    """One answer: facts, and the events so far."""

    surface = ""

    def __init__(self, streamed: bool, **facts: Any) -> None:
        self.streamed, self.facts = streamed, facts
        self.events: list[tuple[Event, list[list[tuple[int, float]]] | None]] = []

    def head(self) -> bytes:
        raise NotImplementedError

    def say(self, event: Event, logprobs: Any) -> str:
        raise NotImplementedError

    def play(self, given: list[Event], logprobs: Any = None) -> tuple[bytes, bytes]:
        tape, out = words(b"wire", self.surface.encode(), int(self.streamed)) + self.head(), b""
        for number, event in enumerate(given):
            entries = logprobs(number, event) if logprobs and event[0] in ("delta", "reasoning", "call") else None
            tape += event_line(event, entries)
            self.events.append((event, entries))
            said = self.say(event, entries)
            verb = b"body" if event[0] == "whole" else b"sent"
            out += words(verb, said)
        return tape, out

    def error(self, event: Event) -> str:
        _, _, type, code, param, message = event
        return json.dumps({"error": {"message": message, "type": type, "param": param, "code": code}})

    @property
    def failed(self) -> bool:
        return any(event[0] == "fail" for event, _ in self.events)

    def of(self, choice: int, *verbs: str) -> list[Event]:
        return [event for event, _ in self.events if event[0] in verbs and event[1] == choice]

    def logprobs_of(self, choice: int) -> list[list[tuple[int, float]]]:
        return [e for event, entries in self.events if entries and event[1] == choice for e in entries]


def entry(token: int, value: float) -> dict[str, Any]:
    return {"token": TOKENS[token].decode("utf-8", "replace"), "logprob": value, "bytes": list(TOKENS[token])}


def entries_of(entries: list[list[tuple[int, float]]]) -> list[dict[str, Any]]:
    return [{**entry(*pairs[0]), "top_logprobs": [entry(*pair) for pair in pairs[1:]]} for pairs in entries]


class OpenAi(Said):
    object = ""

    def head(self) -> bytes:
        f = self.facts
        return words(
            b"facts", "id-1 é", 1764400000, "my/model", "fp\n1",
            f["n"], f["prompts"], f["usage"], int(f["logprobs"]), f["reads"],
        )  # fmt: skip

    def top(self, object: str) -> dict[str, Any]:
        return {
            "id": "id-1 é",
            "object": object,
            "created": 1764400000,
            "model": "my/model",
            "system_fingerprint": "fp\n1",
        }

    def ends(self) -> list[dict[str, Any]]:
        return [end_of(choice) for choice in range(self.facts["n"] * self.facts["prompts"])]

    def usage(self) -> dict[str, Any]:
        ends, n = self.ends(), self.facts["n"]
        prompt, completion = sum(e["prompt"] for e in ends[::n]), sum(e["completion"] for e in ends)
        used = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(e["cached"] for e in ends[::n])},
        }
        if self.facts["reads"]:
            used["completion_tokens_details"] = {"reasoning_tokens": sum(e["thought"] for e in ends)}
        return used

    def chunk(self, **choice: Any) -> str:
        tail = {"usage": None} if self.facts["usage"] else {}
        return f"data: {dump({**self.top(self.object), 'choices': [choice], **tail})}\n\n"

    def say(self, event: Event, logprobs: Any) -> str:
        match event:
            case ("whole",):
                return self.whole()
            case ("fail", *_):
                return f"data: {self.error(event)}\n\n" if self.streamed else self.error(event)
        if not self.streamed:
            return ""
        match event:
            case ("alive",):
                return ": keep-alive\n\n"
            case ("close",):
                if self.failed:
                    return ""
                last = {**self.top(self.object), "choices": [], "usage": self.usage()}
                last["timings"] = timings(self.ends(), self.facts["n"])
                return (f"data: {dump(last)}\n\n" if self.facts["usage"] else "") + "data: [DONE]\n\n"
        return self.told(event, logprobs)

    def told(self, event: Event, logprobs: Any) -> str:
        raise NotImplementedError

    def choice(self, number: int) -> dict[str, Any]:
        raise NotImplementedError

    def whole(self) -> str:
        count = self.facts["n"] * self.facts["prompts"]
        body = {**self.top(self.object.removesuffix(".chunk")), "choices": [self.choice(i) for i in range(count)]}
        return dump({**body, "usage": self.usage(), "timings": timings(self.ends(), self.facts["n"])})


class Chat(OpenAi):
    surface, object = "chat", "chat.completion.chunk"

    def delta(self, index: int, delta: Any, logprobs: Any = None, reason: str | None = None) -> str:
        told = None if logprobs is None else {"content": entries_of(logprobs), "refusal": None}
        return self.chunk(index=index, delta=delta, logprobs=told, finish_reason=reason)

    def told(self, event: Event, logprobs: Any) -> str:
        match event:
            case ("open",):
                count = self.facts["n"] * self.facts["prompts"]
                return "".join(self.delta(i, {"role": "assistant", "content": ""}) for i in range(count))
            case ("delta", choice, text):
                return self.delta(choice, {"content": text}, logprobs)
            case ("reasoning", choice, text):
                return self.delta(choice, {"reasoning_content": text}, logprobs)
            case ("call", choice, index, "", _, arguments):
                return self.delta(
                    choice, {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}, logprobs
                )
            case ("call", choice, index, id, name, arguments):
                function = {"name": name, "arguments": arguments}
                call = {"index": index, "function": function, "id": id, "type": "function"}
                return self.delta(choice, {"tool_calls": [call]}, logprobs)
            case ("finish", choice, reason, _):
                return self.delta(choice, {}, None, reason)
        return ""

    def choice(self, number: int) -> dict[str, Any]:
        calls: dict[int, list[str]] = {}
        for event in self.of(number, "call", "void"):
            if event[0] == "void":
                calls = {index: call for index, call in calls.items() if index < event[2]}
            elif event[3]:
                calls[event[2]] = [event[3], event[4], event[5]]
            else:
                calls[event[2]][2] += event[5]
        content: str | None = "".join(e[2] for e in self.of(number, "delta"))
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else ""), "refusal": None}
        if thoughts := self.of(number, "reasoning"):
            message["reasoning_content"] = "".join(e[2] for e in thoughts)
        if calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for id, name, arguments in calls.values()
            ]
        told = {"content": entries_of(self.logprobs_of(number)), "refusal": None} if self.facts["logprobs"] else None
        reason = self.of(number, "finish")[0][2]
        return {"index": number, "message": message, "logprobs": told, "finish_reason": reason}


class Completions(OpenAi):
    surface, object = "completions", "text_completion"

    def legacy(self, entries: list[list[tuple[int, float]]], offset: int) -> dict[str, Any]:
        def shown(token: int) -> str:
            try:
                return TOKENS[token].decode()
            except UnicodeDecodeError:
                return "bytes:" + "".join(f"\\x{b:02x}" for b in TOKENS[token])

        names = [shown(pairs[0][0]) for pairs in entries]
        offsets = [offset + len("".join(names[:i])) for i in range(len(names))]
        tops = [{shown(t): v for t, v in reversed(pairs[1:])} for pairs in entries]
        values = [pairs[0][1] for pairs in entries]
        return {"tokens": names, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}

    def told(self, event: Event, logprobs: Any) -> str:
        match event:
            case ("open",):
                return ": stream\n\n"
            case ("delta", choice, text):
                before = len("".join(e[2] for e in self.of(choice, "delta")[:-1]))
                told = None if logprobs is None else self.legacy(logprobs, before)
                return self.chunk(index=choice, text=text, logprobs=told, finish_reason=None)
            case ("finish", choice, reason, _):
                return self.chunk(index=choice, text="", logprobs=None, finish_reason=reason)
        return ""

    def choice(self, number: int) -> dict[str, Any]:
        told = self.legacy(self.logprobs_of(number), 0) if self.facts["logprobs"] else None
        text = "".join(e[2] for e in self.of(number, "delta"))
        return {"index": number, "text": text, "logprobs": told, "finish_reason": self.of(number, "finish")[0][2]}


class Messages(Said):
    surface = "messages"

    def __init__(self, streamed: bool, story: str = "", **facts: Any) -> None:
        super().__init__(streamed, **facts)
        self.story = story
        self.open: tuple[str, Any] | None = None
        self.number = -1
        self.thought = ""

    def head(self) -> bytes:
        f = self.facts
        return words(b"facts", MSG, "my/model", 12, f["writes"], f["hides"], f["warms"], "req_1")

    def play(self, given: list[Event], logprobs: Any = None) -> tuple[bytes, bytes]:
        named = [tuple(w.replace("call_", "toolu_") if isinstance(w, str) else w for w in event) for event in given]
        return super().play([("call", *e[1:]) if e[0] == "call" else e for e in named], logprobs)

    def event(self, name: str, **data: Any) -> str:
        return f"event: {name}\ndata: {dump({'type': name, **data})}\n\n"

    def error(self, event: Event) -> str:
        kinds = {429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 400: "invalid_request_error"}
        _, status, _, code, _, message = event
        error = {"type": kinds.get(status, "api_error"), "message": message}
        error |= {} if code is None else {"details": {"error_code": code}}
        return json.dumps({"type": "error", "error": error, "request_id": "req_1"})

    def signature(self, thought: str) -> str:
        if not self.facts["hides"]:
            return MSG
        return "ds4-thinking:" + base64.urlsafe_b64encode(thought.encode()).decode()

    def message(self, content: Any, reason: Any, stop: Any, usage: Any) -> dict[str, Any]:
        return {
            "id": MSG, "type": "message", "role": "assistant", "model": "my/model", "content": content,
            "stop_reason": reason, "stop_sequence": stop, "usage": usage,
        }  # fmt: skip

    def end(self) -> str:
        if self.open is None:
            return ""
        out = ""
        if self.open[0] == "thinking":
            delta = {"type": "signature_delta", "signature": self.signature(self.thought)}
            out = self.event("content_block_delta", index=self.number, delta=delta)
        self.open, self.thought = None, ""
        return out + self.event("content_block_stop", index=self.number)

    def begin(self, kind: str, key: Any, block: dict[str, Any]) -> str:
        if self.open == (kind, key) and kind != "tool_use":
            return ""
        out = self.end()
        self.open = kind, key
        self.number += 1
        return out + self.event("content_block_start", index=self.number, content_block={"type": kind, **block})

    def delta(self, kind: str, key: str, text: str) -> str:
        return self.event("content_block_delta", index=self.number, delta={"type": kind, key: text})

    def reason(self) -> tuple[str, str | None]:
        _, _, reason, stop = self.of(0, "finish")[0]
        if self.facts["warms"] or reason == "length":
            return "max_tokens", None
        if reason == "tool_calls":
            return "tool_use", None
        return ("end_turn", None) if stop is None else ("stop_sequence", stop)

    def usage(self) -> dict[str, Any]:
        written, warms = 6 if self.facts["writes"] else 0, self.facts["warms"]
        return {
            "input_tokens": 7 - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": 5,
            "output_tokens": 0 if warms else 7,
            "output_tokens_details": {"thinking_tokens": 0 if warms else 2},
        }

    def say(self, event: Event, logprobs: Any) -> str:
        match event:
            case ("whole",):
                usage = {**self.usage(), "service_tier": "standard"}
                blocks = [] if self.facts["warms"] else self.blocks()
                # Inputs stand as the model wrote them, so they come in as text.
                whole = dump(
                    self.message([{k: v for k, v in b.items() if k != "raw"} for b in blocks], *self.reason(), usage)
                )
                for block in blocks:
                    if "raw" in block:
                        whole = whole.replace('"input":"@"', f'"input":{block["raw"]}', 1)
                return whole
            case ("fail", *_):
                return f"event: error\ndata: {self.error(event)}\n\n" if self.streamed else self.error(event)
        if not self.streamed:
            return ""
        match event:
            case ("open",):
                usage = {
                    "input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                    "output_tokens": 0, "service_tier": "standard",
                }  # fmt: skip
                return self.event("message_start", message=self.message([], None, None, usage))
            case ("alive",):
                return self.event("ping")
            case ("close",):
                return "" if self.failed else self.event("message_stop")
            case ("finish", *_):
                reason, stop = self.reason()
                delta = {"stop_reason": reason, "stop_sequence": stop}
                return self.end() + self.event("message_delta", delta=delta, usage=self.usage())
        if self.facts["warms"]:
            return ""
        match event:
            case ("delta", _, text):
                return self.begin("text", 0, {"text": ""}) + self.delta("text_delta", "text", text)
            case ("reasoning", _, text):
                out = self.begin("thinking", 0, {"thinking": "", "signature": ""})
                self.thought += text
                return out if self.facts["hides"] else out + self.delta("thinking_delta", "thinking", text)
            case ("call", _, index, id, name, arguments):
                out = self.begin("tool_use", index, {"id": id, "name": name, "input": {}}) if id else ""
                return out + (self.delta("input_json_delta", "partial_json", arguments) if arguments else "")
        return ""

    def blocks(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for event, _ in self.events:
            match event:
                case ("delta", _, text):
                    if not made or made[-1]["type"] != "text":
                        made.append({"type": "text", "text": ""})
                    made[-1]["text"] += text
                case ("reasoning", _, text):
                    if not made or made[-1]["type"] != "thinking":
                        made.append({"type": "thinking", "thinking": ""})
                    made[-1]["thinking"] += text
                case ("call", _, index, id, name, _) if id:
                    raw = certain(self.story, index)
                    made.append({"type": "tool_use", "id": id, "name": name, "input": "@", "number": index, "raw": raw})
                case ("void", _, first):
                    made = [block for block in made if block.get("number", -1) < first]
        for block in made:
            block.pop("number", None)
            if block["type"] == "thinking":
                thought = block["thinking"]
                block["thinking"] = "" if self.facts["hides"] else thought
                block["signature"] = self.signature(thought)
        return made


class Responses(Said):
    surface = "responses"
    MEMBERS = {
        "id": "resp_1", "object": "response", "created_at": 1764400000, "model": "my/model", "metadata": {"k": "é"},
        "parallel_tool_calls": True, "store": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
        "top_p": 0.95,
    }  # fmt: skip

    def __init__(self, streamed: bool, custom: str = "", **facts: Any) -> None:
        super().__init__(streamed, **facts)
        self.number, self.begun, self.custom = 0, 0, custom
        self.items: list[dict[str, Any]] = []
        self.calls: dict[int, dict[str, Any] | None] = {}
        self.fed = 0
        self.open: dict[str, Any] | None = None
        self.members: dict[str, Any] = dict(self.MEMBERS)
        self.state: dict[str, Any] = {"status": "queued" if facts["queued"] else "in_progress"}
        self.unsaid = ""

    def head(self) -> bytes:
        f = self.facts
        rows = words(b"facts", 1764400007, *(f[name] for name in ("queued", "summary", "sealed", "parallel")))
        rows += b"".join(words(b"member", name, dump(value)) for name, value in self.MEMBERS.items())
        rows += words(b"tool", "f", "f", b"-", 0) + words(b"tool", "patch", "patch", b"-", 1)
        rows += words(b"tool", "ns.g", "g", opt("ns"), 0)
        return rows + b"".join(words(b"suffix", f"{n:032x}") for n in range(9))

    def emit(self, kind: str, **fields: Any) -> str:
        if not self.streamed:
            return ""
        self.number += 1
        return f"event: {kind}\ndata: {dump({'type': kind, **fields, 'sequence_number': self.number - 1})}\n\n"

    def response(self, output: list[Any]) -> dict[str, Any]:
        fixed = {"error": None, "incomplete_details": None, "completed_at": None, "usage": None}
        return {**self.members, **fixed, **self.state, "output": output}

    def shown(self) -> list[dict[str, Any]]:
        return [self.item(item) for item in self.items]

    def part(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["kind"] == "delta":
            return {"type": "output_text", "text": item["text"], "annotations": [], "logprobs": item["logprobs"]}
        return {"type": "summary_text" if self.facts["summary"] else "reasoning_text", "text": item["text"]}

    def item(self, item: dict[str, Any]) -> dict[str, Any]:
        status, id = item["status"], item["id"]
        parts = [self.part(item)] if item.get("said") or status != "in_progress" else []
        match item["kind"]:
            case "delta":
                return {"id": id, "type": "message", "status": status, "role": "assistant", "content": parts}
            case "reasoning":
                told = {"summary": parts} if self.facts["summary"] else {"summary": [], "content": parts}
                if self.facts["sealed"]:
                    told["encrypted_content"] = "ds4:" + base64.b64encode(item["text"].encode()).decode()
                return {"id": id, "type": "reasoning", "status": status, **told}
        custom = item["name"] == "patch"
        kind, key = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
        space = {"namespace": "ns"} if item["name"] == "ns.g" else {}
        name = item["name"].removeprefix("ns.")
        head = {"id": id, "type": kind, "status": status, "call_id": item["call_id"], **space}
        return {**head, "name": name, key: item["text"]}

    def where(self, item: dict[str, Any]) -> dict[str, Any]:
        place = {"item_id": item["id"], "output_index": self.items.index(item)}
        if item["kind"] == "call":
            return place
        return {**place, "summary_index" if self.summary(item) else "content_index": 0}

    def summary(self, item: dict[str, Any]) -> bool:
        return item["kind"] == "reasoning" and bool(self.facts["summary"])

    def names(self, item: dict[str, Any]) -> tuple[str, str]:
        """Of its deltas, and of its part."""
        if item["kind"] == "call":
            kind = "custom_tool_call_input" if item["name"] == "patch" else "function_call_arguments"
            return f"response.{kind}", ""
        if self.summary(item):
            return "response.reasoning_summary_text", "response.reasoning_summary_part"
        return f"response.{'output' if item['kind'] == 'delta' else 'reasoning'}_text", "response.content_part"

    def begin(self, kind: str, prefix: str, **more: Any) -> str:
        item = {"kind": kind, "id": f"{prefix}_{self.begun:032x}", "status": "in_progress", "text": "", **more}
        self.begun += 1
        self.items.append(item)
        self.open = item
        place = len(self.items) - 1
        out = self.emit("response.output_item.added", output_index=place, item=self.item(item))
        if kind != "call":
            out += self.emit(f"{self.names(item)[1]}.added", **self.where(item), part=self.part(item))
        return out

    def close(self, status: str) -> str:
        item, self.open = self.open, None
        if item is None:
            return ""
        out, (delta, part) = "", self.names(item)
        if item["kind"] == "call" and item["name"] == "patch" and status == "completed":
            rest = INPUTS[self.custom][2]
            item["text"] += rest
            out += self.emit(f"{delta}.delta", **self.where(item), delta=rest) if rest else ""
        item["status"] = status
        where = self.where(item)
        if item["kind"] != "call":
            logprobs = {"logprobs": item["logprobs"]} if item["kind"] == "delta" else {}
            out += self.emit(f"{delta}.done", **where, text=item["text"], **logprobs)
            out += self.emit(f"{part}.done", **where, part=self.part(item))
        elif status == "completed":
            name = item["name"].removeprefix("ns.")
            told = {"input": item["text"]} if name == "patch" else {"name": name, "arguments": item["text"]}
            out += self.emit(f"{delta}.done", **where, **told)
        return out + self.emit("response.output_item.done", output_index=where["output_index"], item=self.item(item))

    def say(self, event: Event, logprobs: Any) -> str:
        if self.state["status"] == "queued" and event[0] not in ("whole", "cancel", "fail", "finish"):
            self.state = {"status": "in_progress"}
        match event:
            case ("whole",):
                return dump(self.response(self.shown()))
            case ("open",):
                kinds = "response.created", "response.in_progress"
                return "".join(self.emit(kind, response=self.response([])) for kind in kinds)
            case ("alive",):
                return self.emit("response.in_progress", response=self.response([]))
            case ("close",):
                kind = {"completed": "completed", "failed": "failed"}.get(self.state["status"], "incomplete")
                return self.unsaid + self.emit(f"response.{kind}", response=self.response(self.shown()))
            case ("cancel",):
                self.unsaid = self.close("incomplete")
                self.state = {"status": "cancelled"}
                return ""
            case ("unstored",):
                self.members["store"] = False
                return ""
            case ("fail", status, *_, message):
                out = self.close("incomplete")
                code = "rate_limit_exceeded" if status == 429 else "server_error"
                self.state = {"status": "failed", "error": {"code": code, "message": message}}
                return out if self.streamed else self.error(event)
            case ("finish", choice, reason, _):
                return self.finish(end_of(choice), reason)
            case ("void", _, first):
                return self.void(first)
            case ("delta" | "reasoning" as kind, _, text):
                return self.text(kind, text, logprobs)
            case ("call", _, index, id, name, arguments):
                return self.call(index, id, name, arguments)
        raise AssertionError(event)

    def finish(self, end: dict[str, Any], reason: str) -> str:
        cut = reason == "length"
        out = self.close("incomplete" if cut else "completed")
        ended = {"incomplete_details": {"reason": "max_output_tokens"}} if cut else {"completed_at": 1764400007}
        usage = {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 7},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 19,
        }
        status = "incomplete" if cut else "completed"
        self.state = {**ended, "usage": usage, "status": status, "timings": timings([end], 1)}
        return out

    def text(self, kind: str, text: str, logprobs: Any) -> str:
        out = ""
        if self.open is None or self.open["kind"] != kind:
            out = self.close("completed")
            more = {"logprobs": []} if kind == "delta" else {}
            out += self.begin(kind, "msg" if kind == "delta" else "rs", **more)
        item = self.open
        assert item is not None
        entries = entries_of(logprobs or []) if kind == "delta" else []
        if not text and not entries:
            return out
        item["said"], item["text"] = True, item["text"] + text
        more = {}
        if kind == "delta":
            item["logprobs"] = item["logprobs"] + entries
            more = {"logprobs": entries}
        return out + self.emit(f"{self.names(item)[0]}.delta", **self.where(item), delta=text, **more)

    def call(self, index: int, id: str, name: str, arguments: str) -> str:
        out = ""
        if id:
            counted = any(call is not None and not call.get("void") for call in self.calls.values())
            if not self.facts["parallel"] and counted:
                self.calls[index] = None
            else:
                out = self.close("completed")
                out += self.begin("call", "ctc" if name == "patch" else "fc", name=name, call_id=id)
                self.calls[index] = self.items[-1]
        call = self.calls[index]
        if call is None or not arguments:
            return out
        more = arguments
        if call["name"] == "patch":
            more = INPUTS[self.custom][1][self.fed]
            self.fed += 1
        call["text"] += more
        return out + (self.emit(f"{self.names(call)[0]}.delta", **self.where(call), delta=more) if more else "")

    def void(self, first: int) -> str:
        void = [call for index, call in self.calls.items() if index >= first and call is not None]
        for call in void:
            call["void"] = True
        out = self.close("incomplete") if self.open is not None and self.open.get("void") else ""
        if not self.streamed:
            self.items = [item for item in self.items if not item.get("void")]
            if self.items and self.items[-1]["kind"] == "delta":
                self.open = self.items[-1]
                self.open["status"] = "in_progress"
        return out


# ---- what the outside says of it -------------------------------------------------------------------------------------


def sent_of(out: bytes) -> Iterator[tuple[bool, bytes]]:
    for verb, word in lines(out):
        yield verb == b"body", unescape(word)


def prove(said: Said, out: bytes) -> None:
    """Automata and SDK types take it."""
    stream = b"".join(data for whole, data in sent_of(out) if not whole)
    bodies = [data for whole, data in sent_of(out) if whole]
    for body in bodies:
        kind: Any = {"chat": ChatCompletion, "completions": Completion, "messages": Message, "responses": Response}
        kind[said.surface].model_validate(json.loads(body))
    if not said.streamed:
        return
    if said.surface == "messages":
        automaton = MessageStream()
        automaton.feed(stream)
        automaton.end()
        for block in stream.decode().split("\n\n")[:-1]:
            data = json.loads(block.split("data: ", 1)[1])
            if data["type"] not in ("ping", "error"):
                MESSAGES_EVENT.validate_python(data)
    elif said.surface == "responses":
        told = parse(stream)
        if said.state["status"] != "cancelled":
            check(told)
        for event in told:
            assert type(RESPONSES_EVENT.validate_python(event)).__name__ != "dict"
    else:
        for block in stream.decode().split("\n\n")[:-1]:
            if block.startswith(":") or block == "data: [DONE]":
                continue
            data = json.loads(block.removeprefix("data: "))
            if "error" not in data:
                for choice in data["choices"] if said.surface == "completions" else ():
                    choice["finish_reason"] = choice["finish_reason"] or "stop"  # the type knows whole ones only
                (ChatCompletionChunk if said.surface == "chat" else Completion).model_validate(data)


CASES: dict[str, list[tuple[str, bytes, bytes]]] = {}


def add(file: str, case: str, said: Said, given: list[Event], logprobs: Any = None) -> None:
    tape, out = said.play(given, logprobs)
    prove(said, out)
    CASES.setdefault(file, []).append((case, tape, out))


def framed(given: list[Event], streamed: bool, *before: Event) -> list[Event]:
    return [("open",), *given, *before, ("close",)] if streamed else [*given, *before, ("whole",)]


def plain_of(story: str) -> bool:
    return all(part[0] == "t" for part in STORIES[story][0])


def custom_of(story: str) -> str:
    return story.partition("custom call: ")[2]


def voided(story: str) -> bool:
    return any(part[0] == "v" for part in STORIES[story][0])


OPENAI = {"n": 1, "prompts": 1, "usage": 0, "logprobs": False, "reads": 1}
ANTHROPIC = {"writes": 0, "hides": 0, "warms": 0}
NEWER = {"queued": 0, "summary": 0, "sealed": 0, "parallel": 1}


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
    def many(number: int, event: Event) -> list[list[tuple[int, float]]]:
        drawn = [[(0, -0.5), (0, -0.5), (2, -1e-07), (5, -9999.0)], [(1, -0.25), (3, -2.0), (7, -3.0), (1, -4.0)]]
        return [*drawn, [(4, 0.0)], [(6, -1.5e16), (2, -1.0)]][number % 4 : 4]

    def few(number: int, event: Event) -> list[list[tuple[int, float]]]:
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
    stories(), variations(), failures(), choices(), probabilities()
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
