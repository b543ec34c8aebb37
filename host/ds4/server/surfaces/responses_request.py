"""Reading a Responses body: what to generate, how its answer is told, what the response says about itself."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ds4.core.chat import EFFORTS, ChatRequest
from ds4.errors import Ds4Error
from ds4.server import limits
from ds4.server.answer import ChatAnswer
from ds4.server.constraints import responses_format
from ds4.server.errors import ApiError, from_error, invalid
from ds4.server.request import Body, GenerationRequest, new_id, read_options, tail_calls, text, wrong_type
from ds4.server.response_store import Missing, ResponseStore
from ds4.server.service import Served
from ds4.server.surfaces.chat_request import ALIASES
from ds4.server.surfaces.generation import check_context
from ds4.server.surfaces.responses_items import Item, messages, not_found, read_input, references
from ds4.server.surfaces.responses_tools import Tools, read_tools
from ds4.server.surfaces.thinking_budget import read_budget

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


async def read_chat(body: Body, served: Served, store: ResponseStore) -> tuple[ChatRequest, Tools, list[Item]]:
    """What the model is asked, its tools, and the request's own items."""
    dialect = served.prompts.dialect()
    tools, own = read_tools(body), read_input(body)
    previous, instructions = body.text("previous_response_id"), body.text("instructions")
    earlier = [] if previous is None else await _earlier(previous, store)
    if not own and not earlier:
        raise invalid("'input' must hold at least one item.", "input", "missing_field")
    own = await _found(own, store)
    talk = messages([*earlier, *own], len(earlier))
    if instructions:
        talk.insert(0, {"role": "system", "content": instructions})
    effort = body.nested("reasoning").text("effort")
    if effort is not None and effort not in EFFORTS:
        expected = ", ".join(EFFORTS)
        raise invalid(f"'reasoning.effort' must be one of {expected}, not {effort[:40]!r}.", "reasoning.effort")
    thinking = ALIASES.get(body.text("model") or "") if dialect.thinks else None
    asked = responses_format(body)
    told = None if asked is None or not dialect.tells_format else asked.told
    chat = ChatRequest(talk, tools.functions, response_format=told, thinking=thinking, effort=effort, calls=tools.calls)
    return chat, tools, own


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


async def read_request(body: Body, served: Served, store: ResponseStore) -> ResponsesRequest:
    _refuse_unsupported(body)
    options = read_options(body, served.defaults, served.tokenizer.n_vocab)
    most = body.integer("max_output_tokens", 1, 1 << 31, clamp=True)
    include = _strings(body, "include")
    top = body.integer("top_logprobs", 0, limits.MAX_TOP_LOGPROBS)
    wants_logprobs = bool(top) or "message.output_text.logprobs" in include
    head = _head(body, served)
    background, stores = body.boolean("background"), body.boolean("store", True)
    if background and not stores:
        raise invalid("'background' needs 'store' to be true: its response is asked for later.", "store")
    if background and options.stream:
        raise invalid(
            "A response in the background cannot be streamed; retrieve it instead.", "stream", "unsupported_parameter"
        )
    chat, tools, own = await read_chat(body, served, store)
    answer, ids = await tokens(chat, served)
    asked = responses_format(body)
    grammar = await served.constraints.of_chat(asked, answer.dialect, chat, answer.prompt)
    generation = GenerationRequest(
        id=item_id("resp"),
        prompts=[ids],
        sampling=options.sampling,
        max_tokens=options.max_tokens if most is None else most,
        stop=options.stop,
        ignore_eos=options.ignore_eos,
        logprobs=(top or 0) if wants_logprobs else None,
        answer=answer,
        chat=chat,
        grammar=grammar,
        budget=read_budget(body, answer.dialect, served.tokenizer),
        constrained_by=None if asked is None else asked.param,
        cache_prompt=served.cache_prompt and options.cache_prompt,
        stream=options.stream,
        calls=tail_calls(chat.messages),
        stored=stores,
        created=int(time.time()),
    )
    sampling = options.sampling
    head = {"id": generation.id, "object": "response", "created_at": generation.created, **head}
    head |= {"background": background, "store": stores, "max_output_tokens": most}
    head |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_logprobs": top or 0}
    for item in own:
        item.setdefault("id", item_id(_PREFIXES.get(item["type"], "item")))
    return ResponsesRequest(
        generation,
        head,
        tools,
        own,
        previous=body.text("previous_response_id"),
        store=stores,
        background=background,
        summary=head["reasoning"]["summary"] is not None,
        sealed="reasoning.encrypted_content" in include,
        parallel=head["parallel_tool_calls"],
    )


_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}


async def _earlier(previous: str, store: ResponseStore) -> list[Item]:
    try:
        if (await store.get(previous)).running:
            raise invalid(
                f"Previous response with id {previous[:80]!r} has not ended yet.",
                "previous_response_id",
                "previous_response_in_progress",
            )
        return await store.conversation(previous)
    except Missing as missing:
        why = "" if missing.id == previous else f": {missing.id!r}, which it builds on, is gone"
        raise invalid(
            f"Previous response with id {previous[:80]!r} not found{why}. Send the whole conversation as input.",
            "previous_response_id",
            "previous_response_not_found",
        ) from None


async def _found(items: list[Item], store: ResponseStore) -> list[Item]:
    """The items, with what references name in their places."""
    wanted = references(items)
    if not wanted:
        return items
    found = await store.find(wanted)
    whole = []
    for index, item in enumerate(items):
        if item["type"] == "item_reference":
            if item["id"] not in found:
                raise not_found(item["id"], index)
            item = found[item["id"]]
        whole.append(item)
    return whole


def _head(body: Body, served: Served) -> dict[str, Any]:
    reasoning, form = body.nested("reasoning"), body.nested("text")
    summary = reasoning.text("summary") or reasoning.text("generate_summary")
    if summary not in (None, *_SUMMARIES):
        summary = None if summary == "none" else _one_of(str(summary), "reasoning.summary", _SUMMARIES)
    truncation = body.text("truncation") or "disabled"
    return {
        "instructions": body.text("instructions"),
        "max_tool_calls": body.integer("max_tool_calls", 1, 1 << 31, clamp=True),
        "metadata": _metadata(body),
        "model": served.model_id,
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


def _refuse_unsupported(body: Body) -> None:
    body.refuse("conversation", (), "Conversations are not kept by this server; use 'previous_response_id'.")
    body.refuse("prompt", (), "Prompt templates are not kept by this server; send 'input'.")
