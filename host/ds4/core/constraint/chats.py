"""The grammar of a chat's whole answer: what was asked for, with reasoning before it and calls in its place."""

from __future__ import annotations

from ds4.core.chat import Dialect, Prompt
from ds4.core.constraint.grammar import Grammar, after_reasoning, behind, either
from ds4.errors import ConstraintError


def whole_answer(grammar: Grammar, dialect: Dialect, prompt: Prompt, *, may_think: bool = True) -> Grammar:
    """grammar: of the content. may_think: where the model opens reasoning by itself, it may.

    ConstraintError (tools): calls may be made that nothing tells from any JSON.
    """
    if prompt.tools:
        if not dialect.openers:
            raise ConstraintError(
                "this model's tool calls look like any JSON, so an answer has no format beside them", code="tools"
            )
        grammar = either(grammar, behind(dialect.openers))
    if dialect.tags is None:
        return grammar
    opening, close = dialect.tags
    if prompt.thinking:
        return after_reasoning(grammar, close)
    return after_reasoning(grammar, close, opening=opening) if opening and may_think else grammar
