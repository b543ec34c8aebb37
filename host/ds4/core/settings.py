"""Settings: one declaration per option; flag > DS4_* variable > TOML file > default.

An `Option` says everything about a setting once: its name, kind, default, help and section. From it come the flag, the
environment variable `DS4_<NAME>`, the TOML key, the line in `--help` and the row in `--show-config`.

    PORT: Option[int] = Option("port", integer(0, 65535), 8000, "Port to listen on.", SECTION)
    PROGRAM = Program("ds4-server", table="server", summary=..., options=(PORT, *options.MODEL_OPTIONS))
    settings = load(PROGRAM, sys.argv[1:])
    settings[PORT]          # an int, to mypy as well

The TOML file is shared by all programs. Keys at its top level are the shared options (`core.options.SHARED`); a
program's table (`[cli]`, `[server]`, `[bench]`) may hold those and the program's own, and wins over the top level.
A key that nobody reads is an error, not a silent no-op.

`load` raises `SettingsError`, which names the source and the value. It prints and raises `SystemExit(0)` for `--help`,
`--version` and `--show-config`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar, cast

from ds4 import __version__
from ds4.core.kinds import (
    Kind,
    boolean,
    choice,
    did_you_mean,
    integer,
    integers,
    model_reference,
    number,
    path,
    size,
    text,
    texts,
)
from ds4.errors import SettingsError

__all__ = [
    "CONFIG", "Kind", "Option", "Program", "Settings", "boolean", "caller_directory", "choice", "integer", "integers",
    "load", "model_reference", "number", "path", "size", "text", "texts",
]  # fmt: skip

T = TypeVar("T")
_LARGEST_FILE = 1 << 20  # bytes of a TOML file; a device in its place never ends
TABLES = ("cli", "server", "bench", "agent", "synth")  # one per program; each checks its own


def caller_directory() -> Path:
    """The folder that the person typed the command in: `./dev` and `bazel run` start programs elsewhere and leave it in
    DS4_CALLER_DIR and BUILD_WORKING_DIRECTORY."""
    named = os.environ.get("DS4_CALLER_DIR") or os.environ.get("BUILD_WORKING_DIRECTORY")
    try:
        return Path(named or os.getcwd())
    except FileNotFoundError:
        raise SettingsError("it was removed; change to another", subject="the current folder") from None


# ---- options and programs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option(Generic[T]):
    """One setting.

    name:      the long flag and the TOML key ("max-seqs"); DS4_MAX_SEQS is its variable.
    flags:     other spellings of the flag ("-c").
    flag_only: an action of one run ("--identify"): no variable, no TOML key.
    secret:    its value is never printed.
    shows:     what help says of the default; None: the default itself, if there is one; "" nothing.
    """

    name: str
    kind: Kind[Any]
    default: T
    help: str
    section: str
    flags: tuple[str, ...] = ()
    flag_only: bool = False
    shows: str | None = None
    hidden: bool = False
    secret: bool = False

    @property
    def env(self) -> str:
        return "DS4_" + self.name.upper().replace("-", "_")

    @property
    def spellings(self) -> tuple[str, ...]:
        """Short ones first, then the name."""
        short = [flag for flag in self.flags if not flag.startswith("--")]
        return (*short, f"--{self.name}", *(flag for flag in self.flags if flag.startswith("--")))

    @property
    def negation(self) -> str | None:
        return None if self.kind.takes_value or self.flag_only else f"--no-{self.name}"


@dataclass(frozen=True)
class Program:
    """A command: what its help says, the options it takes, the TOML table it reads."""

    name: str
    table: str
    summary: str
    usage: tuple[str, ...]
    options: tuple[Option[Any], ...]
    epilog: str = ""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for spelling in (s for option in self.options for s in option.spellings):
            if spelling in seen:
                raise ValueError(f"{self.name} declares {spelling} twice")
            seen.add(spelling)


@dataclass(frozen=True)
class Value:
    value: Any
    source: str  # "default", "--ctx", "DS4_CTX" or "FILE [table]"


@dataclass(frozen=True)
class Settings:
    """The resolved values; `settings[OPTION]` has the option's own type."""

    program: Program
    values: Mapping[str, Value] = field(default_factory=dict)

    def __getitem__(self, option: Option[T]) -> T:
        return cast(T, self.values[option.name].value)

    def source(self, option: Option[Any]) -> str:
        return self.values[option.name].source

    def given(self, option: Option[Any]) -> bool:
        """True if anything but the default decided."""
        return self.source(option) != "default"

    def visible(self, option: Option[Any]) -> object:
        """The value as it may be printed: of a secret one only whether there is any."""
        value = self.values[option.name].value
        return "(hidden)" if option.secret and value not in (None, (), "") else value

    def show(self) -> str:
        """A table of every setting, its value and where the value came from."""
        rows = [
            (option.name, _shown(self.visible(option)), self.values[option.name].source)
            for option in self.program.options
            if not option.flag_only
        ]
        widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
        return "".join(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {source}\n" for name, value, source in rows)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) or "-" if isinstance(value, tuple) else str(value)


CONFIG: Option[Path | None] = Option(
    "config", path(), None, "TOML file to read; default $XDG_CONFIG_HOME/ds4/config.toml, if there.", "General"
)
SHOW_CONFIG: Option[bool] = Option(
    "show-config", boolean(), False, "Print every setting and where its value came from.", "General", flag_only=True
)
HELP: Option[bool] = Option("help", boolean(), False, "Print this.", "General", flags=("-h",), flag_only=True)
VERSION: Option[bool] = Option("version", boolean(), False, "Print the version.", "General", flag_only=True)
GENERAL = (CONFIG, SHOW_CONFIG, VERSION, HELP)


def load(program: Program, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Settings:
    """Resolves every option of the program. Raises SettingsError, and SystemExit(0) after --help, --version and
    --show-config."""
    # Deferred: help is text that most runs never need, and it needs this module.
    from ds4.core.settings_help import render

    env = os.environ if env is None else env
    program = Program(**{**program.__dict__, "options": (*program.options, *GENERAL)})
    flags = _parse_flags(program, argv)
    if "help" in flags:
        sys.stdout.write(render(program))
        raise SystemExit(0)
    if "version" in flags:
        sys.stdout.write(f"{program.name} {__version__}\n")
        raise SystemExit(0)
    base = caller_directory()
    values: dict[str, Value] = {CONFIG.name: _resolve(CONFIG, flags, env, {}, base)}
    tables = _read_toml(program, values[CONFIG.name].value, env)
    for option in program.options:
        if option is not CONFIG:
            values[option.name] = _resolve(option, flags, env, tables, base)
    settings = Settings(program, values)
    if settings[SHOW_CONFIG]:
        sys.stdout.write(settings.show())
        raise SystemExit(0)
    return settings


# ---- the four sources -------------------------------------------------------------------------------------------

_Tables = Mapping[str, tuple[object, str, Path]]  # key -> (value, where, the file's folder)


def _resolve(
    option: Option[Any], flags: Mapping[str, tuple[str, Any]], env: Mapping[str, str], tables: _Tables, base: Path
) -> Value:
    if option.name in flags:
        spelling, raw = flags[option.name]
        return Value(_read(option, raw, base, spelling), spelling)
    if not option.flag_only:
        if env.get(option.env):  # an empty variable is the usual way to say "unset"
            return Value(_read(option, env[option.env], base, option.env), option.env)
        if option.name in tables:
            raw, where, folder = tables[option.name]
            return Value(_read(option, raw, folder, f"{where} {option.name}"), where)
    return Value(option.default, "default")


def _read(option: Option[Any], raw: object, base: Path, source: str) -> Any:
    try:
        return option.kind.parse(raw, base)
    except ValueError as error:
        one = raw[0] if isinstance(raw, list) and len(raw) == 1 else raw
        found = "(hidden)" if option.secret else repr(one)
        raise SettingsError("cannot use this value", subject=source, expected=error, found=found) from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _parse_flags(program: Program, argv: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """name -> (the spelling used, its text; a list of texts for options that repeat)."""

    class Keep(argparse.Action):
        def __call__(self, parser: object, namespace: object, values: Any, spelling: str | None = None) -> None:
            option = by_name[self.dest]
            if option.kind.repeats:
                values = [*found.get(self.dest, ("", []))[1], values]
            elif not option.kind.takes_value:
                values = spelling != option.negation
            found[self.dest] = (spelling or "", values)

    found: dict[str, tuple[str, Any]] = {}
    by_name = {option.name: option for option in program.options}
    parser = _Parser(prog=program.name, add_help=False, allow_abbrev=False)
    takes_value: set[str] = set()
    for option in program.options:
        names = (*option.spellings, *([option.negation] if option.negation else []))
        parser.add_argument(*names, dest=option.name, action=Keep, nargs=None if option.kind.takes_value else 0)
        if option.kind.takes_value:
            takes_value.update(option.spellings)
    _, extra = parser.parse_known_args(_glue(argv, takes_value))
    if extra:
        word = extra[0]
        shown = [option for option in program.options if not option.hidden]
        known = [s for option in shown for s in (*option.spellings, option.negation) if s]
        if not word.startswith("-"):
            model = "a model is named with -m, and " if "-m" in takes_value else ""
            raise SettingsError(f"unexpected argument; {model}--help lists what is taken", subject=repr(word))
        raise SettingsError("unknown option" + did_you_mean(word.split("=")[0], known), subject=word)
    return found


def _glue(argv: Sequence[str], takes_value: set[str]) -> list[str]:
    """Joins `-p -1` into `-p=-1`: argparse would take a value that starts with a dash for another option, but what
    follows an option that takes a value is its value."""
    glued: list[str] = []
    words = iter(argv)
    for word in words:
        if word in takes_value:
            value = next(words, None)
            if value is None:
                raise SettingsError("needs a value", subject=word)
            word = f"{word}={value}"
        glued.append(word)
    return glued


def _read_toml(program: Program, given: Path | None, env: Mapping[str, str]) -> dict[str, tuple[object, str, Path]]:
    home = Path(env.get("HOME") or "~").expanduser()
    file = given or Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "ds4" / "config.toml"
    try:
        with file.open("rb") as stream:
            raw = stream.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise SettingsError(f"larger than {_LARGEST_FILE} bytes, so no configuration file", subject=str(file))
        data = tomllib.loads(raw.decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):  # a service's home may be /dev/null
        if given is None:
            return {}
        raise SettingsError("no such file", subject=str(file)) from None
    except OSError as error:
        raise SettingsError(f"cannot read it: {error.strerror}", subject=str(file)) from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"cannot read it: {error}", subject=str(file)) from None
    # Deferred: the shared options are declared with this module's Option.
    from ds4.core.options import SHARED

    shared = [option.name for option in SHARED]
    own = [option.name for option in program.options if not option.flag_only and option is not CONFIG]
    found: dict[str, tuple[object, str, Path]] = {}
    mine = data.get(program.table, {})
    if not isinstance(mine, dict):
        raise SettingsError(
            "is the name of a table", subject=f"{file}: {program.table}", expected="a table", found=repr(mine)
        )
    where = str(file)
    top = {key: value for key, value in data.items() if key not in TABLES}
    for name, value in _keys(top, shared, where, own).items():
        found[name] = (value, where, file.parent)
    where = f"{file} [{program.table}]"
    for name, value in _keys(mine, [*own, *shared], where, ()).items():
        found[name] = (value, where, file.parent)
    return found


def _keys(table: Mapping[str, object], known: Sequence[str], where: str, elsewhere: Sequence[str]) -> dict[str, object]:
    """The table by option name. A key that is unknown, or there in both spellings, is an error."""
    found: dict[str, object] = {}
    for key, value in table.items():
        name = _known_key(key, known, where, elsewhere)
        if name in found:
            raise SettingsError(f"{name} stands there twice, with dashes and with underscores", subject=where)
        found[name] = value
    return found


def _known_key(key: str, known: Sequence[str], where: str, elsewhere: Sequence[str]) -> str:
    name = key.replace("_", "-")
    if name in known:
        return name
    if name in elsewhere:
        raise SettingsError(f"{key} belongs in this program's own table, not at the top level", subject=where)
    raise SettingsError(f"unknown key {key!r}" + did_you_mean(name, [*known, *elsewhere]), subject=where)
