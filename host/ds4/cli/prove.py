"""Token ids, logits and log-probabilities as they are, for comparing this engine with another."""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ds4.cli.arguments import (
    DUMP_HIDDEN,
    DUMP_LOGITS,
    DUMP_LOGPROBS,
    LOGPROBS_TOP_K,
    PREDICT,
    QUIET,
    TOKEN_IDS,
    TOKENS,
)
from ds4.cli.npy import NpyWriter
from ds4.cli.prompt import prompt_ids
from ds4.cli.terminal import Progress
from ds4.core.direct import Drawn, Engine, Lane
from ds4.core.exits import Exit
from ds4.core.options import BATCH, CTX
from ds4.core.settings import Settings
from ds4.core.tokenizer import Tokenizer
from ds4.errors import SettingsError
from ds4.sys.descriptors import SessionFlags

_LOGIT_ROWS = 64  # rows of a step that keep their logits: 64 x vocabulary x 4 bytes, twice
_PREDICT = 128  # tokens that --dump-logprobs generates without -n or --predict


def prove(settings: Settings, path: Path, prompt: str | None) -> int:
    """--dump-logits, --dump-hidden, --predict and --dump-logprobs over --token-ids or a prompt."""
    progress = Progress(path.stem, quiet=settings[QUIET])
    with Engine(path, settings, progress) as engine:
        progress.close()
        ids = _ids(settings, engine, prompt)
        predict = settings[PREDICT] or 0
        alternatives = (settings[PREDICT] or settings[TOKENS] or _PREDICT) if settings[DUMP_LOGPROBS] else 0
        # Each part has a session of its own, so that none sees another's state.
        context = settings[CTX] or len(ids) + max(predict, alternatives, 1)
        if (out := settings[DUMP_LOGITS]) is not None:
            _dump_logits(settings, engine, ids, context, out)
        if (out := settings[DUMP_HIDDEN]) is not None:
            _dump_hidden(settings, engine, ids, context, out)
        if settings[PREDICT] is not None:
            lane = Lane(engine.session(context))
            drawn = [lane.prefill(ids).token] if predict else []
            drawn += lane.decode(drawn[0], predict - 1) if predict > 1 else []
            sys.stdout.write(",".join(map(str, drawn)) + "\n")
        if (out := settings[DUMP_LOGPROBS]) is not None:
            _dump_logprobs(settings, engine, ids, context, alternatives, out)
    return Exit.OK


def _ids(settings: Settings, engine: Engine, prompt: str | None) -> list[int]:
    given = settings[TOKEN_IDS]
    if given is not None:
        ids, subject = list(given), "--token-ids"
    elif prompt is not None:
        metadata = engine.inventory.metadata
        ids, subject = prompt_ids(settings, Tokenizer.from_metadata(metadata), metadata, prompt), "the prompt"
    else:
        raise SettingsError("needs --token-ids or a prompt")
    n_vocab = engine.plan.hparams.n_vocab
    wrong = next((token for token in ids if token >= n_vocab), None)
    if wrong is not None or not ids:
        expected = f"ids in 0..{n_vocab - 1}, at least one"
        raise SettingsError("cannot use these tokens", subject=subject, expected=expected, found=wrong or "none")
    return ids


def _dump_logits(settings: Settings, engine: Engine, ids: list[int], context: int, out: Path) -> None:
    width = min(settings[BATCH], _LOGIT_ROWS)
    with NpyWriter(out, engine.plan.hparams.n_vocab) as file:
        for row in Lane(engine.session(context, outputs=width)).logits(ids):
            file.append(row)


def _dump_hidden(settings: Settings, engine: Engine, ids: list[int], context: int, out: Path) -> None:
    """An .npz is a ZIP of .npy. Each point is written to a file of its own first: rows come position by position."""
    width = min(settings[BATCH], _LOGIT_ROWS)
    points = range(engine.plan.hparams.n_layer + 1)
    session = engine.session(context, outputs=width, flags=SessionFlags.HIDDEN)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=out.name) as folder, ExitStack() as files:
        names = [Path(folder) / f"h{point}.npy" for point in points]
        hparams = engine.plan.hparams
        streams = session.hidden_width // hparams.d_model
        row = (streams, hparams.d_model) if streams > 1 else (hparams.d_model,)
        writers = [files.enter_context(NpyWriter(name, *row)) for name in names]
        for ticket, rows in Lane(session).tickets(ids):
            for index in range(rows):
                for point, writer in enumerate(writers):
                    writer.append(session.hidden(ticket, index, point))
        files.close()
        partial = Path(folder) / "whole.npz"
        with zipfile.ZipFile(partial, "w") as archive:
            for name in names:
                archive.write(name, name.name)
        partial.replace(out)


def _dump_logprobs(settings: Settings, engine: Engine, ids: list[int], context: int, count: int, out: Path) -> None:
    """A JSON object: model, prompt ids; and for each drawn token its id, bytes, log-probability and alternatives."""
    tokenizer = Tokenizer.from_metadata(engine.inventory.metadata)
    lane, top = Lane(engine.session(context)), settings[LOGPROBS_TOP_K]
    steps: list[dict[str, Any]] = []
    drawn: Drawn = lane.prefill(ids, top=top)
    while True:
        steps.append(
            {
                "position": len(ids) + len(steps),
                **_token(tokenizer, drawn.token, drawn.logprob()),
                "top": [_token(tokenizer, token, logprob) for token, logprob in drawn.top()],
            }
        )
        if len(steps) == count or drawn.token in tokenizer.stop_ids:
            break
        drawn = lane.step(drawn.token, top=top)
    value = {"model": str(engine.inventory.path), "prompt_tokens": ids, "steps": steps}
    out.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _token(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    data = tokenizer.token_bytes(token)
    return {"token": token, "text": data.decode("utf-8", "replace"), "bytes": list(data), "logprob": logprob}
