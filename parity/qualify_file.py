"""The checks that any model file can be put through: it is bound and opened, its banks keep state, and it is served."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import numpy.typing as npt
from ds4.core import bind, inventory
from ds4.errors import Ds4Error
from ds4.sys.descriptors import GgmlType, Numeric, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row

from parity.live.process import Failure, LiveServer, serving
from parity.live.streams import SURFACES, listen
from parity.proof import Claim

FAILURES = (Ds4Error, Failure, httpx.HTTPError, OSError)
MODES = ((Numeric.SHIP, GgmlType.F16), (Numeric.FLOAT, GgmlType.F32))
STATE_CONTEXT, STATE_BANKS, FURTHER, CHUNK = 256, 3, 16, 64
SERVED_CONTEXT, SERVED_BANKS, ANSWER = 2048, 4, 12


def family_of(path: Path) -> str:
    return inventory.load(path).metadata.string("general.architecture")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[bind.BindPlan, NativeModel]]:
    plan = bind.plan(inventory.load(path))
    native = NativeModel.open(plan.desc())
    try:
        bind.match(plan, native.slots())
        yield plan, native
    finally:
        native.close()


def loader(path: Path) -> list[Claim]:
    """Every tensor that the engine asks for is found, of a type and shape that it takes, and read to its end."""
    with _opened(path) as (plan, native):
        native.warm()
        what = f"{len(native.slots())} tensors bound and read"
        if plan.unknown:
            what += f", {len(plan.unknown)} unknown ones left alone"
    return [Claim("loader", family_of(path), what, artifact=str(path))]


def state(path: Path) -> list[Claim]:
    """What a snapshot, a copy and a rewind go on with is, to the bit, what the bank itself would have gone on with."""
    claims = []
    with _opened(path) as (plan, native):
        context = min(STATE_CONTEXT, plan.hparams.n_ctx_train or STATE_CONTEXT)
        tokens = [1 + (37 * i + 11) % (native.hparams.n_vocab - 1) for i in range(context)]
        for numeric, kv in MODES:
            desc = SessionDesc(STATE_BANKS, context, CHUNK, STATE_BANKS, 2, numeric=numeric, kv_type=kv)
            session = NativeSession(native, desc)
            try:
                _goes_on(session, tokens)
            finally:
                session.close()
            claims.append(Claim(
                "state", family_of(path), "a snapshot, a copy and a rewind go on to the bit", artifact=str(path),
                numeric=numeric.name.lower(), kv=kv.name.lower(), context=context, banks=STATE_BANKS,
            ))  # fmt: skip
    return claims


def _goes_on(session: NativeSession, tokens: list[int]) -> None:
    kept = len(tokens) - FURTHER
    for at in range(0, kept, CHUNK):
        session.wait(session.submit([Row(0, p, tokens[p]) for p in range(at, min(at + CHUNK, kept))]))
    snapshot = bytes(session.snapshot(0))
    session.copy(0, 1, kept)
    expected = _rest(session, 0, tokens, kept)
    if not np.isfinite(expected).all():
        raise Failure("logits that are no numbers")
    session.restore(2, snapshot)
    session.truncate(0, max(kept, session.rewind_floor(0)))
    for bank, what in ((1, "a copy"), (2, "a snapshot"), (0, "a rewind")):
        start = session.length(bank)
        if not np.array_equal(_rest(session, bank, tokens, start), expected[start - kept :]):
            raise Failure(f"{what} goes on with other logits")


def _rest(session: NativeSession, bank: int, tokens: list[int], start: int) -> npt.NDArray[np.float32]:
    """Logits [n, vocabulary] of the tokens from start on, one a step."""
    out = []
    for position in range(start, len(tokens)):
        result = session.wait(session.submit([Row(bank, position, tokens[position], logits=True)]))
        out.append(np.array(result.logits(0), np.float32))
    return np.stack(out)


def api(path: Path) -> list[Claim]:
    """A server on this file answers on each of the four surfaces, streamed in as many banks at once and buffered, and
    takes a prompt that fills a bank."""
    files = inventory.load(path)
    context = min(SERVED_CONTEXT, bind.plan(files).hparams.n_ctx_train or SERVED_CONTEXT)
    with tempfile.TemporaryDirectory() as folder:
        options = ["-m", str(path), "-c", str(context), "--max-seqs", str(SERVED_BANKS)]
        with serving(options, Path(folder, "log")) as server:
            asyncio.run(_talk(server, context))
    what = f"{', '.join(SURFACES)}: streamed and buffered, and a prompt that fills a bank"
    return [Claim(
        "api", family_of(path), what, artifact=str(path), numeric="ship", kv="f16", context=context, banks=SERVED_BANKS
    )]  # fmt: skip


async def _talk(server: LiveServer, context: int) -> None:
    async with httpx.AsyncClient(base_url=server.base, timeout=600) as client:
        bodies = {name: surface.body("Tell me about the sea.", ANSWER) for name, surface in SURFACES.items()}
        heard = await asyncio.gather(*(listen(client, SURFACES[name].path, body) for name, body in bodies.items()))
        for name, one in zip(bodies, heard, strict=True):
            SURFACES[name].check(one)
        for name, body in bodies.items():
            body.pop("stream_options", None)
            answer = await client.post(SURFACES[name].path, json=body)
            if answer.status_code != 200:
                raise Failure(f"{name}: expected 200, found {answer.status_code}: {answer.text[:200]}")
        prompt = [1 + i % 50 for i in range(context - ANSWER)]
        full = {"model": "any", "prompt": prompt, "max_tokens": ANSWER, "ignore_eos": True}
        answer = await client.post("/v1/completions", json=full)
        used = answer.json().get("usage", {}) if answer.status_code == 200 else {}
        if used.get("total_tokens") != context:
            raise Failure(f"a prompt that fills a bank: expected {context} tokens, found {answer.text[:200]}")


CHECKS: dict[str, Callable[[Path], list[Claim]]] = {
    "parity/qualify_file.py: loader": loader,
    "parity/qualify_file.py: state": state,
    "parity/qualify_file.py: api": api,
}
