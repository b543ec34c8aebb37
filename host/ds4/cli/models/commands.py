"""The verbs of `ds4 models`. None of them loads the engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ds4.cli import diagnostics
from ds4.cli.arguments import (
    ACCEPT_LICENCE,
    AS,
    FORCE,
    GET_PROGRAM,
    IDENTIFY_PROGRAM,
    JSON,
    MODEL_VERBS,
    MODELS_PROGRAM,
    NAMES,
    QUIET,
    REMOVE_PROGRAM,
    SHA256,
    VERIFY_PROGRAM,
    YES,
)
from ds4.cli.models import folder, known
from ds4.cli.models.progress import Transfer
from ds4.core import catalog, inventory, qualified, render
from ds4.core.exits import Exit
from ds4.core.identify import identify, identify_inventory
from ds4.core.kinds import did_you_mean
from ds4.core.options import MODEL_DIR
from ds4.core.settings import Program, Settings, load
from ds4.errors import ModelFileError, SettingsError


def run(arguments: Sequence[str]) -> int:
    """`ds4 models VERB ...`; without a verb, the list."""
    named = bool(arguments) and not arguments[0].startswith("-")
    verb, rest = (arguments[0], arguments[1:]) if named else ("list", arguments)
    if verb == "list":
        return list_models(load(MODELS_PROGRAM, rest))
    if verb not in VERBS:
        raise SettingsError("no such verb" + did_you_mean(verb, MODEL_VERBS), subject=f"ds4 models {verb}",
                            expected=", ".join(MODEL_VERBS), found=repr(verb))  # fmt: skip
    program, command = VERBS[verb]
    words, flags = _split(program, rest)
    return command(load(program, flags), words)


def _split(program: Program, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that no option takes, and the rest."""
    takes = {name for option in program.options if option.kind.takes_value for name in option.spellings} | {"--config"}
    words: list[str] = []
    flags: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            words += rest
        elif word in takes:
            flags += [word, *([value] if (value := next(rest, None)) is not None else [])]
        else:
            (flags if word.startswith("-") else words).append(word)
    return words, flags


def _named(words: list[str], verb: str) -> list[str]:
    if not words:
        raise SettingsError(f"needs a model; ds4 models {verb} --help says how", subject=f"ds4 models {verb}")
    return words


def list_models(settings: Settings) -> int:
    """Every model that -m can name, identified. A broken file is a row, not an error."""
    entries = catalog.entries(settings[MODEL_DIR])
    if settings[NAMES]:
        sys.stdout.write("".join(f"{entry.name}\n" for entry in entries))
        return Exit.OK
    found: list[dict[str, Any]] = []
    for entry in entries:
        about: dict[str, Any] = {"id": entry.name, "origin": entry.origin, "path": str(entry.path)}
        try:
            identity = identify(entry.path)
            about |= {key: value for key, value in render.identity_dict(identity).items() if key != "path"}
            about |= {"quant_summary": identity.quant_summary}
        except (ModelFileError, OSError) as error:
            about |= {"supported": False, "reason": str(error)}
        found.append(about)
    if settings[JSON]:
        diagnostics.show(json.dumps(found, indent=2, ensure_ascii=False))
        return Exit.OK
    if not found:
        diagnostics.show("no models: this build embeds none, and none was fetched; see ds4 models get --help")
        return Exit.OK
    rows = [
        (
            row["id"],
            row.get("architecture") or "?",
            row.get("size_label") or "?",
            (row.get("file_type") or row.get("quant_summary") or "?"),
            render.byte_size(row["bytes"]) if "bytes" in row else "?",
            row["origin"] if row["origin"] == "embedded" else str(Path(row["path"]).relative_to(row["origin"])),
            "yes" if row["supported"] else f"no: {row['reason']}",
        )
        for row in found
    ]
    header = ("name", "family", "size", "type", "bytes", "where", "supported")
    diagnostics.show(render.table(header, rows, right="llllr"))
    return Exit.OK


def _identify(settings: Settings, words: list[str]) -> int:
    loaded = [inventory.load(catalog.resolve(word, settings[MODEL_DIR])) for word in _named(words, "identify")]
    found = [(one := identify_inventory(files), qualified.of_model(one, files)) for files in loaded]
    if settings[JSON]:
        values = [render.identity_dict(*one) for one in found]
        diagnostics.show(json.dumps(values if len(values) > 1 else values[0], indent=2, ensure_ascii=False))
    else:
        diagnostics.show("\n\n".join(render.render_identity(*one) for one in found))
    return Exit.OK


def _verify(settings: Settings, words: list[str]) -> int:
    """A file whose hash differs makes the command end with MODEL_FILE; one that was named and has no record, with
    FAILURE."""
    if words:
        paths = [catalog.resolve(word, settings[MODEL_DIR]) for word in words]
    else:
        paths = [entry.path for entry in catalog.entries(settings[MODEL_DIR])]
    files = [file for path in paths for file in folder.files_of(path)]
    given = settings[SHA256]
    if given is not None and len(files) != 1:
        raise SettingsError("is of one file", subject="--sha256", expected="1 file", found=len(files))
    rows: list[dict[str, Any]] = []
    for file in files:
        expected = given or folder.recorded(file) or _embedded_hash(file)
        with closing(Transfer(file.name, quiet=settings[QUIET])) as report:
            found = folder.sha256_of(file, report)
        status = "unrecorded" if expected is None else "ok" if found == expected else "differs"
        rows.append({"path": str(file), "status": status, "expected": expected, "found": found})
    if settings[JSON]:
        diagnostics.show(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        for row in rows:
            told = {
                "ok": f"ok, sha256 {row['found']}",
                "differs": f"its contents are not what was recorded (expected sha256 {row['expected']}, "
                f"found {row['found']})",
                "unrecorded": f"no hash is recorded for it (found sha256 {row['found']})",
            }[row["status"]]
            diagnostics.show(f"{row['path']}: {told}")
        if not rows:
            diagnostics.show("no models")
    statuses = {row["status"] for row in rows}
    return Exit.MODEL_FILE if "differs" in statuses else Exit.FAILURE if words and "unrecorded" in statuses else Exit.OK


def _embedded_hash(file: Path) -> str | None:
    """The hash of a model that the build brings along, by the name of its file."""
    model = next((model for model in catalog.EMBEDDED if model.file == file.name), None)
    if model is None or model.sha256 is not None:
        return None if model is None else model.sha256
    found = known.find(model.name)
    return None if found is None else found.sha256


def _get(settings: Settings, words: list[str]) -> int:
    if len(_named(words, "get")) > 1:
        raise SettingsError("one at a time", subject="ds4 models get", expected="1 model", found=len(words))
    # Here and not above: what speaks HTTP is slow to import.
    from ds4.cli.models.get import Order, get

    order = Order(
        settings[MODEL_DIR] or catalog.default_folder(),
        sha256=settings[SHA256],
        name=settings[AS],
        force=settings[FORCE],
        accept=settings[ACCEPT_LICENCE],
        quiet=settings[QUIET],
    )
    for path, sha256 in get(words[0], order):
        diagnostics.show(f"{path}\nsha256 {sha256}")
    return Exit.OK


def _remove(settings: Settings, words: list[str]) -> int:
    root = settings[MODEL_DIR] or catalog.default_folder()
    for one in [folder.entry(word, root) for word in _named(words, "remove")]:
        files = [file for file in folder.files_of(one.path) if file.exists()]
        told = f"{one.name} ({len(files)} file{'s' if len(files) != 1 else ''}, "
        told += f"{render.byte_size(sum(file.stat().st_size for file in files))}, {one.path})"
        if not settings[YES] and not _agreed(f"Remove {told}? [y/N] "):
            diagnostics.show(f"kept {one.name}")
            continue
        folder.remove(one, root)
        diagnostics.show(f"removed {told}")
    return Exit.OK


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise SettingsError("asks first; pass --yes where nobody can answer", subject="ds4 models remove")
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


VERBS: dict[str, tuple[Program, Callable[[Settings, list[str]], int]]] = {
    "identify": (IDENTIFY_PROGRAM, _identify),
    "verify": (VERIFY_PROGRAM, _verify),
    "get": (GET_PROGRAM, _get),
    "remove": (REMOVE_PROGRAM, _remove),
}
