"""What a serving plan says about itself: the memory it will take, what is worth a second look, and whether it is the
plan that somebody expects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ds4.core.memgov import Account, Lease, Verdict
from ds4.core.memory_plan import DEFAULT_BANKS, WORKING, MemoryPlan
from ds4.core.tapes.memgov import decide
from ds4.errors import SettingsError

VOLATILE = ("memory", "qualified", "quote", "issues", "settings")
"""Parts of a plan that are not compared: how much memory is free differs from one minute to the next, what has been
verified since is not what is served, and settings say how a plan came about (where it is expected, too), which
`requested` and `effective` tell without that."""


@dataclass(frozen=True, slots=True)
class Issue:
    """note: worth knowing; warning: not as one might think; error: nothing can be served so."""

    level: Literal["note", "warning", "error"]
    code: str
    message: str

    def json(self) -> dict[str, str]:
        return {"level": self.level, "code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Quote:
    """Bytes by class, and the governor's verdict over them."""

    available: int
    floor: int
    weights: int
    banks: int
    per_bank: int
    scratch: int
    verdict: Verdict

    def json(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "available": self.available,
            "floor": self.floor,
            "weights": self.weights,
            "kv": {"banks": self.banks, "per_bank": self.per_bank, "bytes": self.banks * self.per_bank},
            "scratch": self.scratch,
            "required": verdict.required,
            "verdict": verdict.word,
            "deficit": verdict.deficit,
        }


def quote(memory: MemoryPlan) -> Quote:
    """What the plan takes, judged by the memory governor: the weights and working memory are promised, banks asked."""
    account = Account(
        floor=memory.floor,
        substrate=WORKING,
        observation=memory.available,
        leases={0: Lease("boot", memory.model_bytes, 0)},
    )
    verdict = decide(account, 1, Lease("banks", memory.kv_bytes, 0))
    per_bank = memory.kv_bytes // memory.banks
    return Quote(memory.available, memory.floor, memory.model_bytes, memory.banks, per_bank, WORKING, verdict)


def issues(memory: MemoryPlan, asked: Mapping[str, Any], trained: int) -> list[Issue]:
    """asked: ctx and max_seqs as they were given, None where nothing was."""
    found = []
    if asked["max_seqs"] is None and memory.banks < DEFAULT_BANKS:
        found.append(
            Issue("warning", "banks_narrowed", f"memory allows {memory.banks} bank(s); the default is {DEFAULT_BANKS}")
        )
    if asked["ctx"] is None and memory.ctx < memory.wanted_ctx:
        message = f"memory allows {memory.ctx} positions a bank; the default would be {memory.wanted_ctx}"
        found.append(Issue("warning", "context_narrowed", message))
    if trained and memory.ctx > trained:
        message = f"{memory.ctx} positions a bank; the model was trained for {trained}"
        found.append(Issue("warning", "context_untrained", message))
    if memory.banks == 1:
        message = "one bank: requests are answered one after another, and side work evicts the conversation"
        found.append(Issue("note", "one_bank", message))
    return found


def expected(path: Path, plan: Mapping[str, Any]) -> None:
    """SettingsError naming every key of a plan's file that this plan has otherwise. Keys that the file leaves out, and
    what differs from minute to minute, are not looked at."""
    try:
        wanted = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise SettingsError("holds no plan", subject=f"--expect-plan {path}", found="JSON nested too deep") from None
    except OSError as error:
        raise SettingsError(f"cannot read it: {error.strerror}", subject=f"--expect-plan {path}") from None
    except ValueError as error:
        raise SettingsError(f"holds no plan: {error}", subject=f"--expect-plan {path}", expected="JSON") from None
    if not isinstance(wanted, dict):
        raise SettingsError("holds no plan", subject=f"--expect-plan {path}", expected="a JSON object")
    stable = {key: value for key, value in wanted.items() if key not in VOLATILE}
    if not stable:
        raise SettingsError("holds nothing to compare", subject=f"--expect-plan {path}", expected="a plan's keys")
    if differing := list(_differences(stable, plan, "")):
        raise SettingsError("another plan: " + "; ".join(differing), subject=f"--expect-plan {path}")


def _differences(wanted: Mapping[str, Any], found: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in wanted.items():
        name = f"{path}.{key}" if path else key
        if key not in found:
            yield f"{name}: expected {json.dumps(value)}, found nothing"
        elif isinstance(value, dict) and isinstance(found[key], dict):
            yield from _differences(value, cast("dict[str, Any]", found[key]), name)
        elif value != found[key]:
            yield f"{name}: expected {json.dumps(value)}, found {json.dumps(found[key])}"
