"""What the answer to -p is held to: JSON, a schema, a pattern or a grammar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ds4.cli.arguments import FORMS, GRAMMAR, JSON_OBJECT, JSON_SCHEMA, REGEX
from ds4.core.constraint import grammar as grammars
from ds4.core.constraint.grammar import Grammar
from ds4.core.reading import read_text
from ds4.core.settings import Settings
from ds4.errors import SettingsError


def asked_for(settings: Settings) -> Grammar | None:
    """None: any text. SettingsError for more than one form or a file that cannot be read; ConstraintError."""
    given = [option.name for option in FORMS if settings[option]]
    if len(given) > 1:
        raise SettingsError("exclude each other", subject=" and ".join(f"--{name}" for name in given))
    if settings[JSON_OBJECT]:
        return grammars.json_object()
    if (path := settings[JSON_SCHEMA]) is not None:
        return grammars.json_schema(_parsed(path))
    if (pattern := settings[REGEX]) is not None:
        return grammars.regex(pattern)
    if (path := settings[GRAMMAR]) is not None:
        return grammars.lark(_read(path, "grammar"))
    return None


def _read(path: Path, option: str) -> str:
    try:
        return read_text(path)
    except SettingsError as error:
        raise SettingsError(str(error), subject=f"--{option}") from None


def _parsed(path: Path) -> Any:
    try:
        return json.loads(_read(path, "json-schema"))
    except (ValueError, RecursionError) as error:
        raise SettingsError("is no JSON", subject="--json-schema", expected="JSON", found=str(error)) from None
