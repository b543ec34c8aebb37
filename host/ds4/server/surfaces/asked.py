"""A request as it was read, whatever surface it came through, before a prompt is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ds4.core.chat import ChatRequest, Dialect
from ds4.core.sampling import Sampling
from ds4.server.constraints import Format, told_of
from ds4.server.request import Options
from ds4.server.service import Served
from ds4.server.surfaces.responses_tools import Tools

Surface = Literal["chat", "completions", "messages", "responses"]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What of the served model requests are read by. chats: it has a dialect. cache: prompts are kept by default."""

    name: str
    n_vocab: int
    chats: bool = True
    thinks: bool = False
    cache: bool = True
    defaults: Sampling = field(default_factory=Sampling)


def model_of(served: Served) -> ModelFacts:
    dialect = served.prompts.known
    return ModelFacts(
        name=served.model_id,
        n_vocab=served.tokenizer.n_vocab,
        chats=dialect is not None,
        thinks=dialect is not None and dialect.thinks,
        cache=served.cache_prompt,
        defaults=served.defaults,
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """Of a Messages request. caches: the client marks what it wants cached, so usage tells what was written. hides:
    thinking is not shown. warms: the prompt is computed and kept, and there is no answer."""

    caches: bool
    hides: bool
    warms: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """Of a Responses request. items: its own. whole: they are the whole conversation; else earlier responses or
    references complete it, and the chat has no messages yet. head: what the response says about its request."""

    previous: str | None
    store: bool
    background: bool
    summary: bool
    sealed: bool
    parallel: bool
    items: list[dict[str, Any]]
    whole: bool
    tools: Tools
    head: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """chat: of all but completions, which have prompts, texts or token ids. options: budget and cache included; n
    counts on chat and completions only. logprobs: None, or how many alternatives to tell. format: what answers are held
    to. thought: how many tokens may be spent on thinking."""

    options: Options
    logprobs: int | None = None
    chat: ChatRequest | None = None
    prompts: list[str | list[int]] = field(default_factory=list)
    shown: Shown | None = None
    kept: Kept | None = None
    format: Format | None = None
    thought: int | None = None

    def chat_for(self, dialect: Dialect) -> ChatRequest:
        """The chat as this dialect is given it."""
        assert self.chat is not None
        return told_of(self.chat, self.format, dialect)

    @property
    def formatted_by(self) -> str | None:
        """The field that asks for the format."""
        return None if self.format is None else self.format.param
