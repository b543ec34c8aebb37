"""Writes worked/rules.jsonl: cases worked out by hand, one for each rule that no outside encoder has, and each fault.

    PYTHONPATH=host python goldens/encoder/generate_worked.py

A prompt is written as text in which the special tokens of the layout stand between « and »: «User» for <｜User｜>,
and so on.
Numbers and strings of JSON are as CPython's json module writes them; that they are is checked here.
"""

from __future__ import annotations

import json
import pathlib

from ds4.sys.tape import escape, line

HERE = pathlib.Path(__file__).parent
TOKENS = {
    "BOS": "<｜begin▁of▁sentence｜>",
    "EOS": "<｜end▁of▁sentence｜>",
    "User": "<｜User｜>",
    "Assistant": "<｜Assistant｜>",
    "reminder": "<｜latest_reminder｜>",
    "think": "<think>",
    "/think": "</think>",
    "D": "｜DSML｜",
}
CLOSE = "</｜DSML｜parameter>"
Row = tuple[str, ...]


def prompt(written: str) -> str:
    out = b""
    for piece in written.split("«"):
        token, mark, rest = piece.partition("»")
        if mark:
            out += line("special", TOKENS[token].encode())
        else:
            rest = token
        if rest:
            out += line("plain", rest.encode("utf-8", "surrogatepass"))
    return out.decode()


def tape(switches: str, rows: list[Row]) -> str:
    out = f"encode {switches}\n".encode()
    for verb, *words in rows:
        if verb == "turn":
            out += (
                b"turn "
                + escape(words[0])
                + (b" none -\n" if len(words) == 1 else b" text " + escape(words[1]) + b"\n")
            )
        else:
            out += b" ".join([verb.encode(), *map(escape, words)]) + b"\n"
    return out.decode()


def call(arguments: str) -> list[Row]:
    return [("turn", "assistant"), ("call", "", "f", arguments)]


def block(*parameters: str) -> str:
    """The prompt of one finished call with these parameters, written."""
    inside = "\n".join(f"<«D»parameter {one}</«D»parameter>" for one in parameters)
    return f'«BOS»\n\n<«D»tool_calls>\n<«D»invoke name="f">\n{inside}\n</«D»invoke>\n</«D»tool_calls>«EOS»'


def json_value(text: str, written: str) -> tuple[str, str, list[Row], str]:
    assert json.dumps(json.loads(text), ensure_ascii=False) == written, text
    shown = f"{text[:40]} ({len(text)} characters) as JSON"
    return shown, "0 0 1", call(f'{{"x":[{text}]}}'), block(f'name="x" string="false">[{written}]')


def deep(n: int) -> str:
    return '{"x":' + "[" * n + "]" * n + "}"


U = ("turn", "user", "Hi")
CASES: list[tuple[str, str, list[Row], str]] = [
    (
        "a result's end in a result",
        "0 0 1",
        [("turn", "tool", "a</tool_result>b<tool_result>")],
        "«BOS»«User»<tool_result>a&lt;/tool_result>b<tool_result></tool_result>«Assistant»«/think»",
    ),
    (
        "a result's end in a user's text is text",
        "0 0 1",
        [("turn", "user", "</tool_result>")],
        "«BOS»«User»</tool_result>«Assistant»«/think»",
    ),
    (
        "a value's end in a string",
        "0 0 1",
        call(json.dumps({"x": f"a{CLOSE}{CLOSE}</｜DSML｜invoke>"})),
        block(f'name="x" string="true">a&lt;{CLOSE[1:]}&lt;{CLOSE[1:]}</｜DSML｜invoke>'),
    ),
    (
        "a value's end in JSON",
        "0 0 1",
        call(json.dumps({"x": [CLOSE, {CLOSE: 1}]})),
        block(f'name="x" string="false">["\\u003c{CLOSE[1:]}", {{"\\u003c{CLOSE[1:]}": 1}}]'),
    ),
    (
        "a value's end in a key is not touched",
        "0 0 1",
        call(json.dumps({CLOSE: "x"})),
        block(f'name="{CLOSE}" string="true">x'),
    ),
    (
        "a token spelled with escapes is text",
        "0 0 1",
        call('{"x":"\\u003cthink>\\uff5cDSML\\uff5c"}'),
        block('name="x" string="true"><think>｜DSML｜'),
    ),
    ("arguments that are no object", "0 0 1", call("[1, 2]"), block('name="arguments" string="true">[1, 2]')),
    ("arguments that are a string", "0 0 1", call('"x"'), block('name="arguments" string="true">"x"')),
    (
        "arguments that are no JSON",
        "0 0 1",
        call(f"{{{CLOSE}"),
        block(f'name="arguments" string="true">{{&lt;{CLOSE[1:]}'),
    ),
    ("no arguments at all", "0 0 1", call(""), block('name="arguments" string="true">')),
    ("an empty object", "0 0 1", call(" { } "), block()),
    (
        "of equal keys the last value in the first place",
        "0 0 1",
        call('{"a":1,"b":2,"a":"3"}'),
        block('name="a" string="true">3', 'name="b" string="false">2'),
    ),
    (
        "an integer of 4300 digits",
        "0 0 1",
        call('{"x":-' + "7" * 4300 + "}"),
        block('name="x" string="false">-' + "7" * 4300),
    ),
    (
        "an integer of 4301 digits is no JSON",
        "0 0 1",
        call('{"x":' + "7" * 4301 + "}"),
        block('name="arguments" string="true">{"x":' + "7" * 4301 + "}"),
    ),
    ("200 containers", "0 0 1", call(deep(199)), block('name="x" string="false">' + "[" * 199 + "]" * 199)),
    ("201 containers are no JSON", "0 0 1", call(deep(200)), block('name="arguments" string="true">' + deep(200))),
    (
        "brackets in strings are no containers",
        "0 0 1",
        call('{"x":["' + "[{" * 200 + '\\""]}'),
        block('name="x" string="false">["' + "[{" * 200 + '\\""]'),
    ),
    ("a byte order mark is no JSON", "0 0 1", call("\ufeff{}"), block('name="arguments" string="true">\ufeff{}')),
    (
        "a line feed in a string is no JSON",
        "0 0 1",
        call('{"x":"\n"}'),
        block('name="arguments" string="true">{"x":"\n"}'),
    ),
    ("a no-break space is no white space", "0 0 1", call("{\u00a0}"), block('name="arguments" string="true">{\u00a0}')),
    json_value("1.50", "1.5"),
    json_value("1E5", "100000.0"),
    json_value("1e16", "1e+16"),
    json_value("-0", "0"),
    json_value("-0.0", "-0.0"),
    json_value("1e400", "Infinity"),
    json_value("-Infinity", "-Infinity"),
    json_value("NaN", "NaN"),
    json_value("5.6843418860808015e-14", "5.684341886080802e-14"),
    json_value("1e-400", "0.0"),
    json_value("123456789012345678", "123456789012345678"),
    json_value("0.0001", "0.0001"),
    json_value("0.00001", "1e-05"),
    json_value("9007199254740993.0", "9007199254740992.0"),
    json_value("1e22", "1e+22"),
    json_value("1125899906842624.25", "1125899906842624.2"),
    json_value("1125899906842624.75", "1125899906842624.8"),
    json_value("5e-324", "5e-324"),
    json_value("2.2250738585072011e-308", "2.225073858507201e-308"),
    json_value("1.7976931348623157e308", "1.7976931348623157e+308"),
    json_value('"\\/\\b\\u001f\\u007f\\u2028\\ud83d\\ude00\\"\\\\"', '"/\\b\\u001f\x7f\u2028\U0001f600\\"\\\\"'),
    json_value('{ "b" : [ ] , "a" : { } , "" : null }', '{"b": [], "a": {}, "": null}'),
    (
        "lone surrogates, and two that are not joined",
        "0 0 1",
        call('{"x":"\\ud83dx\\ude00\\ud83d\ude00\ud83d\\ude00\\ud83d\\ud83d\\ude00"}'),
        block('name="x" string="true">\ud83dx\ude00\ud83d\ude00\ud83d\ude00\ud83d\U0001f600'),
    ),
    (
        "names stand as they are",
        "0 0 1",
        [("turn", "assistant"), ("call", "", 'a"><｜DSML｜', '{"k\\"<":true}')],
        '«BOS»\n\n<«D»tool_calls>\n<«D»invoke name="a"><｜DSML｜">\n'
        '<«D»parameter name="k"<" string="false">true</«D»parameter>\n'
        "</«D»invoke>\n</«D»tool_calls>«EOS»",
    ),
    (
        "a replay stands in place of the calls",
        "1 0 0",
        [
            U,
            ("turn", "assistant", "Ok"),
            ("reasoning", "hm"),
            ("call", "a", "f", "{}"),
            ("replay", "<｜DSML｜｜DSML｜x<think>DSML｜<EOS>"),
        ],
        "«BOS»«User»Hi«Assistant»«think»hm«/think»Ok<«D»«D»x<think>DSML｜<EOS>«EOS»",
    ),
    (
        "tokens of a replay do not overlap",
        "0 0 1",
        [("turn", "assistant"), ("replay", "｜DSML｜DSML｜DSML｜")],
        "«BOS»«D»DSML«D»«EOS»",
    ),
    (
        "an empty replay is one",
        "0 0 1",
        [("turn", "assistant", "x"), ("call", "", "f", "{}"), ("replay", "")],
        "«BOS»x«EOS»",
    ),
    (
        "plain text touches across an open turn with an empty replay",
        "0 0 1",
        [("turn", "assistant", "x"), ("replay", ""), ("open",), ("turn", "system", "y")],
        "«BOS»xy",
    ),
    (
        "plain text touches across a replay without tokens",
        "0 0 1",
        [("turn", "assistant", "x"), ("replay", "r"), ("open",), ("turn", "assistant", "y")],
        "«BOS»xry«EOS»",
    ),
    (
        "a replay that begins and ends with a token",
        "0 0 1",
        [("turn", "assistant", "x"), ("replay", "｜DSML｜r｜DSML｜"), ("open",), ("turn", "assistant", "y")],
        "«BOS»x«D»r«D»y«EOS»",
    ),
    (
        "an open turn is not ended",
        "1 0 1",
        [U, ("turn", "assistant", "The answer"), ("open",)],
        "«BOS»«User»Hi«Assistant»«think»«/think»The answer",
    ),
    (
        "a format that says nothing is left out",
        "0 0 1",
        [
            ("turn", "system", "a"),
            ("format", "0e3"),
            ("turn", "system", "b"),
            ("format", "{}"),
            ("turn", "system", "c"),
            ("format", '""'),
            ("turn", "system", "d"),
            ("format", "1e-999"),
            ("turn", "system", "e"),
            ("format", "[[]]"),
        ],
        "«BOS»abcde\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n[[]]",
    ),
    ("Think Max over nothing", "1 1 1", [], "«BOS»"),
    (
        "results of no call count as the first's",
        "0 0 1",
        [
            ("turn", "assistant"),
            ("call", "a", "f", "{}"),
            ("call", "b", "g", "{}"),
            ("turn", "tool", "3"),
            ("id", "b"),
            ("turn", "user", "u"),
            ("turn", "tool", "1"),
            ("turn", "tool", "2"),
            ("id", "a"),
        ],
        block()[: -len("\n</«D»tool_calls>«EOS»")] + '\n<«D»invoke name="g">\n\n</«D»invoke>\n</«D»tool_calls>«EOS»'
        "«User»<tool_result>1</tool_result>\n\nu\n\n<tool_result>2</tool_result>\n\n<tool_result>3</tool_result>«Assistant»«/think»",
    ),
    (
        "a call without an id has no results",
        "0 0 1",
        [
            ("turn", "assistant"),
            ("call", "a", "f", ""),
            ("call", "b", "f", ""),
            ("call", "", "f", ""),
            ("replay", ""),
            ("turn", "tool", "1"),
            ("id", "b"),
            ("turn", "tool", "2"),
        ],
        "«BOS»«EOS»«User»<tool_result>2</tool_result>\n\n<tool_result>1</tool_result>«Assistant»«/think»",
    ),
    (
        "of equal ids the later number",
        "0 0 1",
        [
            ("turn", "assistant"),
            ("call", "a", "f", ""),
            ("replay", ""),
            ("turn", "assistant"),
            ("call", "a", "f", ""),
            ("call", "b", "f", ""),
            ("call", "a", "f", ""),
            ("replay", ""),
            ("turn", "tool", "1"),
            ("id", "a"),
            ("turn", "tool", "2"),
            ("id", "b"),
        ],
        "«BOS»«EOS»«EOS»«User»<tool_result>2</tool_result>\n\n<tool_result>1</tool_result>«Assistant»«/think»",
    ),
]
FAULTS: list[tuple[str, list[Row], str]] = [
    ("an unknown role", [U, ("turn", "function", "x"), ("turn", "developer", "")], "error encoder_role 1\n"),
    ("roles are exact", [("turn", "User", "x")], "error encoder_role 0\n"),
    ("an empty role", [("turn", "", "x")], "error encoder_role 0\n"),
    ("a developer without content", [U, ("turn", "developer"), ("turn", "nobody", "")], "error encoder_content 1\n"),
    ("a developer with an empty text", [("turn", "developer", "")], "error encoder_content 0\n"),
    ("a reminder without content", [("turn", "latest_reminder")], "error encoder_content 0\n"),
]


def main() -> None:
    rows = [(name, tape(switches, turns), prompt(written)) for name, switches, turns, written in CASES]
    rows += [(name, tape("1 0 1", turns), outcome) for name, turns, outcome in FAULTS]
    with (HERE / "worked" / "rules.jsonl").open("w", encoding="utf-8") as file:
        for name, given, outcome in rows:
            file.write(json.dumps({"case": name, "input": given, "expected": outcome}) + "\n")
    print(len(rows), "cases")


if __name__ == "__main__":
    main()
