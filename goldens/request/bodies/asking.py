"""A case: a body as a tape, and the lines of what it asks for or why it is refused."""

from __future__ import annotations

import json
import struct
from typing import Any

from ds4.sys.tape import escape, line

CASES: dict[str, list[tuple[str, bytes, bytes]]] = {}
SAY = {"role": "user", "content": "hi"}
BASE: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [SAY]},
    "completions": {"model": "m", "prompt": "hi"},
    "messages": {"model": "m", "max_tokens": 100, "messages": [SAY]},
    "responses": {"model": "m", "input": "hi"},
}
HEAD = {
    "instructions": None,
    "max_tool_calls": None,
    "metadata": {},
    "model": "served",
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "truncation": "disabled",
    "user": None,
    "background": False,
    "store": True,
    "max_output_tokens": None,
    "temperature": 0.6,
    "top_p": 0.95,
    "top_logprobs": 0,
}


def double(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def opt(value: str | None) -> bytes:
    return b"-" if value is None else b"=" + escape(value)


def num(value: int | None) -> bytes:
    return b"-" if value is None else b"%d" % value


def told(verb: bytes, value: Any) -> bytes:
    return b"%b %b\n" % (verb, escape(json.dumps(value, ensure_ascii=False)))


def tape(surface: str, body: bytes, dialect: int = 1, thinks: int = 1, cache: int = 1) -> bytes:
    drawn = [double(0.6), double(0.95), 40, double(0.05), double(1.1), double(0.0), double(0.0)]
    head = line("request", surface, dialect, thinks, cache, 1000) + line("model", b"served") + line("defaults", *drawn)
    return head + body


def asks(surface: str, **x: Any) -> bytes:
    """The lines of a request. x: what is not as in a body that says nothing."""
    out = b""
    if surface != "completions":
        thinking = 0 if surface == "messages" else None
        out += b"chat %b %b\n" % (num(x.get("thinking", thinking)), opt(x.get("effort")))
        out += b"".join(told(b"message", m) for m in x.get("messages", [SAY]))
        out += b"".join(told(b"tool", t) for t in x.get("tools", []))
    for prompt in x.get("prompts", ["hi"]) if surface == "completions" else []:
        out += line("prompt", prompt.encode()) if isinstance(prompt, str) else line("ids", *prompt)
    drawn = {"temperature": 0.6, "top_p": 0.95, "top_k": 40, "min_p": 0.05, "repetition": 1.1, "frequency": 0.0}
    drawn = {**drawn, "presence": 0.0, **{k: v for k, v in x.items() if k in (*drawn, "presence")}}
    words = [b"%d" % (value if name == "top_k" else double(value)) for name, value in drawn.items()]
    out += b"sampling %b %b\n" % (b" ".join(words), num(x.get("seed")))
    out += b"".join(b"bias %d %d\n" % (token, double(bias)) for token, bias in x.get("bias", ()))
    out += b"".join(b"stop %b\n" % escape(stop) for stop in x.get("stop", ()))
    budget = 100 if surface == "messages" else None
    out += b"answer %d %b %b\n" % (x.get("n", 1), num(x.get("budget", budget)), num(x.get("logprobs")))
    flags = (x.get("stream", 0), x.get("usage", 0), x.get("ignore_eos", 0), x.get("cache", 1))
    out += b"flags %d %d %d %d\n" % flags
    if surface == "messages":
        shown = (x.get("caches", 0), x.get("hides", 0), x.get("warms", 0), num(x.get("thought")))
        out += b"shown %d %d %d %b\n" % shown
    if surface == "responses":
        head = {**HEAD, **x.get("head", {})}
        out += b"keep %b %d %d\n" % (opt(x.get("previous")), head["store"], head["background"])
        out += b"told %d %d %d\n" % (x.get("summary", 0), x.get("sealed", 0), head["parallel_tool_calls"])
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
        out += b"".join(told(b"item", i) for i in x.get("items", [item]))
        for called, name, space, custom in x.get("known", ()):
            out += b"known %b %b %b %d\n" % (escape(called), escape(name), opt(space), custom)
        out += told(b"head", head)
    return out


def add(surface: str, case: str, body: Any, expected: bytes, **facts: int) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).replace("Infinity", "1e400").encode()
    CASES.setdefault(surface, []).append(
        (f"{len(CASES.get(surface, []))}: {case}", tape(surface, raw, **facts), expected)
    )


def good(surface: str, change: dict[str, Any], **x: Any) -> None:
    facts = x.pop("facts", {})
    add(surface, f"taken: {json.dumps(change)[:100]}", {**BASE[surface], **change}, asks(surface, **x), **facts)


def bad(surface: str, change: dict[str, Any], code: str, param: str, **facts: int) -> None:
    expected = b"error 400 %b %b\n" % (escape(code), opt(param))
    add(surface, f"refused: {json.dumps(change)[:100]}", {**BASE[surface], **change}, expected, **facts)
