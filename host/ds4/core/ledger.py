"""Which tokens a bank holds, and what it takes to make it hold a prompt. Pure: nothing here touches the engine.

The ledger commits only after the engine has done what the plan says, so a failed or cancelled step leaves it true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ds4.errors import ContextLengthError, Ds4Error


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """How to come from the bank's tokens to a prompt.

    start: positions kept; the prompt's tokens from there on are to be evaluated. Always less than the prompt's
        length, so that the last token is evaluated and yields logits.
    rebuild: nothing is kept. bump: the timeline changes, so the generation grows when the plan is committed.
    """

    start: int
    rebuild: bool
    bump: bool


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    limit = min(len(left), len(right))
    if left[:limit] == right[:limit]:
        return limit
    low, high = 0, limit  # left[:low] equals right[:low]; left[:high] does not
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


class SessionLedger:
    """The committed tokens of one timeline.

    tokens: what the bank holds, position by position. valid: whether that is known; an invalid ledger rebuilds.
    generation: starts at 1 and grows whenever committed positions stop being a prefix of what follows, so whoever
    holds
        a (generation, length) pair can tell whether it still names a prefix of the bank.
    """

    def __init__(self, ctx: int) -> None:
        if ctx < 1:
            raise ValueError(f"a context of {ctx} positions")
        self.ctx = ctx
        self._tokens: list[int] = []
        self.valid = True
        self.generation = 1

    @property
    def tokens(self) -> list[int]:
        """A copy of the committed tokens."""
        return self._tokens.copy()

    def __len__(self) -> int:
        return len(self._tokens)

    def plan(self, prompt: Sequence[int]) -> SyncPlan:
        """The plan for a prompt of 1..ctx tokens. ContextLengthError for a longer one, naming both numbers.

        For the llama family any prefix can be kept: the bank is cut back to the common prefix, or one less where the
        bank holds the whole prompt, as its last token has to be evaluated for its logits.
        """
        if not prompt:
            raise Ds4Error("an empty prompt", code="prompt_empty")
        if len(prompt) > self.ctx:
            limit = f"at most {self.ctx} tokens"
            raise ContextLengthError("the prompt does not fit", expected=limit, found=len(prompt))
        if not self.valid:
            return SyncPlan(0, True, True)
        prompt = prompt if isinstance(prompt, list) else list(prompt)
        start = min(common_prefix(self._tokens, prompt), len(prompt) - 1)
        return SyncPlan(start, start == 0, start < len(self._tokens))

    def commit(self, prompt: Sequence[int], plan: SyncPlan | None = None, upto: int | None = None) -> None:
        """Records that the bank now holds prompt[:upto]. plan: the plan that led there, with its bump; None: the
        prompt extends what is there. What is kept is not compared with the prompt.

        Ds4Error (commit_range) if upto is less than what is kept or more than the prompt has, ContextLengthError if it
        is more than the context; nothing has changed then.
        """
        end = len(prompt) if upto is None else upto
        kept = len(self._tokens) if plan is None else min(plan.start, len(self._tokens))
        if not kept <= end <= len(prompt):
            expected, subject = f"{kept}..{len(prompt)} tokens", "commit"
            raise Ds4Error("out of range", subject=subject, expected=expected, found=end, code="commit_range")
        if end > self.ctx:
            raise ContextLengthError("the prompt does not fit", expected=f"at most {self.ctx} tokens", found=end)
        if plan is not None:
            self.generation += plan.bump
            del self._tokens[kept:]
        self._tokens.extend(islice(prompt, kept, end))
        self.valid = True

    def append(self, token: int) -> None:
        """Records one more evaluated token."""
        if len(self._tokens) >= self.ctx:
            raise ContextLengthError("the context is full", expected=f"at most {self.ctx} tokens", found=self.ctx + 1)
        self._tokens.append(token)

    def rewind(self, length: int) -> int:
        """Forgets positions length and on (clamped to what is there); returns the new length."""
        length = max(0, min(length, len(self._tokens)))
        if length < len(self._tokens):
            del self._tokens[length:]
            self.generation += 1
        return length

    def invalidate(self) -> None:
        """Forgets everything: what the bank holds is no longer known."""
        self._tokens.clear()
        self.valid = False
        self.generation += 1

    def adopt(self, tokens: Sequence[int]) -> None:
        """Takes the tokens of a restored snapshot."""
        if len(tokens) > self.ctx:
            raise ContextLengthError("the snapshot does not fit", expected=f"at most {self.ctx}", found=len(tokens))
        self._tokens = list(tokens)
        self.valid = True
        self.generation += 1
