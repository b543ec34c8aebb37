"""`ledger`: what a bank holds, and the plan that makes it hold a prompt."""

from __future__ import annotations

import random
from collections.abc import Callable

from ds4.core.ledger import SessionLedger, SyncPlan
from ds4.core.tapes.ledger import LARGEST, LedgerInput, Op, by_tape, step, write_input

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

NUMBERS = (0, 1, 2, 3, -1, 7, 100, LARGEST, LARGEST + 1, -(1 << 63), (1 << 63) - 1)


def tape(data: bytes, events: int = 30, longest: int = 24) -> bytes:
    """A tape out of bytes. A ledger follows it, so that prompts continue what is held and commits carry real plans."""
    choices = Choices(data)
    ctx = choices.of((longest, longest, 1, 2, 3, longest // 2, LARGEST))
    ledger, ops = SessionLedger(ctx), list[Op]()

    def do(op: Op) -> object:
        ops.append(op)
        return step(ledger, op)

    while choices.left and len(ops) < events:
        kind = choices.below(32)
        if kind < 12:
            prompt = _prompt(choices, ledger, longest)
            plan = do(Op("plan", (), prompt))
            if isinstance(plan, SyncPlan) and choices.below(8):
                _follow(choices, do, plan, prompt)
        elif kind < 18:
            do(Op("append", (choices.below(3),)))
        elif kind < 20:
            do(Op("rewind", (choices.below(len(ledger) + 2),)))
        elif kind == 20:
            do(Op("rewind", (choices.of(NUMBERS),)))
        elif kind < 23:
            do(Op("invalidate"))
        elif kind < 25:
            do(Op("adopt", (), _prompt(choices, ledger, longest)))
        elif kind < 27:
            do(Op("tokens"))
        elif kind < 30:
            numbers = (abs(choices.of(NUMBERS)) & LARGEST, choices.below(2), choices.of(NUMBERS))
            do(Op("commit", numbers, _prompt(choices, ledger, longest)))
        else:
            do(Op("extend", (choices.of(NUMBERS),), _prompt(choices, ledger, longest)))
    return write_input(LedgerInput(ctx, (*ops, Op("tokens"))))


def _prompt(choices: Choices, ledger: SessionLedger, longest: int) -> tuple[int, ...]:
    """Some of what is held, and a few tokens more; seldom one of the largest."""
    held = ledger.tokens
    keep = len(held) if choices.below(3) else choices.below(len(held) + 1)
    more = [choices.below(3) for _ in range(choices.below(6))]
    if choices.once_in(32):
        more.append(LARGEST)
    if choices.once_in(16):
        more += [0] * longest
    return (*held[:keep], *more)


def _follow(choices: Choices, do: Callable[[Op], object], plan: SyncPlan, prompt: tuple[int, ...]) -> None:
    """Carries a plan out in one go or in chunks, as a session does."""
    upto = len(prompt) if choices.below(3) else plan.start + choices.below(len(prompt) - plan.start + 1)
    do(Op("commit", (plan.start, int(plan.bump), upto), prompt))
    while upto < len(prompt) and choices.below(4):
        upto += 1 + choices.below(len(prompt) - upto)
        do(Op("extend", (upto,), prompt))


def soak(rng: random.Random) -> bytes:
    return tape(rng.randbytes(1 << 14), 3000, 600)


def _turn() -> tuple[Callable[[], object], bytes]:
    """The next turn of a conversation of 4,000 tokens: planned, and committed in chunks of 512."""
    held = [(i * 7919) % 49152 for i in range(4000)]
    prompt = [*held[:3990], *range(600)]
    ops = [Op("adopt", (), tuple(held)), Op("plan", (), tuple(prompt)), Op("commit", (3990, 1, 4102), tuple(prompt))]
    ledger = SessionLedger(8192)

    def turn() -> object:
        ledger.adopt(held)
        plan = ledger.plan(prompt)
        ledger.commit(prompt, plan, 4102)
        ledger.commit(prompt)
        return plan

    return turn, write_input(LedgerInput(8192, (*ops, Op("extend", (4590,), tuple(prompt)))))


COMPONENT = Component(
    name="ledger",
    about="which tokens a bank holds, and how much of it a prompt keeps",
    axes=("token", "kv", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=16, most=120),
    soak=soak,
    speed=Speed(_turn),
    sources=(
        "host/ds4/core/ledger.py",
        "host/ds4/core/tapes/ledger.py",
        "oracles/ledger/*",
        "parity/components/ledger.py",
        "parity/choices.py",
        "goldens/ledger/*",
    ),
)
