"""The banks as a person may see them: which one works for an answer, which one holds a conversation, which is empty."""

from __future__ import annotations

from typing import Any

from ds4.server.schedule.banks import Bank


def bank_map(banks: list[Bank]) -> list[dict[str, Any]]:
    """One object a bank: index; state, busy, warm or free; tokens held; owner, null or the answer's number with its
    prompt's tokens and those drawn. Read beside the engine, which may be a step further in one bank than in another."""
    return [_bank(bank) for bank in banks]


def _bank(bank: Bank) -> dict[str, Any]:
    owner = bank.owner
    tokens = len(bank.tokens)
    state = "busy" if owner is not None or bank.open else "warm" if tokens else "free"
    told = None if owner is None else {"answer": owner.key, "prompt": len(owner.prompt), "drawn": len(owner.drawn)}
    return {"index": bank.index, "state": state, "tokens": tokens, "owner": told}
