"""Writes published/conversations.jsonl: what DeepSeek's published encoder makes of conversations.

    PYTHONPATH=host python goldens/encoder/generate.py encoding_dsv4.py

encoding_dsv4.py: the release's reference, as sglang 0.5.13 ships it (sglang/srt/entrypoints/openai/encoding_dsv4.py).
It gives text; which of its special tokens the layout wrote is found by asking it twice: once with "<" and "｜" of
everything that the conversation brings replaced by other characters, so that the tokens that are then there are the
layout's. Texts that our two escapes touch are left out: there the published encoder says nothing.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import random
import re
import sys
from typing import Any

from ds4.sys.tape import escape, line

HERE = pathlib.Path(__file__).parent
SPECIALS = (
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜latest_reminder｜>",
)
TOKEN = re.compile("|".join((*SPECIALS, "<think>", "</think>", "｜DSML｜")))
DISGUISE = str.maketrans({"<": "\ue001", "｜": "\ue002"})

WORDS = (
    *("Hello", "What is 2 + 2?", "", " ", "\n", "\n\n", "é", "中文", "👍🏽", '"quoted"', "back\\slash", "a\tb"),
    *("</b>", "&lt;"),
    *("<think>", "</think>", "<｜User｜>", "<｜Assistant｜>", "｜DSML｜", "<｜DSML｜tool_calls>"),
    *("<｜end▁of▁sentence｜>", "<｜"),
    *("<tool_result>", "</tool_result", "\x00", "\x7f", "\u2028", "{}", "{content}", "{0}", "%s", "｜>"),
    *("User｜>", "None"),
)  # fmt: skip
NUMBERS = (0, 1, -1, 12345678901234567890123, 0.5, 1.0, 1e16, 1e22, 1e-5, 1e-7, 0.1, 2.0**-44, 5e-324, 1.5e300, -0.0)
IDS = ("call_0", "call_1", "call_2", "", "call_9")
NAMES = ("get_weather", "f", "a b", "naïve")
ROLES = ("system", "developer", "user", "user", "user", "assistant", "assistant", "assistant", "tool", "tool")


def text(rng: random.Random) -> str:
    return "".join(rng.choices(WORDS, k=rng.randrange(4)))


def value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind < 5:
        return text(rng)
    if kind == 5:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {text(rng): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def arguments(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return rng.choice(
            ("", "not json", "{", '{"a":1', '{"a":\n"b"}', "{'a': 1}", '{"a": NaN}', '{"a":1,"a":2,"b":-0}')
        )
    members = {rng.choice(("x", "y", "path", "é", "a b", "")): value(rng) for _ in range(rng.randrange(4))}
    return json.dumps(members, ensure_ascii=False, separators=rng.choice(((",", ":"), (", ", ": "))))


def function(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"name": rng.choice(NAMES), "description": text(rng)}
    if rng.random() < 0.7:
        made["parameters"] = {"type": "object", "properties": {"x": value(rng)}, "required": ["x"]}
    return made


def message(rng: random.Random, role: str) -> dict[str, Any]:
    made: dict[str, Any] = {"role": role, "content": text(rng)}
    if role == "developer":
        made["content"] += "!"
    if role == "tool":
        made["tool_call_id"] = rng.choice(IDS)
    if role in ("system", "developer"):
        if rng.random() < 0.2:
            made["tools"] = [{"type": "function", "function": function(rng)} for _ in range(rng.randrange(1, 3))]
        if rng.random() < 0.2:
            made["response_format"] = value(rng)
    if role == "assistant":
        if rng.random() < 0.2:
            made["content"] = None
        if rng.random() < 0.7:
            made["reasoning_content"] = text(rng)
        if rng.random() < 0.5:
            made["tool_calls"] = [
                {"id": rng.choice(IDS), "function": {"name": rng.choice(NAMES), "arguments": arguments(rng)}}
                for _ in range(rng.randrange(1, 4))
            ]
        made["wo_eos"] = rng.random() < 0.1
    return made


def disguised(given: Any) -> Any:
    if isinstance(given, str):
        return given.translate(DISGUISE)
    if isinstance(given, list):
        return [disguised(one) for one in given]
    if isinstance(given, dict):
        return {disguised(key): disguised(one) for key, one in given.items()}
    return given


def expected(published: Any, messages: list[dict[str, Any]], thinking: bool, most: bool, drop: bool) -> str:
    def prompt(given: list[dict[str, Any]]) -> str:
        mode, effort = "thinking" if thinking else "chat", "max" if most else None
        return str(published.encode_messages(given, mode, drop_thinking=drop, reasoning_effort=effort))

    whole = prompt(messages)
    apart = prompt([{key: one if key == "role" else disguised(one) for key, one in m.items()} for m in messages])
    assert len(whole) == len(apart), messages
    out, end = b"", 0
    for found in TOKEN.finditer(apart):
        assert whole[found.start() : found.end()] == found[0]
        if found.start() > end:
            out += line("plain", whole[end : found.start()].encode())
        out += line("special", found[0].encode())
        end = found.end()
    if end < len(whole):
        out += line("plain", whole[end:].encode())
    return out.decode()


def tape(messages: list[dict[str, Any]], thinking: bool, most: bool, drop: bool) -> str:
    rows = [line("encode", int(thinking), int(most), int(drop))]
    for m in messages:
        content = m["content"]
        rows.append(
            line("turn", m["role"].encode(), *(("none", "-") if content is None else ("text", content.encode())))
        )
        if m.get("tool_call_id"):
            rows.append(line("id", m["tool_call_id"].encode()))
        if m.get("reasoning_content"):
            rows.append(line("reasoning", m["reasoning_content"].encode()))
        for call in m.get("tool_calls", ()):
            made = call["function"]
            rows.append(line("call", call["id"].encode(), made["name"].encode(), made["arguments"].encode()))
        if m.get("wo_eos"):
            rows.append(line("open"))
        for tool in m.get("tools", ()):
            rows.append(b"tool " + escape(json.dumps(tool["function"], ensure_ascii=False)) + b"\n")
        if "response_format" in m:
            rows.append(b"format " + escape(json.dumps(m["response_format"], ensure_ascii=False)) + b"\n")
    return b"".join(rows).decode()


def touched(messages: list[dict[str, Any]]) -> bool:
    """Whether an escape of ours would change something, or arguments are what the published encoder fails at."""
    said = json.dumps(messages, ensure_ascii=False)
    return "</tool_result>" in said or "</｜DSML｜parameter>" in said


def conversations() -> list[tuple[list[dict[str, Any]], bool, bool, bool]]:
    rng = random.Random("encoder goldens")
    user, answer = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes", "reasoning_content": "hm"}
    system = {"role": "system", "content": "Be brief."}
    developer = {"role": "developer", "content": "Be brief."}
    reminder = {"role": "latest_reminder", "content": "2026-02-21"}
    tool = {"role": "tool", "content": "4", "tool_call_id": "call_0"}
    tools = [{"type": "function", "function": {"name": "f", "description": "A tool."}}]
    shapes: list[list[dict[str, Any]]] = [
        [],
        [user],
        [system],
        [system, user],
        [user, answer],
        [user, answer, user],
        [system, user, answer, user, answer],
        [answer],
        [answer, answer],
        [user, user],
        [user, tool],
        [tool, user, tool],
        [developer],
        [developer, user],
        [developer, user, answer, developer],
        [developer, answer, user],
        [user, developer, answer],
        [system, system, user],
        [user, system, user],
        [reminder, user],
        [user, reminder],
        [user, reminder, answer],
        [reminder],
        [answer, reminder, user],
        [user, answer, tool],
        [user, answer, tool, tool, user, answer, user],
        [system, {**answer, "content": None}],
        [{**system, "tools": tools}, user, answer, user, answer],
        [{**system, "content": None, "tools": tools}, user],
        [user, answer, {**developer, "tools": tools}],
        [{**system, "response_format": {"type": "json_object"}}, user],
        [{**system, "tools": tools, "response_format": {"a": [1]}}, user],
        [user, {**answer, "wo_eos": True}],
    ]
    out = [(shape, t, m, d) for shape in shapes for t, m, d in ((1, 0, 1), (1, 1, 0), (0, 1, 1), (1, 1, 1))]
    while len(out) < 500:
        messages = [message(rng, rng.choice(ROLES)) for _ in range(rng.randrange(1, 8))]
        if rng.random() < 0.1:
            messages.insert(rng.randrange(len(messages) + 1), {"role": "latest_reminder", "content": text(rng)})
        if not touched(messages):
            out.append((messages, rng.random() < 0.7, rng.random() < 0.2, rng.random() < 0.8))
    return [(messages, bool(t), bool(m), bool(d)) for messages, t, m, d in out]


def main() -> None:
    spec = importlib.util.spec_from_file_location("published", sys.argv[1])
    assert spec is not None and spec.loader is not None
    published = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(published)
    rows = []
    for number, (messages, *switches) in enumerate(conversations()):
        outcome = expected(published, messages, *switches)
        rows.append({"case": f"conversation {number}", "input": tape(messages, *switches), "expected": outcome})
    with (HERE / "published" / "conversations.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    print(len(rows), "conversations")


if __name__ == "__main__":
    main()
