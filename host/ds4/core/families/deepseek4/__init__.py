"""The `deepseek4` family: DeepSeek V4 Flash and PRO. Every dimension comes from the file.

Attention over a window of raw rows and compressed older ones, residuals in several streams that mix at each sub-layer,
routed experts, and optionally a block that drafts one token ahead (MTP). keys: the metadata; tensors: what must stand
in the file; mtp: where the drafting block's tensors are found, and joining a file that holds nothing else; cache: what
a bank takes.

Sources: the published key and tensor names of llama.cpp's converter and loader for this architecture, the layout of the
files published for ds4, and DeepSeek's own configuration of the two models.
"""

from __future__ import annotations

from collections.abc import Iterator

from ds4.core.families.contract import Lane, PromptFacts, SlotSpec, State, note_unknown
from ds4.core.families.deepseek4 import tensors
from ds4.core.families.deepseek4.cache import bank_bytes, kv_bytes_per_position
from ds4.core.families.deepseek4.keys import ARCHITECTURE, Config, validate
from ds4.core.families.deepseek4.mtp import attach, catalog
from ds4.sys.descriptors import Family, HParams, Role

__all__ = [
    "ARCHITECTURE",
    "FAMILY",
    "LANES",
    "PROMPT",
    "STATE",
    "attach",
    "bank_bytes",
    "catalog",
    "hparams",
    "ignorable",
    "kv_bytes_per_position",
    "notes",
    "required",
    "slots",
    "unknown",
    "validate",
]

FAMILY = Family.DEEPSEEK4
LANES = frozenset(Lane)
STATE = State.ROLLING
PROMPT = PromptFacts(
    pre=frozenset({"joyai-llm", "deepseek-v3"}),
    markup=(
        "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<think>",
        "</think>",
        "｜DSML｜",
    ),
    encoder="dsv4",
    stops=("<｜end▁of▁sentence｜>",),
)


def slots(config: Config) -> list[SlotSpec]:
    """Embedding, layers in order, the head, then the drafting block."""
    return tensors.slots(config.hparams, config.mtp)


def hparams(config: Config) -> HParams:
    return config.hparams


def required(hparams: HParams) -> Iterator[tuple[Role, int]]:
    """The two ways to project the drafting block's inputs exclude each other, so neither is named here."""
    return ((spec.role, spec.layer) for spec in tensors.slots(hparams, None) if spec.required)


def unknown(config: Config) -> tuple[str, ...]:
    return config.unknown_keys


def notes(config: Config) -> tuple[str, ...]:
    return (*config.notes, *(note_unknown(key) for key in config.unknown_keys))


def ignorable(name: str) -> bool:
    return tensors.IGNORABLE.fullmatch(name) is not None
