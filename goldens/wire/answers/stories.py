"""What answers are made of: stories, told as events.

A story's parts: t text, r reasoning, c call (id, name, pieces of arguments, the object that is certain), v void.
"""

from __future__ import annotations

from typing import Any

CALL_1, CALL_2 = (f"call_{n:032x}" for n in (1, 2))
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


def plain_of(story: str) -> bool:
    return all(part[0] == "t" for part in STORIES[story][0])


def custom_of(story: str) -> str:
    return story.partition("custom call: ")[2]
