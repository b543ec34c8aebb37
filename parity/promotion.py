"""Promote and demote: the two ways in which a component's state changes."""

from __future__ import annotations

from parity import deviations, evidence
from parity.component import Component
from parity.digest import digest
from parity.gate import is_campaign
from parity.ledger import Change, entries, write
from parity.registry import GateError


def promote(component: Component, state: str = "promoted", reason: str = "") -> str:
    """Lets Python decide from now on (or be a candidate). GateError without a campaign about these very files."""
    name = component.name
    if component.native:
        raise GateError("a native component is the engine itself: there is nothing to switch", subject=name)
    now, campaign = digest(component), evidence.kept(name)
    if campaign is None:
        raise GateError(f"no campaign: run ./dev gate campaign {name}", subject=name)
    if campaign.digest != now:
        raise GateError(
            f"its campaign of {campaign.date[:10]} is about other files: run ./dev gate campaign {name}",
            subject=name, expected=now, found=campaign.digest,
        )  # fmt: skip
    if not is_campaign(campaign):
        raise GateError("its campaign is not whole", subject=name)
    expired = [d.id for d in deviations.read() if d.component == name and d.expired]
    if expired:
        raise GateError("a deviation of its has expired", subject=name, expected="none", found=", ".join(expired))
    if state == "candidate":
        write(Change(name, "candidate", reason or _reason(campaign)))
    else:
        write(Change(name, "promoted", reason or _reason(campaign)))
    return f"{name}: {state}"


def _reason(campaign: evidence.Evidence) -> str:
    assert campaign.fuzz is not None and campaign.goldens is not None
    return f"campaign of {campaign.date[:10]}: {campaign.goldens.cases} goldens, {campaign.fuzz.examples} examples"


def demote(component: Component, reason: str) -> str:
    """Lets the oracle decide from now on. Needs a reason, and no evidence: it may be what stops a fire."""
    if component.native:
        raise GateError("a native component is the engine itself: there is nothing to switch", subject=component.name)
    if not reason.strip():
        raise GateError("a demotion needs a reason: --reason TEXT", subject=component.name)
    before = entries().get(component.name)
    write(Change(component.name, "oracle", reason))
    return f"{component.name}: {before.state if before else 'unlisted'} -> oracle"
