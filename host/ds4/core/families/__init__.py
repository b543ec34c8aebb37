"""The model families that this host knows: an enum (`ds4.sys.descriptors.Family`), dispatched directly."""

from __future__ import annotations

from ds4.core.cursor import shown
from ds4.core.families import deepseek4, gemma3, llama, qwen2, qwen3, qwen3moe, smollm3
from ds4.core.families.contract import FamilyContract, Lane, PromptFacts, SlotSpec, State
from ds4.errors import UnsupportedModelError
from ds4.sys.descriptors import Family

__all__ = [
    "ALL",
    "ARCHITECTURES",
    "FamilyContract",
    "Lane",
    "PromptFacts",
    "SlotSpec",
    "State",
    "contract",
    "contract_of",
]

_KIN = (llama, smollm3, qwen2, qwen3, qwen3moe, gemma3)
_DEEPSEEK4: FamilyContract = deepseek4
ALL: tuple[FamilyContract, ...] = (*(family.CONTRACT for family in _KIN), _DEEPSEEK4)
_CONTRACTS = {family.ARCHITECTURE: family for family in ALL}
_BY_FAMILY = {family.FAMILY: family for family in ALL}

ARCHITECTURES: tuple[str, ...] = tuple(_CONTRACTS)
"""The values of `general.architecture` that can be served."""


def contract(architecture: str) -> FamilyContract:
    """The contract for a value of `general.architecture`. Raises UnsupportedModelError listing the supported ones."""
    found = _CONTRACTS.get(architecture)
    if found is None:
        raise UnsupportedModelError(
            "this architecture is not supported",
            code="unsupported_architecture",
            subject="general.architecture",
            expected=" or ".join(ARCHITECTURES),
            found=shown(architecture),
        )
    return found


def contract_of(family: Family) -> FamilyContract:
    """The contract of a family."""
    return _BY_FAMILY[family]
