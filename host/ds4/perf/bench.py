"""`ds4-bench`: tokens a second of the engine alone, straight on its step loop: no text, no server."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ds4.core import catalog
from ds4.core.direct import Engine
from ds4.core.exits import EPILOG, Exit, guarded
from ds4.core.identify import Identity, identify_inventory
from ds4.core.options import BACKEND, BATCH, ENGINE_OPTIONS, KV, MODEL, MODEL_DIR, MODEL_OPTIONS, NUMERIC, THREADS
from ds4.core.options import CTX as CONTEXT
from ds4.core.reading import read_text
from ds4.core.render import byte_size, table
from ds4.core.settings import Option, Program, Settings, boolean, integer, integers, load, number, path
from ds4.core.tokenizer import Tokenizer
from ds4.errors import SettingsError
from ds4.perf.bandwidth import read_bandwidth
from ds4.perf.prose import prose_ids
from ds4.perf.quick import Measure, measure
from ds4.perf.sweep import COLUMNS, FrontierDump, frontiers, sweep
from ds4.sys.cpus import physical_cores
from ds4.sys.native import cpu_kernels

_QUICK = "Quick measure (the default)"
_SWEEP = "Sweep over the context, as CSV"

PP: Option[tuple[int, ...]] = Option("pp", integers(0), (512,), "Prompt tokens computed at once; 0: none.", _QUICK)
TG: Option[tuple[int, ...]] = Option("tg", integers(0), (128,), "Tokens generated one by one; 0: none.", _QUICK)
DEPTH: Option[tuple[int, ...]] = Option("depth", integers(0), (0,), "Tokens of context before.", _QUICK, ("-d",))
REPETITIONS: Option[int] = Option("repetitions", integer(1), 5, "Measured runs of each test.", _QUICK, ("-r",))
JSON: Option[bool] = Option("json", boolean(), False, "Print JSON.", _QUICK, flag_only=True)
BANDWIDTH: Option[bool] = Option(
    "bandwidth",
    boolean(),
    False,
    "Measure read bandwidth too, and the part of it that generation reaches.",
    _QUICK,
    flag_only=True,
)

SWEEP: Option[bool] = Option(
    "sweep", boolean(), False, "Sweep; any option of this section asks for it.", _SWEEP, flag_only=True
)
CTX_START: Option[int] = Option("ctx-start", integer(1), 2048, "First frontier.", _SWEEP)
CTX_MAX: Option[int | None] = Option(
    "ctx-max", integer(1), None, "Last frontier.", _SWEEP, shows="32768, or what the model was trained for"
)
CTX_ALLOC: Option[int | None] = Option(
    "ctx-alloc", integer(1), None, "Context to allocate.", _SWEEP, shows="last frontier + gen-tokens + 1"
)
STEP_INCR: Option[int] = Option("step-incr", integer(0), 2048, "Added from frontier to frontier.", _SWEEP)
STEP_MUL: Option[float] = Option("step-mul", number(1), 1.0, "Multiplied from frontier to frontier, first.", _SWEEP)
GEN_TOKENS: Option[int] = Option(
    "gen-tokens", integer(0), 128, "Tokens generated at each frontier.", _SWEEP, ("-n", "--tokens")
)
CSV: Option[Path | None] = Option("csv", path(), None, "File for the table; - is standard output.", _SWEEP, shows="-")
PROMPT_FILE: Option[Path | None] = Option("prompt-file", path(), None, "Text to measure with.", _SWEEP)
DUMP: Option[Path | None] = Option(
    "dump-frontier-logits-dir", path("directory"), None, "Folder for each frontier's logits as JSON.", _SWEEP
)

_QUICK_OPTIONS: tuple[Option[Any], ...] = (PP, TG, DEPTH, REPETITIONS, JSON, BANDWIDTH)
_SWEEP_OPTIONS: tuple[Option[Any], ...] = (
    *(SWEEP, CTX_START, CTX_MAX, CTX_ALLOC, STEP_INCR, STEP_MUL, GEN_TOKENS, CSV, PROMPT_FILE, DUMP),
)
_ENGINE_OPTIONS = tuple(option for option in ENGINE_OPTIONS if option is not CONTEXT)

PROGRAM = Program(
    name="ds4-bench",
    table="bench",
    summary="Measures the engine alone: tokens a second of prompt processing and of generation.",
    usage=(
        "ds4-bench [--pp 512] [--tg 128] [-d DEPTH] [-r 5]",
        "ds4-bench -m MODEL --pp 0 --tg 16 --bandwidth",
        "ds4-bench --ctx-start 2048 --ctx-max 32768 --csv FILE",
    ),
    options=(*_QUICK_OPTIONS, *_SWEEP_OPTIONS, *MODEL_OPTIONS, *_ENGINE_OPTIONS),
    epilog=EPILOG,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code (core.exits)."""
    arguments = sys.argv[1:] if argv is None else argv
    return guarded(PROGRAM.name, lambda: _run(load(PROGRAM, arguments)))


def _run(settings: Settings) -> int:
    # Options that a configuration file sets shape a mode; only a flag asks for one.
    asked = [o for o in _SWEEP_OPTIONS if settings.source(o).startswith("-")]
    other = [o for o in _QUICK_OPTIONS if settings.source(o).startswith("-")]
    if asked and other:
        names = f"{settings.source(asked[0])} and {settings.source(other[0])}"
        raise SettingsError("the sweep and the quick measure do not go together", subject=names)
    file = catalog.resolve(settings[MODEL], settings[MODEL_DIR])
    return _sweep(settings, file) if asked else _quick(settings, file)


def _about(settings: Settings, identity: Identity, engine: Engine) -> dict[str, Any]:
    return {
        "model": identity.name or identity.path.stem,
        "file": identity.path.name,
        "quantisation": identity.file_type or identity.quant_summary,
        "bits_per_weight": round(identity.bits_per_weight, 3),
        "weight_bytes": identity.weight_bytes,
        "backend": settings[BACKEND],
        "kernels": cpu_kernels(),
        "threads": engine.threads,
        "kv": settings[KV],
        "numeric": settings[NUMERIC],
        "batch": settings[BATCH],
    }


def _quick(settings: Settings, file: Path) -> int:
    tests = [("pp", n) for n in settings[PP] if n] + [("tg", n) for n in settings[TG] if n]
    if not tests:
        raise SettingsError("nothing to measure", subject="--pp and --tg", expected="one above 0", found="none")
    bandwidth = read_bandwidth(settings[THREADS] or physical_cores()) if settings[BANDWIDTH] else None
    with Engine(file, settings) as engine:
        tokenizer = Tokenizer.from_metadata(engine.inventory.metadata)
        longest = max(n for _, n in tests)
        measures: list[Measure] = []
        for depth in settings[DEPTH]:
            ids = prose_ids(tokenizer, depth + longest + 1)
            session = engine.session(depth + longest + 1)
            measures += measure(session, ids, tests, depth, settings[REPETITIONS])
            session.close()
        about = _about(settings, identify_inventory(engine.inventory), engine)
        active = engine.model.active_bytes
    rows = [_with_bandwidth(m, active, bandwidth) for m in measures]
    if settings[JSON]:
        sys.stdout.write(json.dumps([{**about, **row} for row in rows], indent=2) + "\n")
    else:
        _print_quick(about, measures, rows, active, bandwidth)
    return Exit.OK


def _with_bandwidth(measured: Measure, active: int, bandwidth: float | None) -> dict[str, Any]:
    row = measured.dict()
    if bandwidth is not None and measured.kind == "tg":
        read = active * median(measured.rates)
        row |= {
            "active_bytes": active,
            "read_bytes_per_second": round(read),
            "bandwidth_bytes_per_second": round(bandwidth),
            "bandwidth_fraction": round(read / bandwidth, 4),
        }
    return row


def _print_quick(
    about: dict[str, Any], measures: list[Measure], rows: list[dict[str, Any]], active: int, bandwidth: float | None
) -> None:
    sys.stdout.write(
        f"{about['model']}  {about['quantisation']}  {byte_size(about['weight_bytes'])}\n"
        f"{about['backend']} {about['kernels']}, {about['threads']} threads, kv {about['kv']}, {about['numeric']}, "
        f"batch {about['batch']}\n\n"
    )
    cells = [
        (m.name, f"{median(m.rates):.2f}", f"[{min(m.rates):.2f} - {max(m.rates):.2f}]", _fraction(row))
        for m, row in zip(measures, rows, strict=True)
    ]
    header = ("test", "tok/s", "[min - max]", "of bandwidth" if bandwidth else "")
    sys.stdout.write(table(header, cells, right="lrrr") + "\n")
    if bandwidth is not None:
        sys.stdout.write(
            f"\nread bandwidth {byte_size(round(bandwidth))}/s; a token reads {byte_size(active)} of weights\n"
        )


def _fraction(row: dict[str, Any]) -> str:
    return f"{100 * row['bandwidth_fraction']:.1f} %" if "bandwidth_fraction" in row else ""


def _sweep(settings: Settings, file: Path) -> int:
    with Engine(file, settings) as engine:
        tokenizer = Tokenizer.from_metadata(engine.inventory.metadata)
        generate = settings[GEN_TOKENS]
        trained = engine.plan.hparams.n_ctx_train or 32768
        most = settings[CTX_MAX] or min(32768, max(trained - generate - 1, 1))
        start = settings[CTX_START] if settings.given(CTX_START) else min(settings[CTX_START], most)
        stops = frontiers(start, most, settings[STEP_INCR], settings[STEP_MUL])
        needed = most + generate + 1
        context = settings[CTX_ALLOC] or needed
        if context < needed:
            raise SettingsError(
                "too small for the sweep", subject="--ctx-alloc", expected=f">= {needed}", found=context
            )
        ids = _prompt(settings[PROMPT_FILE], tokenizer, most)
        session = engine.session(context)
        dump = None
        if (folder := settings[DUMP]) is not None:
            about = _about(settings, identify_inventory(engine.inventory), engine)
            dump = FrontierDump(folder, {**about, "prompt_tokens": len(ids), "ctx": context})
        csv = settings[CSV]
        out = sys.stdout if csv is None or str(csv) == "-" else csv.open("w", encoding="utf-8")
        try:
            out.write(",".join(COLUMNS) + "\n")
            for row in sweep(session, ids, stops, generate, dump):
                out.write(row.csv() + "\n")
                out.flush()  # a sweep takes minutes; each row is worth having as it comes
        finally:
            if out is not sys.stdout:
                out.close()
        session.close()
    return Exit.OK


def _prompt(file: Path | None, tokenizer: Tokenizer, count: int) -> list[int]:
    if file is None:
        return prose_ids(tokenizer, count)
    ids = tokenizer.encode(read_text(file))
    ids = tokenizer.with_bos(ids)
    if len(ids) < count:
        raise SettingsError("the text is too short", subject=str(file), expected=f"{count} tokens", found=len(ids))
    return ids[:count]


if __name__ == "__main__":
    sys.exit(main())
