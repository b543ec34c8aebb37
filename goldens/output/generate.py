"""Writes worked/transcripts.jsonl, splits.jsonl and closers.jsonl: answers worked out by hand, cut everywhere.

    PYTHONPATH=host python goldens/output/generate.py

No stream machine is here, and ours is not called. What a text says is read from the whole of it (`said`), and must be
what stands beside it in TRANSCRIPTS, written by hand. What has become certain after a piece is what all continuations
have in common: those that complete any marker which may have begun, and some that complete none.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from ds4.sys.tape import line

HERE = pathlib.Path(__file__).parent
D = "｜DSML｜"
TAGS = (D, "DSML｜", "")
WHITE = " \t\n\r"
Atom = tuple[str, int, str]  # verb, index, text: a delta of one character, or another event whole
OPENER = re.compile("(?:\n\n)?<(?:｜DSML｜|DSML｜|)tool_calls>")
MARKERS = [
    "</think>",
    *(f"{lead}<{p}tool_calls>" for p in TAGS for lead in ("\n\n", "")),
    "&lt;/｜DSML｜parameter>",
    "&lt;",
    "&gt;",
    "&amp;",
    "&quot;",
]
MARKERS += ["&apos;"] + [
    m for p in TAGS for m in (f"<{p}parameter name='", f'<{p}invoke name="z">', f"</{p}tool_calls>")
]
CLOSES = [f"</{p}{name}>" for p in TAGS for name in ("parameter", "invoke")]
ENDINGS = ("x", " x", ";x", "<x", '"', '">', "é", *CLOSES)


STAND = "\ue000"  # before a "&" that "&amp;" stands for, which is not certain while only its own "&" is there


class End(Exception):
    """The text ends here."""


class Bad(Exception):
    """The block is malformed; its text ends at .at."""

    def __init__(self, at: int) -> None:
        self.at = at


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def unescaped(text: str, ampersand: str = "&") -> str:
    entities = {"lt": "<", "gt": ">", "amp": ampersand, "quot": '"', "apos": "'"}
    return re.sub("&(lt|gt|amp|quot|apos);", lambda found: entities[found[1]], text)


class Reading:
    """One block, read out of a text that is there whole."""

    def __init__(self, text: str, at: int, out: list[Atom]) -> None:
        self.text, self.at, self.out, self.call = text, at, out, -1

    def show(self, text: str) -> None:
        self.out += [("arguments", self.call, character) for character in text]

    def tag(self, child: str, own: str) -> tuple[str, bool]:
        """The tag that comes next: how it is written, and whether it closes."""
        while self.text[self.at : self.at + 1] and self.text[self.at] in WHITE:
            self.at += 1
        rest = self.text[self.at :]
        for prefix in TAGS:
            for closing, tag in ((False, f"<{prefix}{child}"), (True, f"</{prefix}{own}>")):
                if rest.startswith(tag):
                    self.at += len(tag)
                    return prefix, closing
                if tag.startswith(rest):
                    raise End
        raise Bad(self.at)

    def head(self) -> dict[str, str]:
        found: dict[str, str] = {}
        twice = False
        while True:
            attribute = re.compile(f'[{WHITE}]+([^{WHITE}>="</]+)="([^"]*)"').match(self.text, self.at)
            if attribute is None:
                break
            twice = twice or attribute[1] in found
            found[attribute[1]] = unescaped(attribute[2])
            self.at = attribute.end()
        unfinished = re.compile(f'[{WHITE}]*>|[{WHITE}]+(?:[^{WHITE}>="</]+(?:=(?:"[^"]*)?)?)?').match(
            self.text, self.at
        )
        if unfinished is not None:
            self.at = unfinished.end()
        complete = unfinished is not None and unfinished[0].strip(WHITE) == ">"
        if self.at == len(self.text) and not complete:
            raise End
        if not complete:
            raise Bad(self.at)
        if twice or "name" not in found:
            raise Bad(self.at)
        return found

    def block(self) -> None:
        while True:
            _, closing = self.tag("invoke", "tool_calls")
            if closing:
                if self.call < 0:
                    raise Bad(self.at)
                return
            name = self.head()["name"]
            if not name:
                raise Bad(self.at)
            self.call += 1
            self.out.append(("call", self.call, name))
            names = self.members("invoke", 0)
            self.show("}" if names else "{}")
            self.out.append(("end", self.call, ""))

    def members(self, own: str, depth: int, prefix: str | None = None) -> set[str]:
        """The parameters up to the close tag. prefix: the first one's tag is read already."""
        names: set[str] = set()
        while True:
            if prefix is None:
                prefix, closing = self.tag("parameter", own)
                if closing:
                    return names
            found = self.head()
            string = found.get("string")
            if string not in (None, "true", "false") or found["name"] in names:
                raise Bad(self.at)
            self.show(", " if names else "{" if depth == 0 else "")
            names.add(found["name"])
            self.show(f'"{quoted(found["name"])}": ')
            self.value(prefix, string, depth)
            prefix = None

    def value(self, prefix: str, string: str | None, depth: int) -> None:
        if string is None:
            start = self.at
            while self.text[start : start + 1] and self.text[start] in WHITE:
                start += 1
            for nested in TAGS[:2] if prefix else ("",):
                tag = f"<{nested}parameter"
                if self.text.startswith(tag, start):
                    self.at = start + len(tag)
                    if depth == 16:
                        raise Bad(self.at)
                    self.show("{")
                    self.members("parameter", depth + 1, nested)
                    self.show("}")
                    return
                if tag.startswith(self.text[start:]):
                    raise End
        closes = "</(?:｜DSML｜|DSML｜)parameter>" if prefix else "</parameter>"
        close = re.compile(closes).search(self.text, self.at)
        raw = self.text[self.at : len(self.text) if close is None else close.start()]
        self.at = len(self.text) if close is None else close.end()
        if string == "false":
            self.show(raw.strip(WHITE))
            if close is None:
                raise End
            if not raw.strip(WHITE):
                self.show("null")
            elif not is_json(raw):
                raise Bad(self.at)
            return
        value = (
            raw.replace("&lt;/｜DSML｜parameter>", "</｜DSML｜parameter>") if prefix else unescaped(raw, STAND + "&")
        )
        self.show('"' + quoted(value))
        if close is None:
            raise End
        self.show('"')


def is_json(text: str) -> bool:
    def never(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=never)
    except ValueError:
        return False
    return True


def said(text: str, thinking: bool, tools: bool) -> tuple[list[Atom], str, int]:
    """The events of a whole text, where it ended, and where the block began that it ended in."""
    out: list[Atom] = []
    at = 0
    if thinking:
        reasoning, mark, _ = text.partition("</think>")
        out += [("reasoning", 0, character) for character in reasoning]
        if not mark:
            return out, "reasoning", 0
        out.append(("reasoned", 0, ""))
        at = len(reasoning) + len(mark)
    while True:
        found = OPENER.search(text, at) if tools else None
        out += [("content", 0, character) for character in text[at : len(text) if found is None else found.start()]]
        if found is None:
            return out, "stop", 0
        reading = Reading(text, found.end(), out)
        try:
            reading.block()
        except Bad as bad:
            at = bad.at
            out.append(("void", 0, text[found.start() : at]))
            continue
        except End:
            return out, "unterminated", found.start()
        out.append(("block", 0, text[found.start() : reading.at]))
        return out, "tool_calls", 0


@functools.cache
def certain(text: str, thinking: bool, tools: bool) -> list[Atom]:
    endings = [marker[n:] for marker in MARKERS for n in range(1, len(marker)) if text.endswith(marker[:n])]
    endings += [close[n:] for close in CLOSES for n in range(1, len(close)) if text.endswith(close[:n])]
    common = said(text, thinking, tools)[0]
    for ending in dict.fromkeys((*ENDINGS, *endings)):
        other = said(text + ending, thinking, tools)[0]
        same = 0
        while same < len(common) and same < len(other) and common[same] == other[same]:
            same += 1
        common = common[:same]
    return common


def rows(atoms: Iterable[Atom]) -> bytes:
    out = b""
    for (verb, index), group in groupby(atoms, key=lambda atom: atom[:2]):
        if verb in ("reasoning", "content"):
            out += line(verb, "".join(text for _, _, text in group).encode())
        elif verb == "arguments":
            shown = "".join(text for _, _, text in group).replace(STAND, "")
            out += line(verb, index, shown.encode())
        else:
            for _, _, text in group:
                words = {"call": (index, text.encode()), "end": (index,), "reasoned": ()}
                out += line(verb, *words.get(verb, (text.encode(),)))
    return out


def mode(atoms: list[Atom], text: str, thinking: bool, tools: bool) -> str:
    """Where the text stands: what is behind it decides nothing about that."""
    if any(verb == "block" for verb, _, _ in atoms):
        return "done"
    end = said(text, thinking, tools)[1]
    return {"unterminated": "block", "stop": "content"}.get(end, end)


def case(name: str, pieces: list[str], thinking: bool, tools: bool, closers: str | None = None) -> dict[str, str]:
    out, sofar, shown = b"", "", 0
    for piece in pieces:
        sofar += piece
        atoms = certain(sofar, thinking, tools)
        out += rows(atoms[shown:]) + line("now", mode(atoms, sofar, thinking, tools))
        shown = len(atoms)
    atoms, kind, start = said(sofar, thinking, tools)
    if kind == "unterminated":
        out += line("finish", kind, sofar[start:].encode(), "-" if closers is None else closers.encode())
    else:
        out += rows(atoms[shown:]) + line("finish", kind)
    tape = (
        line("output", int(thinking), int(tools))
        + b"".join(line("push", piece.encode()) for piece in pieces)
        + b"finish\n"
    )
    return {"case": name, "input": tape.decode(), "expected": out.decode()}


def invoke(name: str, *parameters: str) -> str:
    return "\n".join([f'<{D}invoke name="{name}">', *parameters, f"</{D}invoke>"])


def block(*calls: str) -> str:
    return "\n".join([f"\n\n<{D}tool_calls>", *calls, f"</{D}tool_calls>"])


def p(name: str, string: bool, value: str) -> str:
    return f'<{D}parameter name="{name}" string="{"true" if string else "false"}">{value}</{D}parameter>'


WEATHER = block(invoke("get_weather", p("city", True, "Lisbon")))
TWO = block(invoke("f", p("x", True, 'a "b"\\\n<b>&amp;'), p("n", False, " [1,\n 2.50] ")), invoke("g", ""))
ESCAPED = block(
    invoke("f", p("x", True, f"</{D}p&lt;/{D}parameter>&lt;/{D}invoke>"), p("y", False, f'"\\u003c/{D}parameter>"'))
)
SHORT = (
    '<DSML｜tool_calls><DSML｜invoke name="f"><DSML｜parameter name="x">1</DSML｜parameter></DSML｜invoke>'
    "</DSML｜tool_calls>"
)
XML = (
    '\n\n<tool_calls>\n<invoke name="a&lt;b&amp;lt;">\n<parameter string="true" name="x" other="&gt;">&lt;b&gt; '
    "&amp;amp; &apos;</｜DSML｜parameter>&quot;&x</parameter>\n</invoke>\n</tool_calls>"
)
NESTED = (
    f'<{D}tool_calls><{D}invoke name="f"><{D}parameter name="o"> \n'
    f'<{D}parameter name="a" string="false">1</{D}parameter>\n'
    f'<DSML｜parameter name="b"><{D}parameter name="c">x</parameter></DSML｜parameter></parameter></{D}parameter>'
    f'<{D}parameter name="s">  <b</{D}parameter></{D}invoke></tool_calls>'
)
ENTITIES = "&lt;&gt;&amp;&quot;&apos;"
IN_ATTRIBUTES = block(f'<{D}invoke name="{ENTITIES}">\n{p("&quot;&amp;lt;", True, ENTITIES)}\n</{D}invoke>')
IN_JSON = (
    f'<tool_calls><invoke name="f"><parameter name="x" string="false">"{ENTITIES}"</parameter></invoke></tool_calls>'
)
PLAIN_TAG = f'<{D}invoke name="f"><{D}parameter name="x"><parameter name="y">1</parameter></{D}parameter></{D}invoke>'


def objects(n: int) -> str:
    """The beginning of a call with so many objects inside one another, and a parameter that begins in the last."""
    return f'<{D}tool_calls><{D}invoke name="f">' + f'<{D}parameter name="o">' * n + f"<{D}parameter"


OBJECTS = objects(16) + ' name="x">1' + f"</{D}parameter>" * 17 + f"</{D}invoke></{D}tool_calls>"

# name, text, thinking, tools, what it says: events with joined deltas, and how it ends
Said = list[tuple[str, ...]]
TRANSCRIPTS: list[tuple[str, str, bool, bool, Said]] = [
    ("an answer", "Hello! <b>\n\n<x", False, True, [("content", "Hello! <b>\n\n<x"), ("stop",)]),
    (
        "thinking, then an answer",
        "Hm </th <think></think>So.</think>",
        True,
        True,
        [("reasoning", "Hm </th <think>"), ("reasoned",), ("content", "So.</think>"), ("stop",)],
    ),
    (
        "thinking is never over",
        "Hm" + WEATHER + "</think",
        True,
        True,
        [("reasoning", "Hm" + WEATHER + "</think"), ("reasoning",)],
    ),
    (
        "a call",
        "Let me look." + WEATHER + " More",
        False,
        True,
        [
            ("content", "Let me look."),
            ("call", "get_weather"),
            ("arguments", '{"city": "Lisbon"}'),
            ("end",),
            ("block", WEATHER),
            ("tool_calls",),
        ],
    ),
    (
        "thinking, then a call",
        "I ask.</think>" + WEATHER,
        True,
        True,
        [
            ("reasoning", "I ask."),
            ("reasoned",),
            ("call", "get_weather"),
            ("arguments", '{"city": "Lisbon"}'),
            ("end",),
            ("block", WEATHER),
            ("tool_calls",),
        ],
    ),
    ("no tools are declared", "a" + WEATHER, False, False, [("content", "a" + WEATHER), ("stop",)]),
    (
        "two calls, one without parameters",
        "\n" + TWO,
        False,
        True,
        [
            ("content", "\n"),
            ("call", "f"),
            ("arguments", '{"x": "a \\"b\\"\\\\\\n<b>&amp;", "n": [1,\n 2.50]}'),
            ("end",),
            ("call", "g"),
            ("arguments", "{}"),
            ("end",),
            ("block", TWO),
            ("tool_calls",),
        ],
    ),
    (
        "an escaped close tag is text",
        ESCAPED,
        False,
        True,
        [
            ("call", "f"),
            ("arguments", f'{{"x": "</{D}p</{D}parameter>&lt;/{D}invoke>", "y": "\\u003c/{D}parameter>"}}'),
            ("end",),
            ("block", ESCAPED),
            ("tool_calls",),
        ],
    ),
    (
        "the first bar is missing, and string, and the line feeds",
        "Ok" + SHORT,
        False,
        True,
        [("content", "Ok"), ("call", "f"), ("arguments", '{"x": "1"}'), ("end",), ("block", SHORT), ("tool_calls",)],
    ),
    (
        "plain tags with entities",
        XML,
        False,
        True,
        [
            ("call", "a<b&lt;"),
            ("arguments", '{"x": "<b> &amp; \'</｜DSML｜parameter>\\"&x"}'),
            ("end",),
            ("block", XML),
            ("tool_calls",),
        ],
    ),
    (
        "parameters in a parameter",
        NESTED,
        False,
        True,
        [
            ("call", "f"),
            ("arguments", '{"o": {"a": 1, "b": {"c": "x</parameter>"}}, "s": "  <b"}'),
            ("end",),
            ("block", NESTED),
            ("tool_calls",),
        ],
    ),
    (
        "a plain tag in DSML's is text",
        block(PLAIN_TAG),
        False,
        True,
        [
            ("call", "f"),
            ("arguments", '{"x": "<parameter name=\\"y\\">1</parameter>"}'),
            ("end",),
            ("block", block(PLAIN_TAG)),
            ("tool_calls",),
        ],
    ),
    (
        "an empty value of JSON",
        block(invoke("f", p("x", False, " \n"))),
        False,
        True,
        [
            ("call", "f"),
            ("arguments", '{"x": null}'),
            ("end",),
            ("block", block(invoke("f", p("x", False, " \n")))),
            ("tool_calls",),
        ],
    ),
    (
        "an opener in prose",
        "Use <tool_calls>, please",
        False,
        True,
        [("content", "Use "), ("void", "<tool_calls>"), ("content", ", please"), ("stop",)],
    ),
    (
        "a stutter",
        "\n\n<tool_calls>" + WEATHER,
        False,
        True,
        [
            ("void", "\n\n<tool_calls>\n\n"),
            ("call", "get_weather"),
            ("arguments", '{"city": "Lisbon"}'),
            ("end",),
            ("block", WEATHER[2:]),
            ("tool_calls",),
        ],
    ),
    (
        "an empty block",
        "<tool_calls> </tool_calls>x",
        False,
        True,
        [("void", "<tool_calls> </tool_calls>"), ("content", "x"), ("stop",)],
    ),
    (
        "a call without a name",
        '<tool_calls><invoke name="">x',
        False,
        True,
        [("void", '<tool_calls><invoke name="">'), ("content", "x"), ("stop",)],
    ),
    (
        "a head that breaks",
        "<tool_calls><invoke name=f>",
        False,
        True,
        [("void", "<tool_calls><invoke name="), ("content", "f>"), ("stop",)],
    ),
    (
        "a string that is neither",
        '<tool_calls><invoke name="f"><parameter string="no" name="x">1',
        False,
        True,
        [
            ("call", "f"),
            ("void", '<tool_calls><invoke name="f"><parameter string="no" name="x">'),
            ("content", "1"),
            ("stop",),
        ],
    ),
    (
        "a name twice",
        f"<{D}tool_calls>" + invoke("f", p("x", True, "1"), p("x", True, "2")),
        False,
        True,
        [
            ("call", "f"),
            ("arguments", '{"x": "1"'),
            (
                "void",
                f'<{D}tool_calls><{D}invoke name="f">\n{p("x", True, "1")}\n<{D}parameter name="x" string="true">',
            ),
            ("content", f"2</{D}parameter>\n</{D}invoke>"),
            ("stop",),
        ],
    ),
    (
        "no JSON",
        f"<{D}tool_calls>" + invoke("f", p("x", False, "True")),
        False,
        True,
        [
            ("call", "f"),
            ("arguments", '{"x": True'),
            ("void", f'<{D}tool_calls><{D}invoke name="f">\n{p("x", False, "True")}'),
            ("content", f"\n</{D}invoke>"),
            ("stop",),
        ],
    ),
    (
        "text between calls",
        f"<{D}tool_calls>" + invoke("f", "") + "and",
        False,
        True,
        [
            ("call", "f"),
            ("arguments", "{}"),
            ("end",),
            ("void", f"<{D}tool_calls>" + invoke("f", "")),
            ("content", "and"),
            ("stop",),
        ],
    ),
    (
        "an answer that ends where a block may begin",
        "So\n\n<tool_ca",
        False,
        True,
        [("content", "So\n\n<tool_ca"), ("stop",)],
    ),
    (
        "a word of JavaScript is no JSON",
        '<tool_calls><invoke name="f"><parameter name="x" string="false">NaN</parameter>',
        False,
        True,
        [
            ("call", "f"),
            ("arguments", '{"x": NaN'),
            ("void", '<tool_calls><invoke name="f"><parameter name="x" string="false">NaN</parameter>'),
            ("stop",),
        ],
    ),
    (
        "the first end of reasoning is its end",
        "Hm</think>So</think>." + WEATHER,
        True,
        True,
        [
            ("reasoning", "Hm"),
            ("reasoned",),
            ("content", "So</think>."),
            ("call", "get_weather"),
            ("arguments", '{"city": "Lisbon"}'),
            ("end",),
            ("block", WEATHER),
            ("tool_calls",),
        ],
    ),
    (
        "entities stand for characters in attributes, not in DSML's strings",
        IN_ATTRIBUTES,
        False,
        True,
        [
            ("call", "<>&\"'"),
            ("arguments", f'{{"\\"&lt;": "{ENTITIES}"}}'),
            ("end",),
            ("block", IN_ATTRIBUTES),
            ("tool_calls",),
        ],
    ),
    (
        "entities are text in JSON",
        IN_JSON,
        False,
        True,
        [("call", "f"), ("arguments", f'{{"x": "{ENTITIES}"}}'), ("end",), ("block", IN_JSON), ("tool_calls",)],
    ),
    (
        "sixteen objects",
        OBJECTS,
        False,
        True,
        [
            ("call", "f"),
            ("arguments", '{"o": ' * 16 + '{"x": "1"' + "}" * 17),
            ("end",),
            ("block", OBJECTS),
            ("tool_calls",),
        ],
    ),
    (
        "seventeen objects",
        objects(17) + ' name="x">',
        False,
        True,
        [
            ("call", "f"),
            ("arguments", '{"o": ' * 17),
            ("void", objects(17)),
            ("content", ' name="x">'),
            ("stop",),
        ],
    ),
    (
        "an attribute twice",
        '<tool_calls><invoke name="f" name="g">x',
        False,
        True,
        [("void", '<tool_calls><invoke name="f" name="g">'), ("content", "x"), ("stop",)],
    ),
    (
        "a parameter without a name",
        '<tool_calls><invoke name="f"><parameter string="true">x',
        False,
        True,
        [
            ("call", "f"),
            ("void", '<tool_calls><invoke name="f"><parameter string="true">'),
            ("content", "x"),
            ("stop",),
        ],
    ),
]
F, X = f'<{D}tool_calls><{D}invoke name="f">', f'<{D}parameter name="x"'
CLOSERS: list[tuple[str, str | None]] = [
    ("<tool_calls>", None),
    ("<tool_calls>\n<", None),
    ("<tool_calls></tool", None),
    (f"<{D}tool_calls><{D}invoke name=", None),
    (F, f"</{D}invoke>\n</{D}tool_calls>"),
    (F + "\n</", f"{D}invoke>\n</{D}tool_calls>"),
    (F + "<", f"/{D}invoke>\n</{D}tool_calls>"),
    (F + "</in", f"voke>\n</{D}tool_calls>"),
    (F + "</DSML｜in", f"voke>\n</{D}tool_calls>"),
    (F + f"<{D}", None),
    (F + X, None),
    (F + X + ' string="true">', f"</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + ' string="true">a</DS', f"ML｜parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + ' string="true">a&lt;/｜', f"</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + ' string="true">a</', f"{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + ' string="false"> ', f"</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + ' string="false"> 1 <', f"/{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + ' string="false">[1', None),
    (F + X + ' string="false">[1<', None),
    (F + X + "> ", f"</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + "> <", f"/{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + f"> <{D}p", f"</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + f"><{D}parameter", None),
    (F + X + f">{X}>1", f"</{D}parameter>\n</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + f">{X}>1</{D}parameter>", f"</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + X + f">{X}>1</{D}parameter></p", f"arameter>\n</{D}invoke>\n</{D}tool_calls>"),
    (F + f"</{D}invoke> ", f"</{D}tool_calls>"),
    (F + f"</{D}invoke><", f"/{D}tool_calls>"),
    (F + f"</{D}invoke><i", None),
    ('<tool_calls><invoke name="f"><parameter name="x">&am', "</parameter>\n</invoke>\n</tool_calls>"),
    ('<DSML｜tool_calls><invoke name="f"><parameter name="x">', "</parameter>\n</DSML｜invoke>\n</DSML｜tool_calls>"),
]


# Their markup is cut in other transcripts already.
DOUBLED = {
    "thinking, then a call",
    "no tools are declared",
    "a plain tag in DSML's is text",
    "an empty value of JSON",
    "a stutter",
    "a name twice",
    "the first end of reasoning is its end",
    "an attribute twice",
    "a word of JavaScript is no JSON",
    "a parameter without a name",
}


def joined(atoms: list[Atom], kind: str) -> Said:
    out: Said = []
    for verb, group in groupby(atoms, key=lambda atom: atom[0]):
        texts = [text for _, _, text in group]
        if verb in ("reasoning", "content", "arguments"):
            out.append((verb, "".join(texts).replace(STAND, "")))
        else:
            out += [(verb, text) if verb in ("call", "void", "block") else (verb,) for text in texts]
    return [*out, (kind,)]


def cut(text: str) -> Iterator[int]:
    """Places inside and beside markup."""
    spots = [found.span() for found in re.finditer(r"\n*</?[^<>]*>?|&[a-z]*;?", text)]
    return (n for n in range(1, len(text)) if any(start <= n <= end for start, end in spots))


def main() -> None:
    whole, splits, closers = [], [], []
    for name, text, thinking, tools, by_hand in TRANSCRIPTS:
        atoms, kind, _ = said(text, thinking, tools)
        assert joined(atoms, kind) == by_hand, (name, joined(atoms, kind))
        whole.append(case(name, [text], thinking, tools))
        whole.append(case(f"{name}, by characters", list(text), thinking, tools))
        if len(text) < 330 and name not in DOUBLED:
            splits += [case(f"{name}, cut at {n}", [text[:n], text[n:]], thinking, tools) for n in cut(text)]
    for text, missing in CLOSERS:
        closers.append(case(f"{text!r} ends there", [text], False, True, missing))
        if missing is not None:
            assert said(text + missing, False, True)[1] == "tool_calls", text
    for name, cases in (("transcripts", whole), ("splits", splits), ("closers", closers)):
        with (HERE / "worked" / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in cases)
        print(name, len(cases))


if __name__ == "__main__":
    main()
