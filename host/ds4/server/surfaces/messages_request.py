"""Reading a Messages body: what it asks of the model, and how the answer is to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ds4.core.chat import EFFORTS, ChatRequest
from ds4.core.output.grammar.rules import ToolRule, ToolRules
from ds4.server import limits
from ds4.server.constraints import messages_format
from ds4.server.errors import invalid
from ds4.server.prompts import no_dialect
from ds4.server.request import Body, GenerationRequest, Options, read_sampling, read_stops
from ds4.server.surfaces.asked import Asked, ModelFacts, Shown
from ds4.server.surfaces.chat_request import ALIASES
from ds4.server.surfaces.chat_tools import name_of, objects
from ds4.server.surfaces.messages_turns import read_turns
from ds4.server.surfaces.thinking_budget import read_thought
from ds4.server.surfaces.tool_rules import ToolChoice, function_rule, rules

_THINKING = ("enabled", "disabled", "adaptive", "between_tools")


@dataclass(slots=True)
class MessagesRequest(GenerationRequest):
    """caches: the client marks what it wants cached, so usage tells what was written. hides: thinking is not shown.
    warms: the prompt is computed and kept, and there is no answer (max_tokens 0)."""

    caches: bool = False
    hides: bool = False
    warms: bool = False


def read(body: Body, model: ModelFacts) -> Asked:
    """A whole Messages body."""
    if not model.chats:
        raise no_dialect()
    chat = read_chat(body, model.thinks)
    max_tokens = body.integer("max_tokens", 0, limits.LARGEST_COUNT, clamp=True)
    if max_tokens is None:
        raise invalid("'max_tokens' is required.", "max_tokens", "missing_field")
    sampling = read_sampling(body, model.defaults, model.n_vocab)
    stop = read_stops(body, "stop_sequences")
    body.nested("metadata").text("user_id")
    stream, reuse, ignore_eos = body.boolean("stream"), body.boolean("cache_prompt", True), body.boolean("ignore_eos")
    shown = Shown(marks_cache(body), hides_thinking(body), warms=max_tokens == 0)
    options = Options(
        sampling, 1, max_tokens or 1, stop, ignore_eos, reuse, stream, include_usage=False, progress=False
    )
    asked, thought = messages_format(body), read_thought(body)
    return Asked(options.on(model.cache), chat=chat, shown=shown, format=asked, thought=thought)


def read_chat(body: Body, thinks: bool) -> ChatRequest:
    """What the body asks of the model's dialect; the same for an answer and for counting."""
    model = body.text("model")
    tools, calls = _tools(body)
    config = body.nested("output_config")
    body.refuse("mcp_servers", ([],), "This server does not call MCP servers; the client has to.")
    effort = _effort(config, "effort") or _effort(body, "reasoning_effort")
    thinking = _thinking(body, effort, ALIASES.get(model or ""), thinks)
    # Effort is about the whole answer, so a model that does not think is not asked in vain.
    turns = read_turns(body)
    return ChatRequest(turns, tools, thinking=thinking, effort=effort if thinks else None, calls=calls)


def hides_thinking(body: Body) -> bool:
    display = body.nested("thinking").text("display")
    if display not in (None, "summarized", "omitted"):
        raise invalid(
            f"'thinking.display' must be 'summarized' or 'omitted', not {display[:40]!r}.", "thinking.display"
        )
    return display == "omitted"


def marks_cache(body: Body) -> bool:
    """Whether anything is marked with cache_control: the request, a tool, or a block of text or of a message."""
    if body.get("cache_control") is not None:
        return True
    places: list[Any] = [body.get("tools"), body.get("system")]
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        places.append(message.get("content") if isinstance(message, dict) else None)
    return any(
        isinstance(item, dict) and item.get("cache_control") is not None
        for place in places
        if isinstance(place, list)
        for item in place
    )


def _effort(holder: Body, name: str) -> str | None:
    effort = holder.text(name)
    if effort is not None and effort not in EFFORTS:
        param = holder.param(name)
        raise invalid(f"'{param}' must be one of {', '.join(EFFORTS)}, not {effort[:40]!r}.", param)
    return effort


def _thinking(body: Body, effort: str | None, alias: bool | None, thinks: bool) -> bool | None:
    """None: as the model does by itself. Where nothing asks for thinking there is none: clients that do not know of it
    expect the answer in the first block."""
    asked = body.nested("thinking")
    chosen = asked.text("type")
    if asked.data and chosen not in _THINKING:
        raise invalid(f"'thinking.type' must be one of {', '.join(_THINKING)}.", "thinking.type")
    read_thought(body)
    if chosen == "enabled":
        return True
    if chosen == "disabled" or not thinks:
        return False if chosen == "disabled" else None
    if chosen is None and effort is None:
        return bool(alias)
    return None


def _tools(body: Body) -> tuple[list[dict[str, Any]], ToolRules | None]:
    """The tools that the model is told of, without what is not about the model, whatever tool_choice says; what calls
    the answer may make, the rules say."""
    tools, told = [], []
    for tool in objects(body, "tools"):
        read = _tool(tool)
        if read is None:
            continue
        schema, strict = tool.nested("input_schema"), tool.boolean("strict")
        tools.append(function_rule(read["name"], schema.data, strict=strict, param=schema.path))
        told.append({"type": "function", "function": read})
    return told, _rules(body.nested("tool_choice"), tools)


def _tool(tool: Body) -> dict[str, Any] | None:
    """None: one that only finds tools, which are all told of anyway."""
    made_for = tool.text("type")
    schema = tool.nested("input_schema")
    name = tool.text("name")
    if tool.get("input_schema") is None:
        if made_for is not None and made_for.startswith("tool_search_"):
            return None
        if made_for not in (None, "custom"):
            raise invalid(
                f"This server runs no tools, and knows none of type {made_for[:40]!r}; give it an 'input_schema'.",
                tool.param("type"),
                "unsupported_parameter",
            )
        raise invalid(f"'{tool.param('input_schema')}' is required.", tool.param("input_schema"), "missing_field")
    if not name:
        raise invalid(f"'{tool.param('name')}' is required.", tool.param("name"), "missing_field")
    description = tool.text("description")
    described = {} if description is None else {"description": description}
    return {"name": name, **described, "parameters": dict(schema.data)}


def _rules(choice: Body, tools: list[ToolRule]) -> ToolRules | None:
    parallel = not choice.boolean("disable_parallel_tool_use")
    match choice.text("type") if choice.data else "auto":
        case "auto":
            chosen = ToolChoice()
        case "none":
            chosen = ToolChoice(none=True)
        case "any":
            chosen = ToolChoice(must=True, param=choice.param("type"))
        case "tool":
            chosen = ToolChoice(must=True, names=(name_of(choice),), param=choice.param("name"))
        case _:
            raise invalid("'tool_choice.type' must be 'auto', 'any', 'tool' or 'none'.", "tool_choice.type")
    return rules(tools, chosen, parallel=parallel)
