"""Where a block may end unfinished, and what is missing of it."""

from __future__ import annotations

from dsml.reading import D

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
