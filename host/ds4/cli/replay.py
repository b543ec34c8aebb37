"""--replay: what a trace records is computed again, and the first token that differs is named."""

from __future__ import annotations

import sys
from pathlib import Path

from ds4.cli.arguments import QUIET
from ds4.cli.terminal import Progress
from ds4.core.direct import Engine, Lane
from ds4.core.exits import Exit
from ds4.core.options import KV, NUMERIC
from ds4.core.settings import Settings
from ds4.core.trace import MOST_BYTES, Trace, TracedChoice, TraceError, decode
from ds4.errors import SettingsError


def replay(settings: Settings, path: Path, file: Path) -> int:
    """OK where every choice draws the recorded tokens, FAILURE where one does not. TraceError for a file that is no
    trace, or not of this model; SettingsError where the engine is asked for other arithmetic than the trace's."""
    trace = read(file)
    for option, recorded in ((NUMERIC, trace.numeric), (KV, trace.kv)):
        if settings[option].lower() != recorded:
            told = f"the trace was made with --{option.name} {recorded}; give that here too"
            raise SettingsError(told, subject=f"--{option.name} {settings[option]}")
    progress = Progress(path.stem, quiet=settings[QUIET])
    differs = False
    with Engine(path, settings, progress) as engine:
        progress.close()
        n_vocab = engine.plan.hparams.n_vocab
        for index, choice in enumerate(trace.choices):
            drawn = trace.drawn(index)
            most = max([*choice.prompt, *drawn])
            if most >= n_vocab:
                raise TraceError(
                    "made with another model",
                    subject=f"choice {index}",
                    expected=f"tokens in 0..{n_vocab - 1}",
                    found=most,
                )
            at = _first_difference(engine, choice, drawn)
            differs |= at is not None
            sys.stdout.write(_told(index, choice, drawn, at))
    return Exit.FAILURE if differs else Exit.OK


def read(file: Path) -> Trace:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise TraceError("too large for a trace", subject=str(file), expected=f"at most {MOST_BYTES} bytes")
        data = file.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot be read: {error.strerror}", subject=f"--replay {file}") from None
    try:
        return decode(data)
    except TraceError as error:
        raise TraceError(f"no trace that can be replayed: {error}", subject=str(file)) from None


def _first_difference(engine: Engine, choice: TracedChoice, drawn: list[int]) -> tuple[int, int] | None:
    """Where the engine draws another token than was recorded, and which; None where it draws all of them. What is
    fed is the record, so nothing behind the first difference is looked at."""
    if not drawn:
        return None
    session = engine.session(len(choice.prompt) + len(drawn))
    lane = Lane(session, sampler=choice.sampling.desc(len(choice.prompt), choice.seed))
    found = lane.prefill(choice.prompt).token
    for at, token in enumerate(drawn):
        if found != token:
            return at, found
        if at + 1 < len(drawn):
            found = lane.step(token).token
    return None


def _told(index: int, choice: TracedChoice, drawn: list[int], at: tuple[int, int] | None) -> str:
    if at is None:
        return f"choice {index}: {len(drawn)} tokens, all as recorded\n"
    where, found = at
    held = "; the answer was held to a grammar or a budget, which is not replayed" if choice.held else ""
    return f"choice {index}: token {where} of {len(drawn)} differs: recorded {drawn[where]}, drawn {found}{held}\n"
