"""encoder: a conversation as the prompt of DeepSeek V4; what the layout wrote is told from what was typed."""

from __future__ import annotations

import random
from collections.abc import Callable

from ds4.core.encoder_dsv4 import Conversation, encode
from ds4.core.tapes import encoder as tapes
from ds4.sys.tape import escape, line

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

_CLOSE = "</｜DSML｜parameter>"
_WORDS = (
    *("<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜", "<｜DSML｜tool_calls>"),
    *("<｜end▁of▁sentence｜>",),
    *("</tool_result>", "</tool_result", "</", "tool_result>", _CLOSE, _CLOSE[:9], _CLOSE[9:], "<", "｜", "DSML｜"),
    *("Hello", "", " ", "\n", "\n\n", '"', "\\", "\x00", "\x1f", "\x7f", "é", "中", "👍🏽", "\ud800", "\udc00", "&lt;"),
    *("\ufeff", "\u2028", "a", "b", "{x}", "%s", "%-", "%41"),
)  # fmt: skip
_ROLES = ("user", "assistant", "tool", "system", "developer", "latest_reminder", "user", "assistant", "assistant")
_ODD_ROLES = ("", "User", "function", "user ", "｜DSML｜", "assistant\n")
_IDS = ("a", "b", "c", "", "d")
# Tokens of JSON, whole and broken; a text of these is nearly JSON now and then.
_JSON = (
    *("0", "-0", "1", "-1", "0.0", "-0.0", "1.50", "1e5", "1E+16", "1e-7", "123456789012345678901", "1e400", "-1e400"),
    *("5e-324", "2.5e-324", "0.1", "9007199254740993.0", "1e22", "1e23", "4.35", "5.6843418860808015e-14", "8.5e-3"),
    *("1e-400", "1.7976931348623157e308", "1.7976931348623159e308", "2.2250738585072011e-308", "123456.789e3", "1e15"),
    *("true", "false", "null", "NaN", "Infinity", "-Infinity", '""', '"a"', '"\\u00e9\\n"', '"\\ud83d\\ude00"', "[]"),
    *('"\\ud83d"', '"\\ude00\\ud83d"', '"\\u003cthink>"', '"\\/\\b\\f\\r\\t\\"\\\\"', '"\\uff5c\\uFF5C"', "{}", "[ ]"),
)  # fmt: skip
_BROKEN = (
    *("01", "1.", ".5", "+1", "1e", "-", "nan", "tru", "'a'", '"', '"\\x"', '"\\u12"', '"\x01"', "[1,]", "{,}"),
    *("\u00a0",),
    *('{"a"}', "//", "1 2", "\ufeff1", '"\n"', "[", "}", "", "--1", '"\\u00G0"', "Infinit", "-NaN", "1_0", "\u0661"),
)  # fmt: skip


def _text(choose: Choices) -> str:
    parts: list[str] = []
    for _ in range(choose.below(4)):
        how = choose.below(256)
        parts.append(choose.of(_WORDS) if how < 240 else chr(((how - 240) * 0x11000 + choose.below(65536)) % 0x110000))
    return "".join(parts)


def _string(choose: Choices) -> str:
    if choose.below(2):
        return choose.of(('"x"', '"y"', '"path"', '""', '"é"', '"\\u0078"'))
    return '"' + _text(choose).replace("\\", "\\\\").replace('"', '\\"').replace("\x00", "").replace("\n", "\\n") + '"'


def _json(choose: Choices, depth: int = 0) -> str:
    """Nearly always JSON: a value, with white space here and there."""
    how = choose.below(256)
    space = "" if how % 3 else choose.of((" ", "\n", "\t \r", "  "))
    if how < 110 or depth > 4:
        return space + choose.of(_JSON)
    if how < 150:
        return _string(choose) + space
    if how < 200:
        return f"[{space}" + ",".join([_json(choose, depth + 1) for _ in range(choose.below(4))]) + "]"
    if how < 252:
        return _object(choose, depth) + space
    return choose.of(("[" * 12, '{"x":' * 9)) + _json(choose, depth + 1)


def _object(choose: Choices, depth: int = 0) -> str:
    space = " " * choose.below(2)
    members = [f"{_string(choose)}{space}:{_json(choose, depth + 1)}" for _ in range(choose.below(4))]
    return "{" + ",".join(members) + "}"


def _arguments(choose: Choices) -> str:
    how = choose.below(64)
    if how < 50:
        return _object(choose)
    if how < 56:
        return _json(choose)
    if how < 62:
        return f'{{"x":{choose.of(_BROKEN)}}}' if how % 2 else choose.of(_BROKEN) + _text(choose)
    deep = 195 + choose.below(10)
    return '{"x":' + "[" * deep + "]" * deep + "}" if how == 62 else '{"x":' + "1" * (4290 + choose.below(20)) + "}"


def _values(choose: Choices, verb: bytes) -> bytes:
    return verb + b" " + escape(_json(choose)) + b"\n"


def _turn(choose: Choices) -> bytes:
    how = choose.below(256)
    role = choose.of(_ODD_ROLES) if how == 255 else _ROLES[how % len(_ROLES)]
    content = b"none -" if how >= 240 and how < 250 else b"text " + escape(_text(choose))
    out = b"turn %b %b\n" % (escape(role), content)
    if role == "tool" and choose.below(4):
        out += line("id", choose.of(_IDS).encode())
    elif role == "assistant":
        if choose.below(2):
            out += b"reasoning " + escape(_text(choose)) + b"\n"
        for _ in range(choose.of((0, 1, 2, 0, 3))):
            name = choose.of(("f", "get_weather", "")) if choose.below(4) else _text(choose)
            words = (choose.of(_IDS), name, _arguments(choose))
            out += b"call " + b" ".join(map(escape, words)) + b"\n"
        if choose.once_in(8):
            out += b"replay " + escape(_text(choose)) + b"\n"
        if choose.once_in(8):
            out += b"open\n"
    elif role in ("system", "developer"):
        out += b"".join([_values(choose, b"tool") for _ in range(choose.of((0, 0, 1, 2)))])
        if choose.once_in(4):
            out += _values(choose, b"format")
    return out


def _tape(choose: Choices, turns: int) -> bytes:
    how = choose.below(16)
    head = b"encode %d %d %d\n" % (how % 4 != 3, how % 8 > 5, how % 16 < 12)
    body = []
    for _ in range(turns):
        made = _turn(choose)
        try:
            tapes.read_input(head + made)
        except ValueError:  # a value that came out broken: such a line is no tape
            made = b"turn user text x\n"
        body.append(made)
    return head + b"".join(body)


def made(seed: bytes) -> bytes:
    """The input that a seed stands for."""
    choose = Choices(seed)
    return _tape(choose, choose.below(7))


def _soak(rng: random.Random) -> bytes:
    """A long conversation without a fault, so that all of it is written."""
    rows = [b"encode 1 0 %d\n" % rng.randrange(2)]
    while len(rows) < 200:
        turn = _turn(Choices(rng.randbytes(80)))
        try:
            fine = not tapes.by_tape(rows[0] + turn).startswith(b"error")
        except ValueError:
            continue
        rows += [turn] * fine
    return b"".join(rows)


def _dialogue() -> tuple[Callable[[], object], bytes]:
    """A conversation of an agent: six tools, three rounds of two calls with their results, an answer to each."""
    tool = (
        '{"name": "read_file", "description": "Reads a file of the working directory, or a part of it.", "parameters": '
        '{"type": "object", "properties": {"path": {"type": "string", "description": "Where it is"}, '
        '"first": {"type": "integer"}, "last": {"type": "integer"}}, "required": ["path"]}}'
    )
    source = "def area(width: float, height: float) -> float:\n    return width * height\n" * 12
    rows = [b"encode 1 0 1\n", b"turn system text %b\n" % escape("You are a coding agent. " * 20)]
    rows += [b"tool %b\n" % escape(tool)] * 6
    for number in range(3):
        rows.append(b"turn user text %b\n" % escape(f"{number}: please look at <think> and tell me what it does. " * 3))
        rows.append(b"turn assistant text %b\n" % escape("Let me look."))
        rows.append(b"reasoning %b\n" % escape("The user wants to know what a file does. I read it first. " * 5))
        for call in ("a", "b"):
            arguments = f'{{"path": "src/{call}{number}.py", "first": {number}, "last": 100, "tags": ["x", 1.5]}}'
            rows.append(b"call %b read_file %b\n" % (escape(call), escape(arguments)))
        rows += [b"turn tool text %b\nid %b\n" % (escape(source), escape(call)) for call in ("b", "a")]
        rows.append(b"turn assistant text %b\n" % escape("It multiplies two numbers. " * 10))
    rows.append(b"turn user text %b\n" % escape("Thanks. And now?"))
    tape = b"".join(rows)
    conversation: Conversation = tapes.read_input(tape)
    return lambda: encode(conversation), tape


COMPONENT = Component(
    name="encoder",
    about="a conversation as the prompt of DeepSeek V4, with the layout's special tokens told from typed ones",
    axes=("token", "performance"),
    replacement=plain(tapes.by_tape),
    inputs=Generated(made, least=16, most=192),
    soak=_soak,
    speed=Speed(_dialogue),
    sources=(
        "host/ds4/core/encoder_dsv4.py",
        "host/ds4/core/json_text.py",
        "host/ds4/core/alternatives.py",
        "host/ds4/core/tapes/encoder.py",
        "oracles/encoder/*",
        "oracles/common/*",
        "parity/components/encoder.py",
        "parity/choices.py",
        "goldens/encoder/**",
    ),
)
