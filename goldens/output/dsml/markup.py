"""Blocks of calls, as models write them."""

from __future__ import annotations

from dsml.reading import D


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
