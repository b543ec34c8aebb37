"""One way of running a model, measured: logits on texts, perplexity, and tool calls of greedy answers."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ds4.core import bind, inventory
from ds4.core.tokenizer import Tokenizer
from ds4.sys.descriptors import GgmlType, Numeric, Rounding, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row

Array = npt.NDArray[Any]
HERE = pathlib.Path(__file__).parent
WIDTH = 128
BANKS = 16
MOST = 260  # tokens of an answer


@dataclass(frozen=True)
class Way:
    """How a model is run. rounding: the points that are imitated."""

    name: str
    numeric: Numeric = Numeric.FLOAT
    rounding: Rounding = Rounding(0)
    kv: GgmlType = GgmlType.F32


FLOAT = Way("float")
WAYS = (
    FLOAT,
    Way("kv fp8", rounding=Rounding.KV_FP8),
    Way("indexer hadamard+fp4", rounding=Rounding.INDEX_FP4),
    Way("kv f16", kv=GgmlType.F16),
    Way("kv q8_0", kv=GgmlType.Q8_0),
    Way("int8 activations", numeric=Numeric.SHIP),
    Way("shipping", Numeric.SHIP, Rounding.KV_FP8 | Rounding.INDEX_FP4, GgmlType.F16),
)


@dataclass(frozen=True)
class Text:
    """scored: of each token, whether its prediction counts towards the perplexity."""

    kind: str
    ids: list[int]
    scored: list[bool]


@contextmanager
def opened(path: pathlib.Path, way: Way, ctx: int, banks: int = 1) -> Iterator[NativeSession]:
    model = NativeModel.open(bind.plan(inventory.load(path)).desc())
    desc = SessionDesc(
        n_banks=banks,
        n_ctx=ctx,
        max_rows=WIDTH,
        max_out=WIDTH,
        n_threads=2,
        numeric=way.numeric,
        kv_type=way.kv,
        rounding=Rounding.CHOSEN | way.rounding,
    )
    session = NativeSession(model, desc)
    try:
        yield session
    finally:
        session.close()
        model.close()


def logits(session: NativeSession, ids: Sequence[int]) -> Array:
    """fp32 [T, vocabulary]."""
    session.truncate(0, 0)
    out = []
    for at in range(0, len(ids), WIDTH):
        rows = [Row(0, at + i, token, logits=True) for i, token in enumerate(ids[at : at + WIDTH])]
        result = session.wait(session.submit(rows))
        out += [np.asarray(result.logits(i), np.float32) for i in range(len(rows))]
    return np.stack(out)


def log_softmax(x: Array) -> Array:
    wide = x.astype(np.float64)
    wide -= wide.max(1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(1, keepdims=True)))


@dataclass
class Distance:
    """Of one way from another: mean KL divergence in nats, and the share of positions with the same likeliest token."""

    kl: float
    same: float


def distance(wanted: Array, found: Array) -> Distance:
    """Both log-probabilities [T, vocabulary]."""
    kl = (np.exp(wanted) * (wanted - found)).sum(1).mean()
    return Distance(float(kl), float((wanted.argmax(1) == found.argmax(1)).mean()))


def perplexities(texts: Sequence[Text], predicted: Sequence[Array]) -> dict[str, float]:
    """By kind. predicted: log-probabilities of each text."""
    out = {}
    for kind in sorted({text.kind for text in texts}):
        losses = [
            -p[i - 1, text.ids[i]]
            for text, p in zip(texts, predicted, strict=True)
            if text.kind == kind
            for i in range(1, len(text.ids))
            if text.scored[i]
        ]
        out[kind] = float(np.exp(np.mean(losses)))
    return out


def chats(tokenizer: Tokenizer) -> list[Text]:
    """Conversations that the miniature was not trained on: what the assistant says counts, or what everybody does."""
    texts = []
    for line in (HERE / "chats.jsonl").read_text(encoding="utf-8").splitlines():
        ids: list[int] = []
        said: list[bool] = []
        for text, assistant in json.loads(line)["segments"]:
            new = tokenizer.encode(text, special=True)
            ids += new
            said += [assistant] * len(new)
        texts += [Text("assistant", ids, said), Text("chat", ids, [True] * len(ids))]
    return texts


def answers(session: NativeSession, prompts: Sequence[list[int]], end: int) -> list[list[int]]:
    """Greedy answers, a bank each, up to the end token or MOST tokens."""
    out: list[list[int]] = [[] for _ in prompts]
    for bank, prompt in enumerate(prompts):
        session.truncate(bank, 0)
        for at in range(0, len(prompt), WIDTH):
            piece = prompt[at : at + WIDTH]
            rows = [Row(bank, at + i, t, output=at + i == len(prompt) - 1) for i, t in enumerate(piece)]
            result = session.wait(session.submit(rows))
        out[bank].append(result.tokens[-1])
    while live := [bank for bank, answer in enumerate(out) if answer[-1] != end and len(answer) < MOST]:
        result = session.wait(
            session.submit([Row(bank, session.length(bank), out[bank][-1], output=True) for bank in live])
        )
        for row, bank in enumerate(live):
            out[bank].append(result.tokens[row])
    return out


def exact_calls(path: pathlib.Path, way: Way, tokenizer: Tokenizer, count: int) -> tuple[int, int]:
    """How many of the first `count` prompts are answered with exactly the calls that are wanted, to the character; and
    how many there are."""
    lines = (HERE / "tools.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    records = [json.loads(line) for line in lines]
    right = 0
    with opened(path, way, 1024, BANKS) as session:
        for at in range(0, len(records), BANKS):
            some = records[at : at + BANKS]
            prompts = [tokenizer.encode(record["prompt"], special=True) for record in some]
            for record, answer in zip(some, answers(session, prompts, 1), strict=True):
                right += calls(tokenizer.decode(answer)) == calls(record["want"])
    return right, len(records)


def calls(answer: str) -> str:
    """The block of tool calls of an answer, behind its reasoning; "" without one."""
    said = answer.rpartition("</think>")[2]
    start, end = said.find("<｜DSML｜tool_calls>"), said.find("</｜DSML｜tool_calls>")
    return said[start:end] if 0 <= start < end else ""
