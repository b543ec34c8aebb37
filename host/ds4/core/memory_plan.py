"""How much context for how many banks fits into memory: a pure function, and the lines that explain its answer."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from ds4.core.families import contract_of
from ds4.core.families.cache import KV_TYPES
from ds4.errors import Ds4Error
from ds4.sys.descriptors import GgmlType, HParams

DEFAULT_CTX = 8192  # asked for when nothing is said and the model was trained for at least as much
DEFAULT_BANKS = 4
LEAST_CTX = 256
STEP_CTX = 256  # a chosen context is a multiple of this
WORKING = 192 << 20  # bytes: interpreter, logits, activations, thread stacks
KEEP_FREE = 0.10  # of what is available stays free
PREFILL_WIDTH = 512


class MemoryPlanError(Ds4Error):
    """Context and banks that were asked for do not fit into memory, or nothing does."""

    code = "memory_plan"


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """ctx: positions of one bank. Sizes in bytes. lines: for people, one fact a line."""

    ctx: int
    banks: int
    kv_bytes_per_position: int
    kv_bytes: int
    model_bytes: int
    available: int
    lines: tuple[str, ...]
    floor: int  # bytes that stay free
    wanted_ctx: int  # what the context would be if memory did not matter

    @property
    def explanation(self) -> str:
        return "\n".join(self.lines)


def kv_bytes_per_position(hparams: HParams, kv_type: GgmlType) -> int:
    """Bytes that one further position of one bank takes, as the family has it.

    The engine's own figure is ds4_kv_bytes_per_position; this one serves before the engine is loaded.
    """
    if kv_type not in KV_TYPES:
        names = ", ".join(kind.name for kind in KV_TYPES)
        raise MemoryPlanError("not a type of KV cache", subject="kv_type", expected=names, found=kv_type.name)
    return contract_of(hparams.family).kv_bytes_per_position(hparams, kv_type)


def step_rows(width: int, ctx: int, banks: int) -> int:
    """Most rows of one step of a session: the prefill width, and at least one for each bank."""
    return max(min(width, ctx), banks)


def plan(
    hparams: HParams,
    kv_type: GgmlType,
    model_bytes: int,
    available: int,
    ctx: int | None = None,
    banks: int | None = None,
    width: int = PREFILL_WIDTH,
    floor: int | None = None,
) -> MemoryPlan:
    """Chooses what is not given. model_bytes: size of the mapped weights; available: bytes that may still be taken;
    width: most prompt tokens of one step, which some families' banks have room for besides; floor: bytes that stay
    free, KEEP_FREE of what is available where nothing is said.

    A value that is given is kept. Not given, the context is the model's trained one up to DEFAULT_CTX and the banks
    are DEFAULT_BANKS; if that does not fit, first banks go (down to 1), then context (down to LEAST_CTX). The weights
    are a file mapping that the kernel may drop and read again, yet a model that is being read has to stay in memory
    to be fast, so they count. MemoryPlanError where what was asked for does not fit, with both sizes.
    """
    for name, value in (("ctx", ctx), ("banks", banks)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise MemoryPlanError("out of range", subject=name, expected="an integer, at least 1", found=repr(value))
    if banks is not None and banks > 1024:
        raise MemoryPlanError("out of range", subject="banks", expected="at most 1024", found=banks)
    per_position = kv_bytes_per_position(hparams, kv_type)
    bank_bytes = contract_of(hparams.family).bank_bytes

    def taken(ctx: int, banks: int) -> int:
        return banks * bank_bytes(hparams, kv_type, ctx, step_rows(width, ctx, banks))

    if floor is None:
        floor = available - int(available * (1 - KEEP_FREE))
    room = available - floor - model_bytes - WORKING
    wanted_ctx = min(hparams.n_ctx_train or DEFAULT_CTX, DEFAULT_CTX) if ctx is None else ctx
    chosen_banks = DEFAULT_BANKS if banks is None else banks
    chosen_ctx = wanted_ctx
    if banks is None:
        while chosen_banks > 1 and taken(wanted_ctx, chosen_banks) > room:
            chosen_banks -= 1
    if ctx is None and taken(chosen_ctx, chosen_banks) > room:
        steps = bisect.bisect_right(
            range(1, wanted_ctx // STEP_CTX + 1), room, key=lambda n: taken(n * STEP_CTX, chosen_banks)
        )
        chosen_ctx = max(min(LEAST_CTX, wanted_ctx), steps * STEP_CTX)
    kv_bytes = taken(chosen_ctx, chosen_banks)
    if kv_bytes > room:
        raise MemoryPlanError(
            f"{chosen_banks} x {chosen_ctx} positions do not fit into memory",
            subject="memory",
            expected=f"at most {_mib(available)} in all, of which {_mib(floor)} stay free",
            found=f"{_mib(model_bytes)} of weights + {_mib(kv_bytes)} of KV cache + {_mib(WORKING)} of working memory",
        )
    fixed = kv_bytes // chosen_banks - per_position * chosen_ctx
    besides = f", {_mib(fixed)} a bank besides" if fixed > 0 else ""
    lines = [
        f"memory: {_mib(available)} available, {_mib(model_bytes)} of weights",
        f"context: {chosen_ctx} positions ({_why(ctx, chosen_ctx, wanted_ctx, hparams.n_ctx_train)})",
        f"banks: {chosen_banks} ({_why_banks(banks, chosen_banks)})",
        f"KV cache: {_mib(kv_bytes)} when full ({kv_type.name}, {per_position} bytes a position{besides})",
    ]
    if hparams.n_ctx_train and chosen_ctx > hparams.n_ctx_train:
        lines.append(f"warning: the model was trained for {hparams.n_ctx_train} positions")
    return MemoryPlan(
        chosen_ctx, chosen_banks, per_position, kv_bytes, model_bytes, available, tuple(lines), floor, wanted_ctx
    )


def _why(asked: int | None, chosen: int, wanted: int, trained: int) -> str:
    if asked is not None:
        return "as asked"
    if chosen < wanted:
        return f"what fits; the default would be {wanted}"
    return "as trained" if chosen == trained else f"default; the model was trained for {trained}"


def _why_banks(asked: int | None, chosen: int) -> str:
    if asked is not None:
        return "as asked"
    return "default" if chosen == DEFAULT_BANKS else f"what fits; the default would be {DEFAULT_BANKS}"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
