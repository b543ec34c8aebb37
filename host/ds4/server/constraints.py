"""What an answer is to look like: the fields that ask for it, on every surface, and the grammar that comes of them.

    chat, completions   response_format: {"type": "text" | "json_object" | "json_schema", "json_schema": {...}}
    responses           text.format:     {"type": "text" | "json_object" | "json_schema", "schema": {...}}
    messages            output_config.format, output_format: {"type": "json_schema", "schema": {...}}
    all                 grammar: Lark text;   regex: a pattern

One of them at most; null asks for nothing. Whatever cannot be used is a 400, before the engine hears of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from ds4.core.chat import ChatRequest, Dialect, Prompt
from ds4.core.constraint import grammar as grammars
from ds4.core.constraint.grammar import Grammar
from ds4.core.constraint.matcher import Vocabulary
from ds4.core.output.grammar.rules import ToolRules, any_calls
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ConstraintError
from ds4.server.errors import TurnedAway, from_error, invalid
from ds4.server.grammar_pool import GrammarPool
from ds4.server.request import Body, GenerationRequest

T = TypeVar("T")

_MAX_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class Format:
    """param: the field that asks. build: makes the grammar of its answers; slow enough to be called off the event loop.
    told: what a dialect that tells its model of the format is given. source: what the grammar is built of."""

    param: str
    build: Callable[[], Grammar]
    told: Any = None
    source: Any = None


def openai_format(body: Body) -> Format | None:
    """Of chat completions and completions."""
    wanted = body.nested("response_format")
    return _one(body, _typed(wanted, wanted.nested("json_schema")))


def responses_format(body: Body) -> Format | None:
    wanted = body.nested("text").nested("format")
    return _one(body, _typed(wanted, wanted))


def messages_format(body: Body) -> Format | None:
    places = [body.nested("output_config").nested("format"), body.nested("output_format")]
    given = [place for place in places if place.data]
    return _one(body, *(_typed(place, place) for place in given))


def told_of(chat: ChatRequest, asked: Format | None, dialect: Dialect) -> ChatRequest:
    """The chat, with the format of its answers where the dialect tells its model of that."""
    told = asked.told if asked is not None and dialect.tells_format else None
    return chat if told is None else replace(chat, response_format=told)


def _typed(wanted: Body, holder: Body) -> Format | None:
    """wanted: has the type; holder: has the schema, if it is one."""
    if not wanted.data:
        return None
    match wanted.text("type"):
        case "text":
            return None
        case "json_object":
            return Format(wanted.path, grammars.json_object, {"type": "json_object"})
        case "json_schema":
            name = holder.text("name")
            if name is not None and len(name) > _MAX_NAME:
                raise invalid(f"'{holder.param('name')}' may have {_MAX_NAME} characters.", holder.param("name"))
            schema = holder.get("schema")
            if schema is None:
                raise invalid(f"'{holder.param('schema')}' is required.", holder.param("schema"), "missing_field")
            # Where the client says that it need not be strict, what is not known of a schema is passed over.
            lenient = holder.get("strict") is not None and not holder.boolean("strict")
            return Format(holder.param("schema"), lambda: grammars.json_schema(schema, lenient=lenient), schema, schema)
        case other:
            param = wanted.param("type")
            shown = "missing" if other is None else repr(other[:40])
            raise invalid(f"'{param}' must be 'text', 'json_object' or 'json_schema', not {shown}.", param)


def _one(body: Body, *formats: Format | None) -> Format | None:
    given = [asked for asked in formats if asked is not None]
    if (text := body.text("grammar")) is not None:
        given.append(Format("grammar", lambda: grammars.lark(text), source=text))
    if (pattern := body.text("regex")) is not None:
        given.append(Format("regex", lambda: grammars.regex(pattern), source=pattern))
    if len(given) > 1:
        names = " and ".join(f"'{asked.param}'" for asked in given)
        raise invalid(f"An answer can have one format: {names} exclude each other.", given[1].param)
    return given[0] if given else None


class Constraints:
    """Grammars of requests, off the event loop: a pool of their own, for a client's hostile schema may keep it busy.

    turned_away: is told when a request is, since others keep the pool busy."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        visible: Collection[str],
        turned_away: Callable[[TurnedAway], None] = lambda reason: None,
        pool: GrammarPool | None = None,
    ) -> None:
        self._vocabulary = Vocabulary(tokenizer, visible)
        self._pool = pool or GrammarPool()
        self._turned_away = turned_away

    async def plain(self, asked: Format | None) -> Grammar | None:
        """The grammar of an answer that is nothing but what was asked for."""
        return None if asked is None else await self.run(asked.build, asked.param, lambda: asked.source)

    async def of_chat(
        self, asked: Format | None, dialect: Dialect, chat: ChatRequest, prompt: Prompt
    ) -> Grammar | None:
        """The grammar of a chat's answer: reasoning first where there is any; with tools, calls in its place."""
        if asked is None and (chat.calls is None or not dialect.calls_tools):
            return None
        grammar = await self.plain(asked)
        may_think = chat.thinking is not False and chat.effort != "none"

        def whole() -> Grammar:
            rules = chat.calls or (any_calls(chat.tools) if prompt.tools else ToolRules(()))
            if grammar is not None and prompt.tools and not dialect.openers and not rules.must:
                told = "this model's tool calls look like any JSON, so an answer has no format beside them"
                raise ConstraintError(told, code="tools")
            return dialect.grammar(prompt, rules, grammar, may_think=may_think)

        return await self.run(whole, "tools" if asked is None else asked.param)

    async def compile(self, request: GenerationRequest) -> None:
        """Makes the matcher of a request that has a grammar. ApiError 400 for one that allows no answer."""
        grammar = request.grammar
        if grammar is not None and request.matcher is None:
            by = request.constrained_by
            request.matcher = await self.run(lambda: self._vocabulary.matcher(grammar), by, lambda: grammar.lark)

    async def run(self, work: Callable[[], T], param: str | None, source: Callable[[], object] | None = None) -> T:
        """The result of what compiles for the field `param`. source: what it compiles, as JSON, off the event loop too.
        ApiError 400 where that fails or takes too long, 503 where others keep it from beginning."""
        try:
            return await self._pool.run(work, source)
        except ConstraintError as error:
            if error.code == "busy":
                self._turned_away("grammar_busy")
                raise from_error(error) from error
            named = "The grammar" if param is None else f"'{param}'"
            if error.code == "slow":
                message = f"{named} takes more than {self._pool.run_seconds:g} s to compile."
                raise invalid(message, param, "grammar_timeout") from error
            raise invalid(f"{named} cannot be used: {error}.", param, f"invalid_{error.code}") from error

    def close(self) -> None:
        self._pool.close()
