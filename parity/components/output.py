"""output: what a DeepSeek V4 model says, cut anywhere, as reasoning, content and tool calls."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from ds4.core.output.dsml import DsmlParser
from ds4.core.tapes.output import OutputInput, by_tape, write_input

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

_PREFIXES = ("｜DSML｜", "｜DSML｜", "｜DSML｜", "DSML｜", "")
_FRAGMENTS = (
    *("</think>", "<think>", "</thi", "<", "</", "<｜", "<｜DSML｜", "<DSML｜", "｜DSML｜", "｜", "&lt;"),
    *("&lt;/｜DSML｜parameter>",),
    *("&", "&amp;", "&gt;", "&quot;", "&apos;", "&amp;lt;", "\n", "\n\n", "\n\n\n", " ", "\t", '"', "\\"),
    *("\x00", "\x1f", "=", ">"),
    *("<｜DSML｜tool_calls>", "<DSML｜tool_calls>", "<tool_calls>", "</｜DSML｜parameter>"),
    *("</DSML｜parameter>", "</parameter>"),
    *("</｜DSML｜invoke>", "</invoke>", "</tool_calls>", "<invoke", "<parameter", "<｜DSML｜parameter", "/"),
    *("x", "ab", "é", "😀"),
    *("true", "1", "[", "]", "{", "}", ",", "null", '"a"', "\r\n", "\u00a0", "\u2028", "Hello, world"),
)  # fmt: skip
_TEXTS = ("Lisbon", "", "a\nb", 'say "hi"\\', "a < b && c > d", "</b>", " x ", "\t", "&lt;b&gt; &amp; c", "𝄞\x01")
_JSONS = ("1", "-2.50", "true", "null", "[]", "{}", '[1, "a"]', ' {"k": [1,\n2]} ', "", " ", '"s"', "1e400")
_NO_JSONS = ("True", "01", "[1", "'a'", "NaN", "1 2", '"\n"', "x", "[" * 201, "-", '{"a"}', "{,}")
_NAMES = ("x", "y", "path", "a&lt;b&amp;lt;", "é", "")
_HEADS = (
    *('name="{n}" string="{s}"', 'name="{n}" string="{s}"', 'name="{n}" string="{s}"'),
    *('string="{s}" name="{n}"', 'name="{n}"'),
    *(' name="{n}"  string="{s}"\n', 'name="{n}" other="1" string="{s}"', 'name="{n}" string="True"'),
    *("name='{n}'", "name={n}"),
    *('name = "{n}"', 'name="{n}" name="z"', 'string="{s}"', 'name="{n}"string="{s}"', 'name="{n}" /'),
    *('name="{n}" string', ""),
)  # fmt: skip


def _junk(choose: Choices, most: int = 4) -> str:
    return "".join([choose.of(_FRAGMENTS) for _ in range(choose.below(most))])


def _white(choose: Choices) -> str:
    return choose.of(("\n", "\n", "\n", "", " ", "\n\n", "\t \r\n"))


def _parameter(choose: Choices, number: int, depth: int = 0) -> str:
    how = choose.below(64)
    prefix = choose.of(_PREFIXES)
    string = "false" if how % 3 == 2 else "true"
    name = choose.of(_NAMES) if how % 8 == 7 else f"p{number}"
    head = choose.of(_HEADS if how % 5 == 4 else _HEADS[:4])
    if how >= 56 and depth < 20:
        deep = 18 if choose.once_in(48) else 1
        inside = _white(choose).join([_parameter(choose, n, depth + deep) for n in range(1 + choose.below(2))])
        inside = _white(choose) + inside + _white(choose)
        for _ in range(deep - 1):
            inside = f'<{prefix}parameter name="o">{inside}</{prefix}parameter>'
        return f'<{prefix}parameter name="{name}">{inside}</{prefix}parameter>'
    if string == "false":
        value = choose.of(_NO_JSONS) if choose.once_in(10) else choose.of(_JSONS)
    else:
        value = choose.of(_TEXTS) if choose.below(3) else _junk(choose)
    end = choose.of(_PREFIXES) if choose.once_in(16) else prefix
    return f"<{prefix}parameter {head.format(n=name, s=string)}>{value}</{end}parameter>"


def _call(choose: Choices) -> str:
    prefix, end = choose.of(_PREFIXES), choose.of(_PREFIXES)
    inside = "".join([_white(choose) + _parameter(choose, number) for number in range(choose.of((1, 2, 0, 1)))])
    head = choose.of(_HEADS) if choose.once_in(20) else 'name="{n}"'
    name = "" if choose.once_in(40) else choose.of(("f", "get_weather", "a&quot;b"))
    return f"<{prefix}invoke {head.format(n=name, s='true')}>{inside}{_white(choose)}</{end}invoke>"


def _block(choose: Choices) -> str:
    how = choose.below(32)
    calls = "".join([_white(choose) + _call(choose) for _ in range(1 + (how % 3 == 1) - (how == 30))])
    lead = choose.of(("\n\n", "\n\n", "", "\n", "\n\n\n", "x"))
    return f"{lead}<{choose.of(_PREFIXES)}tool_calls>{calls}{_white(choose)}</{choose.of(_PREFIXES)}tool_calls>"


def answer(choose: Choices, thinking: bool) -> str:
    """A text as a model writes it, or nearly: one place of it may be damaged."""
    parts = [_junk(choose, 6)]
    if thinking and choose.below(8):
        parts += ["</think>", _junk(choose)]
    for _ in range(choose.of((1, 1, 1, 2))):
        parts += [_block(choose), _junk(choose)]
    text = "".join(parts)
    how = choose.below(8)
    if how < 3 or not text:
        return text
    at = choose.below(65536) % len(text)
    if how < 5:
        return text[:at]
    if how == 5:
        return text[:at] + text[at + 1 :]
    return text[:at] + choose.of(_FRAGMENTS) + text[at:]


def _cut(choose: Choices, text: str) -> list[str]:
    how = choose.below(8)
    if how == 0:
        return list(text[-100:])
    if how == 1:
        return [text]
    pieces, at = [], 0
    while at < len(text):
        size = choose.below(16 if how < 4 else 80) if choose.left else 60
        pieces.append(text[at : at + size])
        at += size
    return pieces


def tape(seed: bytes) -> bytes:
    """The input that a seed stands for."""
    choose = Choices(seed)
    how = choose.below(16)
    thinking, tools = how % 2 == 1, how < 14
    text = answer(choose, thinking)
    return write_input(OutputInput(thinking, tools, tuple(_cut(choose, text)), how % 8 != 7))


def _soak(rng: random.Random) -> bytes:
    """Hundreds of blocks, nearly all of them malformed at their end, so that the answer goes on behind them."""
    parts = []
    for _ in range(400):
        choose = Choices(rng.randbytes(60))
        block = _block(choose)
        parts += [_junk(choose), block[: rng.randrange(len(block))] if rng.random() < 0.9 else block[:-1], "#"]
    text, pieces, at = "".join(parts), [], 0
    while at < len(text):
        end = at + rng.choice((1, 2, 5, 40))
        pieces.append(text[at:end])
        at = end
    return write_input(OutputInput(False, True, tuple(pieces), True))


def _spoken() -> tuple[Callable[[], object], bytes]:
    """An answer of 500 tokens: reasoning, a sentence, a call that writes a file of 14 lines."""
    thought = "The user wants a small program . I write it with the tool , then I say what it does . " * 10
    source = "".join(f'    if value < limit [{n}] : print ( "< {n} > & so on " )\n' for n in range(14))
    block = (
        '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="write_file">\n<｜DSML｜parameter name="path" string="true">'
        f'a.py</｜DSML｜parameter>\n<｜DSML｜parameter name="content" string="true">{source}</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="mode" string="false">{"bits": 420}</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    )
    words = [*thought.split(" "), "</think>", "Here", "it", "is."]
    pieces = [word + " " for word in words] + re.findall("｜DSML｜| +|[^ ｜]+ ?", block)

    def parse() -> object:
        parser = DsmlParser(thinking=True, tools=True)
        return [parser.push(piece) for piece in pieces], parser.finish()

    return parse, write_input(OutputInput(True, True, tuple(pieces), True))


COMPONENT = Component(
    name="output",
    about="an answer of DeepSeek V4 in any pieces to reasoning, content and tool calls with their arguments",
    axes=("token", "wire", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=24, most=224),
    soak=_soak,
    speed=Speed(_spoken),
    sources=(
        "host/ds4/core/output/dsml.py",
        "host/ds4/core/output/events.py",
        "host/ds4/core/output/markers.py",
        "host/ds4/core/output/reasoning.py",
        "host/ds4/core/output/tools.py",
        "host/ds4/core/json_text.py",
        "host/ds4/core/alternatives.py",
        "host/ds4/core/tapes/output.py",
        "oracles/output/*",
        "oracles/common/*",
        "parity/components/output.py",
        "parity/choices.py",
        "goldens/output/**",
    ),
)
