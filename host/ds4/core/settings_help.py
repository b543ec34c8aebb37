"""The text of `--help`: options in sections, one idea a line, the variable beside each."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any

from ds4.core.settings import Option, Program

_COLUMN = 26  # where help text starts


def render(program: Program, width: int | None = None) -> str:
    """The whole help of a program. width: columns; None: the terminal's, at most 110."""
    width = max(60, min(110, width or shutil.get_terminal_size((100, 24)).columns))
    lines = [*textwrap.wrap(program.summary, width), "", "Usage:", *(f"  {line}" for line in program.usage)]
    sections: dict[str, list[Option[Any]]] = {}
    for option in program.options:
        if not option.hidden:
            sections.setdefault(option.section, []).append(option)
    for section, options in sections.items():
        lines += ["", f"{section}:"]
        for option in options:
            lines += _option_lines(option, width)
    if program.epilog:
        lines += ["", program.epilog.strip("\n")]
    lines += [
        "",
        *textwrap.wrap(
            "Each option but the one-run actions can also be set as DS4_<NAME> (--top-p: DS4_TOP_P) or as a key of the "
            f"TOML file, at its top level when programs share it or in [{program.table}]. A flag wins over a variable, "
            "a variable over the file.",
            width,
        ),
    ]
    return "\n".join(lines) + "\n"


def _option_lines(option: Option[Any], width: int) -> list[str]:
    left = "  " + ", ".join(option.spellings) + (f" {option.kind.metavar}" if option.kind.takes_value else "")
    text = option.help
    default = option.shows if option.shows is not None else _default(option)
    if default:
        text += f" [{default}]"
    wrapped = textwrap.wrap(text, width - _COLUMN)
    if len(left) + 2 > _COLUMN:
        return [left, *(" " * _COLUMN + line for line in wrapped)]
    return [left.ljust(_COLUMN) + wrapped[0], *(" " * _COLUMN + line for line in wrapped[1:])]


def _default(option: Option[Any]) -> str:
    if option.default is None or option.default == () or option.default is False:
        return ""
    if option.default is True:
        return f"on; {option.negation} turns it off"
    return ",".join(map(str, option.default)) if isinstance(option.default, tuple) else str(option.default)
