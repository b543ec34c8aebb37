"""Who writes answers: the renderers of each surface, or their oracle, as the ledger has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from ds4.core import components
from ds4.server.events import Delta
from ds4.server.surfaces.messages_render import MessagesFacts
from ds4.server.surfaces.rendering import AnswerFacts, TokenBytes
from ds4.server.surfaces.responses_answer import ResponseAnswer, ResponseFacts
from ds4.server.surfaces.wire_oracle import OracleResponse, OracleWriting
from ds4.server.surfaces.wire_tapes import Written
from ds4.server.surfaces.writing import Writing


class ResponseWriting(Writing, Protocol):
    """A response can be asked for at any time (`whole`), be cancelled, and be told that it could not be kept."""

    def said(self, event: Delta) -> None: ...
    def cancel(self) -> None: ...
    def not_stored(self) -> None: ...


def writing(
    surface: Literal["chat", "completions", "messages"],
    facts: AnswerFacts | MessagesFacts,
    streamed: bool,
    token_bytes: TokenBytes,
) -> Writing:
    python: Callable[[str, AnswerFacts | MessagesFacts, bool, TokenBytes], Writing] = Written
    make = components.pick("wire", python=python, oracle=OracleWriting)
    return make(surface, facts, streamed, token_bytes)


def responding(facts: ResponseFacts, streamed: bool, token_bytes: TokenBytes) -> ResponseWriting:
    python: Callable[[ResponseFacts, bool, TokenBytes], ResponseWriting] = ResponseAnswer
    make = components.pick("wire", python=python, oracle=OracleResponse)
    return make(facts, streamed, token_bytes)
