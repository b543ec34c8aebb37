"""Reading a Responses body: what to generate, how its answer is told, what the response says about itself."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any

from ds4.core.chat import EFFORTS, ChatRequest
from ds4.errors import Ds4Error
from ds4.server import limits
from ds4.server.answer import ChatAnswer
from ds4.server.constraints import responses_format
from ds4.server.errors import ApiError, from_error, invalid
from ds4.server.prompts import no_dialect
from ds4.server.request import Body, GenerationRequest, new_id, read_options, tail_calls, text, wrong_type
from ds4.server.response_store import Missing, ResponseStore
from ds4.server.service import Served
from ds4.server.surfaces.asked import Asked, Kept, ModelFacts
from ds4.server.surfaces.chat_request import ALIASES
from ds4.server.surfaces.generation import check_context
from ds4.server.surfaces.responses_items import Item, messages, not_found, read_input, references
from ds4.server.surfaces.responses_tools import Tools, read_tools
from ds4.server.surfaces.thinking_budget import budget_of, read_thought

_SUMMARIES = ("auto", "concise", "detailed")
_PARAMS = {"messages": "input", "reasoning_effort": "reasoning.effort", "thinking": "reasoning.effort"}


@dataclass(slots=True)
class ResponsesRequest:
    """generation: for the engine. head: the response's fields that do not change. input: the request's own items.

    summary: reasoning is told as a summary, not as content; sealed: it comes sealed too; parallel: an answer may call
    more than one tool."""

    generation: GenerationRequest
    head: dict[str, Any]
    tools: Tools
    input: list[Item] = field(default_factory=list)
    previous: str | None = None
    store: bool = True
    background: bool = False
    summary: bool = False
    sealed: bool = False
    parallel: bool = True


def item_id(prefix: str) -> str:
    """An id that cannot be guessed, in the form that this API's ids have."""
    return new_id(prefix).replace("-", "_", 1)


@dataclass(frozen=True, slots=True)
class Talk:
    """What the model is asked. items: the request's own. whole: they are the whole conversation; else the messages are
    made when what was kept has been found."""

    chat: ChatRequest
    tools: Tools
    items: list[Item]
    whole: bool


def read_talk(body: Body, model: ModelFacts) -> Talk:
    if not model.chats:
        raise no_dialect()
    tools, own = read_tools(body), read_input(body)
    previous, instructions = body.text("previous_response_id"), body.text("instructions")
    if not own and previous is None:
        raise _no_items()
    whole = not references(own) and previous is None
    talk = conversation(instructions, [], own) if whole else []
    effort = body.nested("reasoning").text("effort")
    if effort is not None and effort not in EFFORTS:
        expected = ", ".join(EFFORTS)
        raise invalid(f"'reasoning.effort' must be one of {expected}, not {effort[:40]!r}.", "reasoning.effort")
    alias = ALIASES.get(body.text("model") or "")
    thinking = alias if model.thinks else None
    chat = ChatRequest(talk, tools.functions, thinking=thinking, effort=effort, calls=tools.calls)
    return Talk(chat, tools, own, whole)


def conversation(instructions: str | None, earlier: list[Item], own: list[Item]) -> list[dict[str, Any]]:
    talk = messages([*earlier, *own], len(earlier))
    return [{"role": "system", "content": instructions}, *talk] if instructions else talk


def _no_items() -> ApiError:
    return invalid("'input' must hold at least one item.", "input", "missing_field")


async def completed(
    chat: ChatRequest, own: list[Item], body: Body, store: ResponseStore, owner: str
) -> tuple[ChatRequest, list[Item]]:
    """The chat and the request's items, with what earlier responses and references bring. owner: whose
    responses it may build on."""
    previous = body.text("previous_response_id")
    earlier = [] if previous is None else await _earlier(previous, store, owner)
    if not own and not earlier:
        raise _no_items()
    own = await _found(own, store, owner)
    return replace(chat, messages=conversation(body.text("instructions"), earlier, own)), own


async def tokens(chat: ChatRequest, served: Served) -> tuple[ChatAnswer, list[int]]:
    """How the answer is read, and the prompt's ids. What is refused is told with this API's names of fields."""
    try:
        prompt, ids = await served.prompts.chat(chat)
        check_context([ids], served, "input")
    except Ds4Error as error:
        told = from_error(error)
        name, bracket, rest = (told.param or "").partition("[")
        param = _PARAMS.get(name, name) + ("" if name == "messages" else bracket + rest)
        raise ApiError(told.status, told.message, code=told.code, param=param or None) from error
    return ChatAnswer(served.prompts.dialect(), prompt, names=chat.names), ids


def read(body: Body, model: ModelFacts) -> Asked:
    """A whole Responses body, but for what only the store knows."""
    _check_carried(body)
    _refuse_unsupported(body)
    options = read_options(body, model.defaults, model.n_vocab).on(model.cache)
    most = body.integer("max_output_tokens", 1, limits.LARGEST_COUNT, clamp=True)
    include = _strings(body, "include")
    top = body.integer("top_logprobs", 0, limits.MAX_TOP_LOGPROBS)
    wants_logprobs = bool(top) or "message.output_text.logprobs" in include
    head = _head(body, model.name)
    background, stores = body.boolean("background"), body.boolean("store", True)
    if background and not stores:
        raise invalid("'background' needs 'store' to be true: its response is asked for later.", "store")
    if background and options.stream:
        raise invalid(
            "A response in the background cannot be streamed; retrieve it instead.", "stream", "unsupported_parameter"
        )
    talk = read_talk(body, model)
    sampling = options.sampling
    head |= {"background": background, "store": stores, "max_output_tokens": most}
    head |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_logprobs": top or 0}
    kept = Kept(
        previous=body.text("previous_response_id"),
        store=stores,
        background=background,
        summary=head["reasoning"]["summary"] is not None,
        sealed="reasoning.encrypted_content" in include,
        parallel=head["parallel_tool_calls"],
        items=talk.items,
        whole=talk.whole,
        tools=talk.tools,
        head=head,
    )
    if most is not None:
        options = replace(options, max_tokens=most)
    asked, thought = responses_format(body), read_thought(body)
    logprobs = (top or 0) if wants_logprobs else None
    return Asked(options, logprobs, talk.chat, kept=kept, format=asked, thought=thought)


async def made(asked: Asked, body: Body, served: Served, store: ResponseStore, owner: str) -> ResponsesRequest:
    """The request with its prompt, and its items with ids."""
    dialect, kept, options = served.prompts.dialect(), asked.kept, asked.options
    assert kept is not None
    chat, own = asked.chat_for(dialect), kept.items
    if not kept.whole:
        chat, own = await completed(chat, own, body, store, owner)
    answer, ids = await tokens(chat, served)
    generation = GenerationRequest(
        id=item_id("resp"),
        prompts=[ids],
        sampling=options.sampling,
        max_tokens=options.max_tokens,
        stop=options.stop,
        ignore_eos=options.ignore_eos,
        logprobs=asked.logprobs,
        answer=answer,
        chat=chat,
        grammar=await served.constraints.of_chat(asked.format, dialect, chat, answer.prompt),
        budget=budget_of(asked.thought, dialect, served.tokenizer),
        constrained_by=asked.formatted_by,
        cache_prompt=options.cache_prompt,
        stream=options.stream,
        calls=tail_calls(chat.messages),
        stored=kept.store,
        created=int(time.time()),
    )
    head = {"id": generation.id, "object": "response", "created_at": generation.created, **kept.head}
    own = _with_ids(own)
    return ResponsesRequest(
        generation,
        head,
        kept.tools,
        own,
        previous=kept.previous,
        store=kept.store,
        background=kept.background,
        summary=kept.summary,
        sealed=kept.sealed,
        parallel=kept.parallel,
    )


_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}


def _with_ids(items: list[Item]) -> list[Item]:
    """The items, each with an id: what clients name them by, and the store finds them by."""
    named = []
    for index, item in enumerate(items):
        given = item.get("id")
        id = item_id(_PREFIXES.get(item["type"], "item")) if given is None else text(given, f"input[{index}].id")
        named.append({**item, "id": id})
    return named


async def _earlier(previous: str, store: ResponseStore, owner: str) -> list[Item]:
    try:
        if (await store.get(previous, owner)).running:
            raise invalid(
                f"Previous response with id {previous[:80]!r} has not ended yet.",
                "previous_response_id",
                "previous_response_in_progress",
            )
        return await store.conversation(previous, owner)
    except Missing as missing:
        why = "" if missing.id == previous else f": {missing.id!r}, which it builds on, is gone"
        raise invalid(
            f"Previous response with id {previous[:80]!r} not found{why}. Send the whole conversation as input.",
            "previous_response_id",
            "previous_response_not_found",
        ) from None


async def _found(items: list[Item], store: ResponseStore, owner: str) -> list[Item]:
    """The items, with what references name in their places."""
    wanted = references(items)
    if not wanted:
        return items
    found = await store.find(wanted, owner)
    whole = []
    for index, item in enumerate(items):
        if item["type"] == "item_reference":
            if item["id"] not in found:
                raise not_found(item["id"], index)
            item = found[item["id"]]
        whole.append(item)
    return whole


def _head(body: Body, model: str) -> dict[str, Any]:
    reasoning, form = body.nested("reasoning"), body.nested("text")
    summary = reasoning.text("summary") or reasoning.text("generate_summary")
    if summary not in (None, *_SUMMARIES):
        summary = None if summary == "none" else _one_of(str(summary), "reasoning.summary", _SUMMARIES)
    truncation = body.text("truncation") or "disabled"
    return {
        "instructions": body.text("instructions"),
        "max_tool_calls": body.integer("max_tool_calls", 1, limits.LARGEST_COUNT, clamp=True),
        "metadata": _metadata(body),
        "model": model,
        "parallel_tool_calls": body.boolean("parallel_tool_calls", True),
        "previous_response_id": body.text("previous_response_id"),
        "prompt_cache_key": body.text("prompt_cache_key"),
        "reasoning": {"effort": reasoning.text("effort"), "summary": summary},
        "safety_identifier": body.text("safety_identifier"),
        "service_tier": "default",
        "text": {
            "format": form.nested("format").data or {"type": "text"},
            "verbosity": form.text("verbosity") or "medium",
        },
        "tool_choice": "auto" if body.get("tool_choice") is None else body.get("tool_choice"),
        "tools": body.get("tools") or [],
        "truncation": _one_of(truncation, "truncation", ("auto", "disabled")),
        "user": body.text("user"),
    }


def _one_of(value: str, param: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise invalid(f"'{param}' must be one of {', '.join(known)}, not {value[:40]!r}.", param)
    return value


def _metadata(body: Body) -> dict[str, str]:
    given = body.nested("metadata").data
    if len(given) > limits.MAX_METADATA:
        raise invalid(f"'metadata' may have at most {limits.MAX_METADATA} keys.", "metadata")
    read = {}
    for key, value in given.items():
        if len(key) > limits.MAX_METADATA_KEY or len(text(value, "metadata")) > limits.MAX_METADATA_VALUE:
            raise invalid(
                f"'metadata' may have keys of {limits.MAX_METADATA_KEY} and values of {limits.MAX_METADATA_VALUE} "
                "characters at most.",
                "metadata",
            )
        read[text(key, "metadata")] = value
    return read


def _strings(body: Body, name: str) -> list[str]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(name, "an array of strings", value)
    return [text(one, f"{name}[{i}]") for i, one in enumerate(value)]


_LARGE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")


def _check_carried(body: Body) -> None:
    """Items, tools and metadata go back to the client and into the store whole: all of them must be UTF-8's, and their
    numbers must be JSON's again."""
    if b"\\ud" in body.raw or b"\\uD" in body.raw or _LARGE.search(body.raw):
        try:
            json.dumps(body.data, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise invalid("The body holds a lone surrogate.", code="invalid_json") from None
        except ValueError:
            raise invalid("The body holds a number that is too large.", code="invalid_json") from None


def _refuse_unsupported(body: Body) -> None:
    body.nested("text")
    body.refuse("conversation", (), "Conversations are not kept by this server; use 'previous_response_id'.")
    body.refuse("prompt", (), "Prompt templates are not kept by this server; send 'input'.")
