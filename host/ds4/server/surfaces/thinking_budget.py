"""How many tokens an answer may think for, under the names in use."""

from __future__ import annotations

from ds4.core.chat import Dialect
from ds4.core.constraint.budget import Budget
from ds4.core.tokenizer import Tokenizer
from ds4.server import limits
from ds4.server.request import Body


def read_thought(body: Body) -> int | None:
    """`thinking.budget_tokens` of Messages, and as extensions everywhere `thinking_budget` and `reasoning.max_tokens`;
    the least, if there are several. None: the model thinks for as long as it likes."""
    places = [(body, "thinking_budget")]
    if isinstance(body.get("thinking"), dict):
        places.append((body.nested("thinking"), "budget_tokens"))
    if isinstance(body.get("reasoning"), dict):
        places.append((body.nested("reasoning"), "max_tokens"))
    given = [
        most
        for holder, name in places
        if (most := holder.integer(name, 0, limits.LARGEST_COUNT, clamp=True)) is not None
    ]
    return min(given) if given else None


def budget_of(thought: int | None, dialect: Dialect, tokenizer: Tokenizer) -> Budget | None:
    """How a model is held to it. One that is larger than the answer may be is no error: it is never used up."""
    if thought is None or dialect.tags is None:
        return None
    close = dialect.tags[1]
    token = tokenizer.special_tokens.get(close)
    ids = tokenizer.continuation(close) if token is None else [token]
    return Budget(thought, tuple(ids), tokenizer.n_vocab)
