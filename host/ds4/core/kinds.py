"""The kinds of value that a setting can have: how each is read from a flag, a variable or a TOML file."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'; did you mean X?' for the closest known word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """How a value is read. parse takes text (a flag, a variable) or a TOML value and the folder that relative paths
    start from; it raises ValueError(what was expected)."""

    metavar: str
    parse: Callable[[object, Path], T]
    takes_value: bool = True
    repeats: bool = False
    choices: tuple[str, ...] = ()
    completes: str = ""  # "file", "directory" or "model", for shell completion


def _unicode(raw: str) -> str:
    """Text of a flag or variable. Bytes that the locale could not read come as lone surrogates; they are taken for the
    UTF-8 that they mostly are, and refused if they are not."""
    try:
        return raw if raw.isascii() else os.fsencode(raw).decode("utf-8")
    except UnicodeError:
        raise ValueError("text in UTF-8") from None


def text(metavar: str = "TEXT") -> Kind[str]:
    def parse(raw: object, base: Path) -> str:
        if not isinstance(raw, str):
            raise ValueError("text")
        return _unicode(raw)

    return Kind(metavar, parse)


def texts(
    metavar: str = "TEXT", fits: Callable[[str], bool] = lambda text: True, expected: str = ""
) -> Kind[tuple[str, ...]]:
    """May be given several times; a variable holds one value; TOML an array or one. fits: whether a text is one that
    is `expected`."""

    def parse(raw: object, base: Path) -> tuple[str, ...]:
        items = raw if isinstance(raw, list) else [raw]
        if not all(isinstance(item, str) for item in items):
            raise ValueError("text or a list of texts")
        if not all(map(fits, read := tuple(map(_unicode, items)))):
            raise ValueError(expected)
        return read

    return Kind(metavar, parse, repeats=True)


def _in_range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" in {low}..{high}"
    return f" >= {low}" if low is not None else f" <= {high}" if high is not None else ""


def _plain(raw: T) -> T:
    """What Python reads as a number beyond what a person means by one is refused: 1_0, digits of other scripts."""
    if isinstance(raw, str) and (not raw.isascii() or "_" in raw):
        raise ValueError
    return raw


def integer(low: int | None = None, high: int | None = None, metavar: str = "N") -> Kind[int]:
    expected = "an integer" + _in_range(low, high)

    def parse(raw: object, base: Path) -> int:
        try:
            if isinstance(raw, bool) or not isinstance(raw, int | str):
                raise ValueError
            value = int(_plain(raw))
        except ValueError:
            raise ValueError(expected) from None
        if (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(expected)
        return value

    return Kind(metavar, parse)


def integers(low: int | None = None, metavar: str = "N,N,...") -> Kind[tuple[int, ...]]:
    """A list of integers, separated by commas or blanks; in TOML an array."""
    one = integer(low)

    def parse(raw: object, base: Path) -> tuple[int, ...]:
        items = raw if isinstance(raw, list) else str(raw).replace(",", " ").split()
        try:
            values = tuple(one.parse(item, base) for item in items)
        except ValueError:
            values = ()
        if not values:
            raise ValueError("integers" + _in_range(low, None) + " separated by commas")
        return values

    return Kind(metavar, parse)


def number(low: float | None = None, high: float | None = None, metavar: str = "X") -> Kind[float]:
    expected = "a number" + _in_range(low, high)

    def parse(raw: object, base: Path) -> float:
        try:
            if isinstance(raw, bool) or not isinstance(raw, int | float | str):
                raise ValueError
            value = float(_plain(raw))
        except (ValueError, OverflowError):
            raise ValueError(expected) from None
        if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(expected)
        return value

    return Kind(metavar, parse)


def sha256(metavar: str = "HASH") -> Kind[str]:
    """A SHA-256 in hexadecimal, as sha256sum prints it."""

    def parse(raw: object, base: Path) -> str:
        if not isinstance(raw, str) or re.fullmatch("[0-9a-fA-F]{64}", raw) is None:
            raise ValueError("64 hexadecimal digits")
        return raw.lower()

    return Kind(metavar, parse)


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def size(metavar: str = "SIZE") -> Kind[int]:
    """Bytes: 4096, 512M, 8GiB; K, M, G and T are powers of 1,024."""

    def parse(raw: object, base: Path) -> int:
        if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0:
            return raw
        digits = str(raw).strip().upper().removesuffix("B").removesuffix("I")
        unit = digits[-1:] if digits[-1:].isalpha() else ""
        try:
            value = float(digits.removesuffix(unit) if unit else digits)
            if not 0 <= value < 2**40:
                raise ValueError
            return int(value * _UNITS[unit])
        except (ValueError, KeyError):
            raise ValueError("a size such as 4096, 512M or 8GiB") from None

    return Kind(metavar, parse)


def boolean() -> Kind[bool]:
    """`--name` and `--no-name`; variables take 1/0, true/false, yes/no, on/off."""

    def parse(raw: object, base: Path) -> bool:
        if isinstance(raw, bool):
            return raw
        word = str(raw).strip().lower()
        if word in ("1", "true", "yes", "on"):
            return True
        if word in ("0", "false", "no", "off"):
            return False
        raise ValueError("true or false")

    return Kind("", parse, takes_value=False)


def choice(*names: str) -> Kind[str]:
    def parse(raw: object, base: Path) -> str:
        if raw not in names:
            raise ValueError("one of " + ", ".join(names) + did_you_mean(str(raw), names))
        return str(raw)

    return Kind("|".join(names), parse, choices=names)


def expanded(raw: str) -> Path:
    """The path, a leading `~` or `~user` replaced by that home. ValueError if nobody knows it."""
    try:
        return Path(raw).expanduser()
    except RuntimeError:
        raise ValueError("a path; there is no such home") from None


def path(completes: str = "file", metavar: str = "") -> Kind[Path]:
    """A path, `~` expanded; "-" is left for the program to understand. Relative ones start at the caller's directory,
    in a TOML file at the file's own."""

    def parse(raw: object, base: Path) -> Path:
        if not isinstance(raw, str) or not raw or "\0" in raw:
            raise ValueError("a path")
        return Path(raw) if raw == "-" else base / expanded(raw)

    return Kind(metavar or ("DIR" if completes == "directory" else "FILE"), parse, completes=completes)


def model_reference() -> Kind[str]:
    """A model's name or path; see core.catalog.resolve."""

    def parse(raw: object, base: Path) -> str:
        if not isinstance(raw, str) or not raw or "\0" in raw:
            raise ValueError("a model's name or path")
        expanded(raw)
        # In a TOML file ./x.gguf means beside that file; elsewhere base is the caller's directory, as in resolve.
        return str(base / raw) if raw.startswith(("./", "../")) else raw

    return Kind("NAME|FILE", parse, completes="model")
