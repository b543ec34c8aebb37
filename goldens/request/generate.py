"""Writes worked/*.jsonl: bodies of the four surfaces, and what each asks for, or why it is refused.

    PYTHONPATH=host python goldens/request/generate.py

Bodies have the shapes of the official SDKs' request types (openai, anthropic) and of what coding agents send. What they
ask for is written beside them by hand; nothing of ours is called. `asks` puts a request's lines together from what
stands in a case, with the defaults of a body that says nothing.
"""

from __future__ import annotations

import base64
import json
import pathlib
import struct
from typing import Any

from ds4.sys.tape import line

HERE = pathlib.Path(__file__).parent
CASES: dict[str, list[tuple[str, bytes, bytes]]] = {}
SAY = {"role": "user", "content": "hi"}
F = {"name": "f", "description": "Does it.", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
TOOL = {"type": "function", "function": F}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": "x"}'}}
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


def word(text: str) -> bytes:
    return line(text.encode("utf-8", "surrogatepass"))[:-1]


def opt(value: str | None) -> bytes:
    return b"-" if value is None else b"=" + word(value)


def num(value: int | None) -> bytes:
    return b"-" if value is None else b"%d" % value


def told(verb: bytes, value: Any) -> bytes:
    return b"%b %b\n" % (verb, word(json.dumps(value, ensure_ascii=False)))


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
    out += b"".join(b"stop %b\n" % word(stop) for stop in x.get("stop", ()))
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
            out += b"known %b %b %b %d\n" % (word(called), word(name), opt(space), custom)
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
    expected = b"error 400 %b %b\n" % (word(code), opt(param))
    add(surface, f"refused: {json.dumps(change)[:100]}", {**BASE[surface], **change}, expected, **facts)


KINDS: list[tuple[str, Any]] = [("type", "x"), ("type", True), ("type", []), ("type", {}), ("type", 1.5)]


def shared(surface: str) -> None:
    """What all surfaces have: JSON, sampling, stops."""
    good(surface, {})
    good(surface, {"unknown": {"deep": [1, None]}, "service_tier": "auto", "safety": None})
    good(surface, {"temperature": None, "top_p": None, "seed": None, "logit_bias": None, "stream": None, "top_k": None})
    for name, field in (("temperature", "temperature"), ("top_p", "top_p"), ("min_p", "min_p")):
        head = {"head": {name: 0.25}} if surface == "responses" and name != "min_p" else {}
        good(surface, {name: 0.25}, **{field: 0.25}, **head)
        for value in ("0.5", True, [], {}):
            bad(surface, {name: value}, "invalid_type", name)
        bad(surface, {name: -0.1}, "invalid_value", name)
        bad(surface, {name: 10**400}, "invalid_value", name)
    head = {"head": {"temperature": 2.0}} if surface == "responses" else {}
    good(surface, {"temperature": 2}, temperature=2.0, **head)
    bad(surface, {"temperature": 100.5}, "invalid_value", "temperature")
    for value in (0, 1.5, 1e-60):
        bad(surface, {"top_p": value}, "invalid_value", "top_p")
    for value in (1, 0.99999999999):
        bad(surface, {"min_p": value}, "invalid_value", "min_p")
    good(surface, {"repetition_penalty": 1.5}, repetition=1.5)
    good(surface, {"repeat_penalty": 1.5}, repetition=1.5)
    good(surface, {"repeat_penalty": 1.5, "repetition_penalty": 1.25}, repetition=1.25)
    bad(surface, {"repeat_penalty": 0}, "invalid_value", "repetition_penalty")
    bad(surface, {"repeat_penalty": "1"}, "invalid_type", "repeat_penalty")
    good(surface, {"frequency_penalty": -2, "presence_penalty": 2}, frequency=-2.0, presence=2.0)
    bad(surface, {"frequency_penalty": -2.1}, "invalid_value", "frequency_penalty")
    bad(surface, {"presence_penalty": 3}, "invalid_value", "presence_penalty")
    for value, k in ((5, 5), (0, 0), (-1, 0), (5000, 1000), (1e300, 1000), (3.0, 3)):
        good(surface, {"top_k": value}, top_k=k)
    bad(surface, {"top_k": -2}, "invalid_value", "top_k")
    bad(surface, {"top_k": 1.5}, "invalid_type", "top_k")
    for value, seed in ((7, 7), (-1, 2**64 - 1), (2**64 - 1, 2**64 - 1), (-(2**63), 2**63), (7.0, 7)):
        good(surface, {"seed": value}, seed=seed)
    bad(surface, {"seed": 2**64}, "invalid_value", "seed")
    bad(surface, {"seed": "7"}, "invalid_type", "seed")
    good(surface, {"logit_bias": {"7": 5, "0": -100, "007": 2.5}}, bias=[(7, 2.5), (0, -100.0)])
    for bias in (
        {"1000": 1},
        {"-1": 1},
        {"x": 1},
        {"": 1},
        {"1": 101},
        {"0000000001": 1},
        {str(n): 0 for n in range(1025)},
    ):
        bad(surface, {"logit_bias": bias}, "invalid_value", "logit_bias")
    for bias in ([], {"1": "x"}, {"1": True}, {"1": None}):
        bad(surface, {"logit_bias": bias}, "invalid_type", "logit_bias")
    stop = "stop_sequences" if surface == "messages" else "stop"
    good(surface, {stop: "END"}, stop=["END"])
    good(surface, {stop: ["b", "a", "b", "é😀"]}, stop=["b", "a", "é😀"])
    good(surface, {stop: ["é" * 1024]}, stop=["é" * 1024])
    good(surface, {stop: []})
    bad(surface, {stop: 5}, "invalid_type", stop)
    bad(surface, {stop: ["a"] * 17}, "invalid_value", stop)
    bad(surface, {stop: ["a", 1]}, "invalid_type", f"{stop}[1]")
    bad(surface, {stop: ["a", ""]}, "invalid_value", f"{stop}[1]")
    bad(surface, {stop: ["", 1]}, "invalid_type", f"{stop}[1]")
    bad(surface, {stop: "x" * 1025}, "invalid_value", f"{stop}[0]")
    good(surface, {"stream": True, "ignore_eos": True, "cache_prompt": False}, stream=1, ignore_eos=1, cache=0)
    good(surface, {"cache_prompt": True}, cache=0, facts={"cache": 0})
    for name in ("stream", "ignore_eos", "cache_prompt"):
        bad(surface, {name: 1}, "invalid_type", name)
    bad(surface, {"model": 5}, "invalid_type", "model")
    if surface != "responses":
        bad(surface, {"model": "\ud800"}, "invalid_value", "model")
        bad(surface, {stop: ["\udc00x"]}, "invalid_value", f"{stop}[0]")
    plain = json.dumps(BASE[surface]).encode()
    for raw in (
        *(
            b"",
            b"{",
            b"[]",
            b"null",
            b'"x"',
            b"1",
            plain + b"x",
            plain[:-1],
            plain[:-1] + b",}",
            b"\xef\xbb\xbf" + plain,
        ),
        *(plain.decode().encode("utf-16"), plain[:-1] + b', "x": NaN}', plain[:-1] + b', "x": -Infinity}', b"\xff"),
        *(
            plain[:-1] + b', "x": "\xed\xa0\x80"}',
            plain[:-1] + b', "x": ' + b"9" * 4301 + b"}",
            plain[:-1] + b', "x": 01}',
        ),
        *(plain[:-1] + b', "x": ' + b"[" * 64 + b"]" * 64 + b"}", plain[:-1] + b', "x": "\x01"}', b"[" * 100_000),
        *(b"{'model': 1}", plain[:-1] + b', "x": +1}', plain[:-1] + b', "x": tru}'),
    ):
        add(surface, f"no JSON: {raw[-60:]!r}", raw, b"error 400 invalid_json -\n")
    for raw in (
        *(
            plain[:-1] + b', "x": ' + b"[" * 63 + b"]" * 63 + b"}",
            b" \r\n\t" + plain + b"\n",
            plain[:-1] + b', "x": 1e5}',
        ),
        *(plain[:-1] + b', "stream": true, "stream": false}', plain[:-1] + b', "x": ' + b"9" * 4300 + b"}"),
        plain[:-1] + b', "x": "\\ud83d\\ude00 [[[[{{{{"}',
    ):
        add(surface, f"JSON: {raw[-60:]!r}", raw, asks(surface))
    for name in ("grammar", "regex", "thinking_budget"):
        add(surface, f"outside: {name}", {**BASE[surface], name: "x"}, b"outside " + name.encode() + b"\n")
    if surface != "completions":
        add(surface, "no dialect", BASE[surface], b"error 400 no_chat_template -\n", dialect=0)


def options(surface: str) -> None:
    good(surface, {"max_tokens": 7}, budget=7)
    good(surface, {"max_tokens": 7, "max_completion_tokens": 9.0}, budget=9)
    good(surface, {"max_completion_tokens": 1e300}, budget=1 << 31)
    for value, code in ((0, "invalid_value"), (-5, "invalid_value"), (1.5, "invalid_type"), (True, "invalid_type")):
        bad(surface, {"max_tokens": value, "max_completion_tokens": 3}, code, "max_tokens")
        bad(surface, {"max_completion_tokens": value}, code, "max_completion_tokens")
    good(surface, {"stream": True, "stream_options": {"include_usage": True}}, stream=1, usage=1)
    good(surface, {"stream_options": {}})
    bad(surface, {"stream_options": 1}, "invalid_type", "stream_options")
    bad(surface, {"stream_options": {"include_usage": "yes"}}, "invalid_type", "stream_options.include_usage")
    good(surface, {"n": 8}, n=8)
    for value in (0, 9, 10**40):
        bad(surface, {"n": value}, "invalid_value", "n")


def chat() -> None:
    def talk(*messages: Any, **x: Any) -> None:
        good("chat", {"messages": list(messages)}, **x)

    talk({"role": "developer", "content": "be"}, SAY, messages=[{"role": "system", "content": "be"}, SAY])
    talk({"role": "user", "content": [{"type": "text", "text": "a"}]}, messages=[{"role": "user", "content": "a"}])
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    more = [{**part, "cache_control": {"type": "ephemeral"}} for part in parts]
    talk({"role": "user", "content": more}, messages=[{"role": "user", "content": parts}])
    talk({"role": "user", "content": []}, messages=[{"role": "user", "content": []}])
    talk({"content": "x", "role": "user", "name": "n"}, messages=[{"role": "user", "content": "x", "name": "n"}])
    for content in (None, ""):
        made = {"role": "assistant", "content": "", "tool_calls": [CALL]}
        answer = {"role": "tool", "content": "r", "tool_call_id": "c1"}
        talk(SAY, {"role": "assistant", "content": content, "tool_calls": [CALL]}, answer, messages=[SAY, made, answer])
    thought = {"role": "assistant", "content": "so", "reasoning_content": "hm", "prefix": True}
    talk(SAY, thought, messages=[SAY, thought])
    other = {"role": "assistant", "content": "so", "reasoning": "hm", "reasoning_content": "", "tool_calls": None}
    talk(SAY, other, messages=[SAY, {"role": "assistant", "content": "so", "reasoning_content": "hm"}])
    talk(SAY, {"role": "assistant"}, messages=[SAY, {"role": "assistant", "content": ""}])
    bare = {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}
    call = {"id": "", "type": "function", "function": {"name": "f", "arguments": ""}}
    talk(bare, messages=[{"role": "assistant", "content": "", "tool_calls": [call]}])
    for messages, code, param in (
        (None, "invalid_type", "messages"),
        ({}, "invalid_type", "messages"),
        ([], "invalid_value", "messages"),
        ([1], "invalid_type", "messages[0]"),
        ([SAY, {"content": "x"}], "invalid_value", "messages[1].role"),
        ([{"role": 1, "content": "x"}], "invalid_type", "messages[0].role"),
        ([{"role": "function", "content": "x"}], "invalid_value", "messages[0].role"),
        ([{"role": "user"}], "invalid_value", "messages[0].content"),
        ([{"role": "tool", "content": None}], "invalid_value", "messages[0].content"),
        ([{"role": "user", "content": 1}], "invalid_type", "messages[0].content"),
        ([{"role": "user", "content": "\ud800"}], "invalid_value", "messages[0].content"),
        ([{"role": "user", "content": ["x"]}], "invalid_type", "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "invalid_value", "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"text": "x"}]}], "invalid_value", "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "invalid_type", "messages[0].content[0].text"),
        ([{"role": "user", "content": "x", "name": 1}], "invalid_type", "messages[0].name"),
        ([{"role": "tool", "content": "x", "tool_call_id": 1}], "invalid_type", "messages[0].tool_call_id"),
        ([{"role": "assistant", "tool_calls": {}}], "invalid_type", "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{"type": "x"}, 1]}], "invalid_type", "messages[0].tool_calls[1]"),
        (
            [{"role": "assistant", "tool_calls": [{"type": "x"}]}],
            "unsupported_parameter",
            "messages[0].tool_calls[0].type",
        ),
        ([{"role": "assistant", "tool_calls": [{}]}], "missing_field", "messages[0].tool_calls[0].function.name"),
        (
            [{"role": "assistant", "tool_calls": [{"id": 1, "function": {"arguments": {}}}]}],
            "invalid_type",
            "messages[0].tool_calls[0].function.arguments",
        ),
        ([{"role": "assistant", "reasoning_content": 1}], "invalid_type", "messages[0].reasoning_content"),
        ([{"role": "assistant", "prefix": 1}], "invalid_type", "messages[0].prefix"),
    ):
        bad("chat", {"messages": messages}, code, param)
    good(
        "chat",
        {"tools": [TOOL, {"function": {"name": "g", "x": [1.50, "\ud800", 1e400]}}], "tool_choice": "auto"},
        tools=[TOOL, {"type": "function", "function": {"name": "g", "x": [1.5, "\ud800", float("inf")]}}],
    )
    for tools, code, param in (
        ({}, "invalid_type", "tools"),
        ([TOOL, 1], "invalid_type", "tools[1]"),
        ([{"type": "custom"}], "unsupported_parameter", "tools[0].type"),
        ([{"type": "function"}], "missing_field", "tools[0].function.name"),
        ([{"function": []}], "invalid_type", "tools[0].function"),
        ([{"function": {"name": ""}}], "missing_field", "tools[0].function.name"),
        ([{"function": {"name": 1, "description": 2}}], "invalid_type", "tools[0].function.description"),
        ([{"function": {"name": 1, "parameters": []}}], "invalid_type", "tools[0].function.parameters"),
    ):
        bad("chat", {"tools": tools}, code, param)
    bad("chat", {"functions": [F]}, "unsupported_parameter", "functions")
    bad("chat", {"function_call": "auto", "tools": 1}, "unsupported_parameter", "function_call")
    good(
        "chat",
        {"functions": [], "function_call": "none", "parallel_tool_calls": True, "response_format": {"type": "text"}},
    )
    for change, thinking in (
        ({"thinking": True}, 1),
        ({"thinking": {"type": "disabled"}}, 0),
        ({"enable_thinking": False, "think": True}, 0),
        ({"think": True}, 1),
        ({"model": "deepseek-chat"}, 0),
        ({"model": "deepseek-reasoner"}, 1),
        ({"model": "deepseek-chat", "thinking": True}, 1),
    ):
        good("chat", change, thinking=thinking)
    good("chat", {"model": "deepseek-reasoner"}, facts={"thinks": 0})
    for value, code, param in (
        ("yes", "invalid_type", "thinking"),
        ({}, "invalid_value", "thinking.type"),
        ({"type": 1}, "invalid_type", "thinking.type"),
        ({"type": "auto"}, "invalid_value", "thinking.type"),
    ):
        bad("chat", {"thinking": value}, code, param)
    bad("chat", {"think": {"type": "enabled"}}, "invalid_type", "think")
    for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
        good("chat", {"reasoning_effort": effort}, effort=effort)
    bad("chat", {"reasoning_effort": ""}, "invalid_value", "reasoning_effort")
    good("chat", {"logprobs": True, "top_logprobs": 20}, logprobs=20)
    good("chat", {"logprobs": True}, logprobs=0)
    good("chat", {"logprobs": False, "top_logprobs": None})
    bad("chat", {"top_logprobs": 3}, "invalid_value", "top_logprobs")
    bad("chat", {"logprobs": True, "top_logprobs": 21}, "invalid_value", "top_logprobs")
    for change, field in (
        ({"tool_choice": "required"}, "tool_choice"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "none"}, "tool_choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1}}, "thinking.budget_tokens"),
        ({"tools": [{"function": {"name": "f", "strict": True}}]}, "tools.strict"),
    ):
        add("chat", f"outside: {field}", {**BASE["chat"], **change}, b"outside " + field.encode() + b"\n")
    pairs: list[Any] = [SAY]
    made: list[Any] = [SAY]
    for n in range(4096):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        pairs += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "r"},
        ]
        made += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "r", "tool_call_id": f"c{n}"},
        ]
    CASES["chat"].append(
        (
            "4096 calls and their results",
            tape("chat", json.dumps({"messages": pairs}).encode()),
            asks("chat", messages=made),
        )
    )


def completions() -> None:
    for prompt, prompts in (
        ("", [""]),
        (["a", "é"], ["a", "é"]),
        ([1, 2, 999], [[1, 2, 999]]),
        ([[1], [], [2]], [[1], [], [2]]),
        (["x"] * 64, ["x"] * 64),
    ):
        good("completions", {"prompt": prompt}, prompts=prompts)
    for prompt, code, param in (
        (None, "invalid_type", "prompt"),
        ({}, "invalid_type", "prompt"),
        ([], "invalid_value", "prompt"),
        (["x"] * 65, "invalid_value", "prompt"),
        (["x", 1], "invalid_type", "prompt[1]"),
        ([1.0], "invalid_type", "prompt"),
        ([[1], 2], "invalid_type", "prompt[1]"),
        ([[1], [True]], "invalid_type", "prompt[1]"),
        ([1000], "invalid_value", "prompt"),
        ([[-1]], "invalid_value", "prompt[0]"),
        ([None], "invalid_type", "prompt"),
    ):
        bad("completions", {"prompt": prompt}, code, param)
    good("completions", {"echo": False, "suffix": "", "best_of": 1})
    good("completions", {"best_of": 3, "n": 3}, n=3)
    bad("completions", {"best_of": 3}, "unsupported_parameter", "best_of")
    bad("completions", {"echo": 0}, "unsupported_parameter", "echo")
    bad("completions", {"suffix": "x"}, "unsupported_parameter", "suffix")
    good("completions", {"logprobs": 0}, logprobs=0)
    good("completions", {"logprobs": 20}, logprobs=20)
    bad("completions", {"logprobs": True}, "invalid_type", "logprobs")


def messages() -> None:
    def talk(given: list[Any], made: list[Any], **x: Any) -> None:
        good("messages", {"messages": given}, messages=made, **x)

    for content in (
        "hi",
        [{"type": "text", "text": "hi"}],
        [{"type": "text", "text": ""}, {"type": "text", "text": "hi"}],
    ):
        talk([{"role": "user", "content": content}], [SAY])
    cached = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]
    talk([{"role": "user", "content": cached}], [SAY], caches=1)
    talk([SAY, {"role": "user", "content": "more"}], [{"role": "user", "content": "hi\n\nmore"}])
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1.50, "a": "é"}}
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"b": 1.5, "a": "é"}'}}
    said = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "So"}, use],
    }
    made = {"role": "assistant", "content": "So", "reasoning_content": "hm", "tool_calls": [call]}
    for result, text in (
        ({"content": "r"}, "r"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\n\nb"),
        ({"content": None}, ""),
        ({"is_error": True}, "Error"),
        ({"content": "no", "is_error": True}, "Error: no"),
        ({"content": "An ERROR", "is_error": True}, "An ERROR"),
        ({"content": [{"type": "image"}]}, "[Unsupported image]"),
        ({"content": [{"type": "tool_reference", "tool_name": "g"}]}, "The tool g can be called."),
    ):
        heard = [{"type": "text", "text": "and"}, {"type": "tool_result", "tool_use_id": "t1", **result}]
        tool = {"role": "tool", "tool_call_id": "t1", "content": text}
        talk([SAY, said, {"role": "user", "content": heard}], [SAY, made, tool, {"role": "user", "content": "and"}])
    prefill = {"role": "assistant", "content": "Sure,"}
    talk([SAY, prefill], [SAY, {**prefill, "prefix": True}])
    hidden = {"type": "thinking", "thinking": "", "signature": "ds4-thinking:aG0="}
    talk(
        [SAY, {"role": "assistant", "content": [hidden, {"type": "redacted_thinking", "data": "x"}]}, SAY],
        [SAY, {"role": "assistant", "content": "", "reasoning_content": "hm"}, SAY],
    )
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: a=1\n\nBe kind."},
        {"type": "text", "text": "x-anthropic-y"},
    ]
    good("messages", {"system": system}, messages=[{"role": "system", "content": "Be kind."}, SAY])
    good("messages", {"system": ""})
    talk([{"role": "system", "content": "A"}, SAY], [{"role": "system", "content": "A"}, SAY])
    told = {"role": "user", "content": "hi\n\n<system>\nB\n</system>"}
    talk([SAY, {"role": "system", "content": "B"}], [told])
    document = {"type": "document", "title": "T", "source": {"type": "text", "data": "D"}}
    found = {"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "C"}]}
    talk([{"role": "user", "content": [document, found]}], [{"role": "user", "content": "T\n\nD\n\nT\n\nS\n\nC"}])
    for given, code, param in (
        (None, "invalid_type", "messages"),
        ([], "invalid_value", "messages"),
        ([1], "invalid_type", "messages[0]"),
        ([{"content": "x"}], "invalid_value", "messages[0].role"),
        ([{"role": "tool", "content": "x"}], "invalid_value", "messages[0].role"),
        ([{"role": "user"}], "invalid_type", "messages[0].content"),
        ([{"role": "user", "content": [1]}], "invalid_type", "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image"}]}], "invalid_value", "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "invalid_type", "messages[0].content[0].text"),
        (
            [{"role": "user", "content": [{"type": "tool_result"}]}],
            "missing_field",
            "messages[0].content[0].tool_use_id",
        ),
        ([{"role": "assistant", "content": [{"type": "tool_use"}]}], "missing_field", "messages[0].content[0].name"),
        ([{"role": "assistant", "content": [{**use, "input": []}]}], "invalid_type", "messages[0].content[0].input"),
        (
            [{"role": "assistant", "content": [{**use, "input": {"a": "\ud800"}}]}],
            "invalid_value",
            "messages[0].content[0].input",
        ),
        (
            [{"role": "assistant", "content": [{**hidden, "signature": "ds4-thinking:aG1="}]}],
            "invalid_value",
            "messages[0].content[0].signature",
        ),
        ([{"role": "assistant", "content": [{"type": "image"}]}], "invalid_value", "messages[0].content[0].type"),
        (
            [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "\ud800"}]}],
                }
            ],
            "invalid_value",
            "messages[0].content[0].content[0].type",
        ),
    ):
        bad("messages", {"messages": given}, code, param)
    schema = {"type": "object"}
    tools = [
        {"name": "f", "description": "D", "input_schema": schema, "defer_loading": True},
        {"type": "tool_search_tool_bm25", "name": "s"},
        {"type": "custom", "name": "g", "input_schema": {}},
    ]
    made_tools = [
        {"type": "function", "function": {"name": "f", "description": "D", "parameters": schema}},
        {"type": "function", "function": {"name": "g", "parameters": {}}},
    ]
    good("messages", {"tools": tools, "tool_choice": {"type": "auto"}}, tools=made_tools)
    for given, code, param in (
        ({}, "invalid_type", "tools"),
        ([{}, 1], "invalid_type", "tools[1]"),
        ([{"name": "f"}], "missing_field", "tools[0].input_schema"),
        ([{"type": "bash_20250124", "name": "b"}], "unsupported_parameter", "tools[0].type"),
        ([{"input_schema": {}}], "missing_field", "tools[0].name"),
        ([{"name": "f", "input_schema": 1}], "invalid_type", "tools[0].input_schema"),
    ):
        bad("messages", {"tools": given}, code, param)
    for change, thinking, effort, more in (
        ({"thinking": {"type": "adaptive"}}, None, None, {}),
        ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, 1, None, {"thought": 31999}),
        ({"thinking": {"type": "disabled"}}, 0, None, {}),
        ({"output_config": {"effort": "high"}}, None, "high", {}),
        ({"output_config": {}, "reasoning_effort": "low"}, None, "low", {}),
        ({"model": "deepseek-reasoner"}, 1, None, {}),
        ({"thinking": {}}, 0, None, {}),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, None, None, {"hides": 1}),
    ):
        good("messages", change, thinking=thinking, effort=effort, **more)
    good("messages", {"output_config": {"effort": "high"}}, thinking=None, facts={"thinks": 0})
    for change, code, param in (
        ({"thinking": 1}, "invalid_type", "thinking"),
        ({"thinking": {"budget_tokens": 5}}, "invalid_value", "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "invalid_value", "thinking.budget_tokens"),
        ({"thinking": {"type": "adaptive", "display": "x"}}, "invalid_value", "thinking.display"),
        ({"output_config": {"effort": "x"}}, "invalid_value", "output_config.effort"),
        ({"mcp_servers": [{}]}, "unsupported_parameter", "mcp_servers"),
        ({"metadata": {"user_id": 5}}, "invalid_type", "metadata.user_id"),
        ({"max_tokens": None}, "missing_field", "max_tokens"),
        ({"max_tokens": -1}, "invalid_value", "max_tokens"),
        ({"max_tokens": "5"}, "invalid_type", "max_tokens"),
    ):
        bad("messages", change, code, param)
    good("messages", {"max_tokens": 0}, budget=1, warms=1)
    good("messages", {"max_tokens": 1e300}, budget=1 << 31)
    good(
        "messages",
        {"cache_control": {"type": "ephemeral"}, "metadata": {"user_id": "u"}, "context_management": {}},
        caches=1,
    )


def responses() -> None:
    def text(role: str, *parts: str, kind: str = "input_text") -> dict[str, Any]:
        return {"type": "message", "role": role, "content": [{"type": kind, "text": part} for part in parts]}

    def talk(given: list[Any], made: list[Any], **x: Any) -> None:
        good("responses", {"input": given}, items=x.pop("items", given), messages=made, **x)

    talk(
        [text("developer", "A", "B"), text("user", "hi")],
        [{"role": "system", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}, SAY],
    )
    untyped = {"role": "user", "content": "hi"}
    talk([untyped], [SAY], items=[{**untyped, "type": "message"}])
    talk([{"type": None, **untyped}], [SAY], items=[{"type": "message", **untyped}])
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ds4:aG0="}
    call = {"type": "function_call", "call_id": "c1", "name": "g", "namespace": "ns", "arguments": "{}"}
    custom = {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": 'a"\n'}
    outs = [
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "s"}, {"type": "input_text", "text": "t"}],
        },
    ]
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "ns.g", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "patch", "arguments": '{"input": "a\\"\\n"}'}},
    ]
    talk(
        [
            untyped | {"type": "message"},
            reasoning,
            text("assistant", "So", kind="output_text"),
            call,
            custom,
            *outs,
            {"type": "web_search_call"},
        ],
        [
            SAY,
            {"role": "assistant", "content": "So", "reasoning_content": "hm", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "tool", "tool_call_id": "c2", "content": "s\n\nt"},
        ],
    )
    for item, thought in (
        ({"content": [{"type": "reasoning_text", "text": "a"}], "summary": [{"text": "s"}]}, "a"),
        ({"summary": [{"text": "s"}, {"text": "t"}]}, "s\n\nt"),
        ({"encrypted_content": "gAAA", "summary": [{"text": "s"}]}, "s"),
        ({"encrypted_content": "ds4:aG1=", "summary": [{"text": "s"}]}, "s"),
    ):
        talk([{"type": "reasoning", **item}], [{"role": "assistant", "content": "", "reasoning_content": thought}])
    apart = [{"role": "assistant", "content": "", "tool_calls": calls[:1]}]
    apart += [{"role": "assistant", "content": "", "reasoning_content": "hm"}]
    talk([call, reasoning], apart)
    good(
        "responses",
        {"instructions": "Be."},
        messages=[{"role": "system", "content": "Be."}, SAY],
        head={"instructions": "Be."},
    )
    for given, code, param in (
        (None, "missing_field", "input"),
        ([], "missing_field", "input"),
        (5, "invalid_type", "input"),
        ([1], "invalid_type", "input[0]"),
        ([{}], "missing_field", "input[0].type"),
        ([{"type": 1}], "invalid_type", "input[0].type"),
        ([{"type": "x"}], "invalid_value", "input[0].type"),
        ([{"type": "message", "role": "tool"}], "invalid_value", "input[0].role"),
        ([{"role": "user"}], "missing_field", "input[0].content"),
        ([{"role": "user", "content": [{"type": "input_image"}]}], "invalid_value", "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "invalid_type", "input[0].content[0].text"),
        ([{"type": "function_call", "call_id": "c"}], "missing_field", "input[0].name"),
        ([{"type": "function_call", "name": "f"}], "missing_field", "input[0].call_id"),
        ([outs[0]], "invalid_value", "input[0].call_id"),
        ([call, {**outs[0], "output": None}], "missing_field", "input[1].output"),
        ([{"type": "item_reference", "id": 5}], "invalid_type", "input[0].id"),
        ([{"type": "reasoning", "content": "x"}], "invalid_type", "input[0].content"),
    ):
        bad("responses", {"input": given}, code, param)
    good(
        "responses",
        {"previous_response_id": "resp_1"},
        previous="resp_1",
        messages=[],
        head={"previous_response_id": "resp_1"},
    )
    good(
        "responses",
        {"previous_response_id": "resp_1", "input": None},
        previous="resp_1",
        messages=[],
        items=[],
        head={"previous_response_id": "resp_1"},
    )
    good("responses", {"input": [{"id": "msg_1"}]}, messages=[], items=[{"id": "msg_1", "type": "item_reference"}])
    function = {"type": "function", "name": "f", "description": "D", "parameters": {"type": "object"}}
    space = {
        "type": "namespace",
        "name": "ns",
        "description": "About",
        "tools": [{"type": "function", "name": "g"}, {**function, "name": "h"}],
    }
    patch = {"type": "custom", "name": "patch"}
    given_tools = [function, space, patch, {"type": "web_search"}]
    empty = {"type": "object", "properties": {}}
    takes = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The input, as plain text."}},
        "required": ["input"],
    }
    made = [
        {"name": "f", "description": "D", "parameters": {"type": "object"}},
        {"name": "ns.g", "description": "[ns: About] ", "parameters": empty},
        {"name": "ns.h", "description": "D", "parameters": {"type": "object"}},
        {"name": "patch", "parameters": takes},
    ]
    known = [("f", "f", None, 0), ("ns.g", "g", "ns", 0), ("ns.h", "h", "ns", 0), ("patch", "patch", None, 1)]
    good(
        "responses",
        {"tools": given_tools},
        tools=[{"type": "function", "function": one} for one in made],
        known=known,
        head={"tools": given_tools},
    )
    for given, code, param in (
        ({"x": 1}, "invalid_type", "tools"),
        ([{}], "missing_field", "tools[0].type"),
        ([{"type": "function"}], "missing_field", "tools[0].name"),
        ([function, function], "invalid_value", "tools[1].name"),
        ([{"type": "namespace", "name": "n", "tools": [{}]}], "missing_field", "tools[0].tools[0].type"),
        ([{**function, "parameters": "x"}], "invalid_type", "tools[0].parameters"),
        ([{**patch, "description": 1}], "invalid_type", "tools[0].description"),
    ):
        bad("responses", {"tools": given}, code, param)
    for effort in ("minimal", "xhigh"):
        good(
            "responses",
            {"reasoning": {"effort": effort, "summary": "auto"}},
            effort=effort,
            summary=1,
            head={"reasoning": {"effort": effort, "summary": "auto"}},
        )
    good("responses", {"reasoning": {"summary": "none"}})
    good(
        "responses",
        {"reasoning": {"generate_summary": "concise"}},
        summary=1,
        head={"reasoning": {"effort": None, "summary": "concise"}},
    )
    good(
        "responses",
        {"include": ["reasoning.encrypted_content", "x"], "store": False, "client_metadata": {}},
        sealed=1,
        head={"store": False},
    )
    good("responses", {"include": ["message.output_text.logprobs"]}, logprobs=0)
    good("responses", {"top_logprobs": 5}, logprobs=5, head={"top_logprobs": 5})
    good("responses", {"top_logprobs": 0})
    good("responses", {"max_output_tokens": 9, "max_tokens": 5}, budget=9, head={"max_output_tokens": 9})
    good("responses", {"background": True}, head={"background": True})
    good(
        "responses",
        {
            "metadata": {"k": "é" * 512},
            "user": "u",
            "text": {"verbosity": "low"},
            "truncation": "auto",
            "parallel_tool_calls": False,
            "max_tool_calls": 3.0,
            "prompt_cache_key": "p",
            "safety_identifier": "s",
        },
        head={
            "metadata": {"k": "é" * 512},
            "user": "u",
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "truncation": "auto",
            "parallel_tool_calls": False,
            "max_tool_calls": 3,
            "prompt_cache_key": "p",
            "safety_identifier": "s",
        },
    )
    for change, code, param in (
        ({"reasoning": {"effort": "x"}}, "invalid_value", "reasoning.effort"),
        ({"reasoning": {"summary": "x"}}, "invalid_value", "reasoning.summary"),
        ({"reasoning": 1}, "invalid_type", "reasoning"),
        ({"include": "x"}, "invalid_type", "include"),
        ({"include": [1]}, "invalid_type", "include[0]"),
        ({"background": True, "store": False}, "invalid_value", "store"),
        ({"background": True, "stream": True}, "unsupported_parameter", "stream"),
        ({"metadata": {"k" * 65: "v"}}, "invalid_value", "metadata"),
        ({"metadata": {"k": 1}}, "invalid_type", "metadata"),
        ({"metadata": {str(n): "v" for n in range(17)}}, "invalid_value", "metadata"),
        ({"truncation": "x"}, "invalid_value", "truncation"),
        ({"conversation": "c"}, "unsupported_parameter", "conversation"),
        ({"prompt": {}}, "unsupported_parameter", "prompt"),
        ({"max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
        ({"top_logprobs": 21}, "invalid_value", "top_logprobs"),
    ):
        bad("responses", change, code, param)
    for change in ({"metadata": {"k": "\ud800"}}, {"tools": [{"type": "x", "\udc00": 1}]}, {"x": float("inf")}):
        body = {**BASE["responses"], **change}
        add("responses", f"cannot go back: {change}", body, b"error 400 invalid_json -\n")
    for change, field in (
        ({"tools": [{**function, "strict": True}]}, "tools.strict"),
        ({"tools": [{**patch, "format": {"type": "grammar"}}]}, "tools.format"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"tool_choice": {"type": "function"}}, "tool_choice"),
    ):
        add("responses", f"outside: {field}", {**BASE["responses"], **change}, b"outside " + field.encode() + b"\n")


def main() -> None:
    for surface in BASE:
        shared(surface)
    for surface in ("chat", "completions"):
        options(surface)
    chat(), completions(), messages(), responses()
    folder = HERE / "worked"
    folder.mkdir(exist_ok=True)
    for surface, cases in CASES.items():
        rows = []
        for case, given, expected in cases:
            try:
                stored = {"input": given.decode()}
            except UnicodeDecodeError:
                stored = {"input_b64": base64.b64encode(given).decode()}
            rows.append(json.dumps({"case": case, **stored, "expected": expected.decode()}) + "\n")
        (folder / f"{surface}.jsonl").write_text("".join(rows))
        print(surface, len(cases), sum(map(len, rows)))


if __name__ == "__main__":
    main()
