"""DeepSeek V4's chat layout: a conversation as the prompt of the model.

The layout is that of the published encoder (`encoding_dsv4.py` beside the model's weights); where it says nothing,
DwarfStar's C server decides: the two escapes below, and how several system messages become one (`core.conversation`).
oracles/encoder/README.md states all of it.

A prompt is segments: the layout's special tokens, and plain text. What a request brings is plain whatever it looks
like, so nobody can type a special token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ds4.core.alternatives import longest_of
from ds4.core.json_text import dumps, loads
from ds4.core.tokenizer import Segment
from ds4.errors import EncoderError

BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"
USER = "<｜User｜>"
ASSISTANT = "<｜Assistant｜>"
REMINDER = "<｜latest_reminder｜>"
THINK = "<think>"
ENDTHINK = "</think>"
DSML = "｜DSML｜"
SPECIALS = (BOS, EOS, USER, ASSISTANT, REMINDER, THINK, ENDTHINK, DSML)

ROLES = ("system", "developer", "user", "assistant", "tool", "latest_reminder")

THINK_MAX = (
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause,"
    " rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered"
    " alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n"
)
_TOOLS_HEAD = """\


## Tools

You have access to a set of tools to help answer the user's question. \
You can invoke tools by writing a "<｜DSML｜tool_calls>" block like the following:

<｜DSML｜tool_calls>
<｜DSML｜invoke name="$TOOL_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$TOOL_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜tool_calls>

String parameters should be specified as is and set `string="true"`. \
For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), \
you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

"""
_TOOLS_TAIL = "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n"
_FORMAT_HEAD = "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"

# Only the exact text that would end the stretch is escaped.
_RESULT_END, _RESULT_ESCAPED = "</tool_result>", "&lt;/tool_result>"
_VALUE_END = f"</{DSML}parameter>"
_STRING_ESCAPED, _JSON_ESCAPED = f"&lt;/{DSML}parameter>", f"\\u003c/{DSML}parameter>"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the past. arguments: the JSON text as the client has it, or whatever stands in its place."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. What a role does not have is not looked at.

    content: None is the same as empty, but where the role needs one (developer, latest_reminder).
    id: of a tool turn, the call that it answers.
    reasoning, calls, replay, open: of an assistant turn. replay: the tool block exactly as it was sampled, to stand in
    place of the calls' rendering. open: the turn goes on, so it is not ended.
    tools, format: of a system or developer turn: JSON values. tools: what OpenAI's requests have as `function`.
    """

    role: str
    content: str | None = None
    id: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    replay: str | None = None
    open: bool = False
    tools: tuple[Any, ...] = ()
    format: Any = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """think_max: Think Max, which asks for all the thinking there can be (only with thinking). drop_thinking: earlier
    turns lose their reasoning (never where tools are in play).
    """

    turns: tuple[Turn, ...]
    thinking: bool = True
    think_max: bool = False
    drop_thinking: bool = True


class _Writer:
    """Segments as they come: plain stretches that touch become one."""

    __slots__ = ("_out", "_plain")

    def __init__(self) -> None:
        self._out: list[Segment] = []
        self._plain: list[str] = []

    def special(self, token: str) -> None:
        self._close()
        self._out.append(_SEGMENTS[token])

    def plain(self, text: str) -> None:
        if text:
            self._plain.append(text)

    def both(self, segments: Sequence[Segment]) -> None:
        for text, special in segments:
            if special:
                self.special(text)
            else:
                self.plain(text)

    def between(self, token: str, stretches: Sequence[str]) -> None:
        """The stretches, with a token between each two. At least one."""
        self.plain(stretches[0])
        if len(stretches) == 1:  # nothing ends what is plain so far: more may touch it
            return
        self._close()
        segment, append = _SEGMENTS[token], self._out.append
        for stretch in stretches[1:-1]:
            append(segment)
            if stretch:
                append(Segment(stretch, False))
        append(segment)
        self.plain(stretches[-1])

    def _close(self) -> None:
        if self._plain:
            self._out.append(Segment("".join(self._plain), False))
            self._plain.clear()

    def done(self) -> list[Segment]:
        self._close()
        return self._out


_SEGMENTS = {token: Segment(token, True) for token in SPECIALS}
_TOKENS = longest_of(SPECIALS)


def _marked(text: str) -> tuple[Segment, ...]:
    """Text of ours: the special tokens that it spells are meant."""
    assert _TOKENS is not None
    out, end = [], 0
    for found in _TOKENS.finditer(text):
        out += [Segment(text[end : found.start()], False), Segment(found[0], True)]
        end = found.end()
    out.append(Segment(text[end:], False))
    return tuple([segment for segment in out if segment.text])


_TOOLS_SEGMENTS = _marked(_TOOLS_HEAD)


@dataclass(slots=True)
class _Item:
    """What the prompt is made of: a turn, or neighbouring user and tool turns as one. parts: those, in order."""

    role: str
    turn: Turn
    parts: list[Turn]


def encode(conversation: Conversation) -> list[Segment]:
    """The prompt, in canonical form: a special segment is exactly one special token, plain ones do not touch.

    EncoderError encoder_role, encoder_content: a turn that cannot be written; encoder_value: a value of tools or format
    that is no JSON.
    """
    _check(conversation.turns)
    items = _merged(conversation.turns)
    _sort_results(items)
    has_tools = any(turn.tools for turn in conversation.turns if turn.role in ("system", "developer"))
    dropping = conversation.thinking and conversation.drop_thinking and not has_tools
    if dropping:
        items = _dropped(items)
    last = _last_user(items)
    out = _Writer()
    out.special(BOS)
    if items and conversation.thinking and conversation.think_max:
        out.plain(THINK_MAX)
    for place, item in enumerate(items):
        thought = conversation.thinking and (not dropping or place > last)
        _write(out, item, thought)
        following = items[place + 1].role if place + 1 < len(items) else "assistant"
        if item.role in ("user", "developer") and following in ("assistant", "latest_reminder"):
            out.special(ASSISTANT)
            out.special(THINK if conversation.thinking and (not dropping or place >= last) else ENDTHINK)
    return out.done()


def _check(turns: Sequence[Turn]) -> None:
    for index, turn in enumerate(turns):
        if turn.role not in ROLES:
            expected = ", ".join(ROLES)
            raise EncoderError("unknown role", code="encoder_role", turn=index, expected=expected, found=turn.role)
        needs = {"developer": not turn.content, "latest_reminder": turn.content is None}
        if needs.get(turn.role, False):
            raise EncoderError(f"a {turn.role} message has no content", code="encoder_content", turn=index)


def _merged(turns: Sequence[Turn]) -> list[_Item]:
    items: list[_Item] = []
    for turn in turns:
        if turn.role not in ("user", "tool"):
            items.append(_Item(turn.role, turn, []))
        elif items and items[-1].role == "user":
            items[-1].parts.append(turn)
        else:
            items.append(_Item("user", turn, [turn]))
    return items


def _sort_results(items: Sequence[_Item]) -> None:
    """Results into the order of the calls before them; those of no call count as the first call's."""
    order: dict[str, int] = {}
    for item in items:
        if item.role == "assistant" and item.turn.calls:
            order = {call.id: number for number, call in enumerate(item.turn.calls) if call.id}
        elif item.role == "user" and order:
            places = [place for place, part in enumerate(item.parts) if part.role == "tool"]
            results = sorted([item.parts[place] for place in places], key=lambda part: order.get(part.id, 0))
            for place, result in zip(places, results, strict=True):
                item.parts[place] = result


def _last_user(items: Sequence[_Item]) -> int:
    return max((place for place, item in enumerate(items) if item.role in ("user", "developer")), default=-1)


def _dropped(items: list[_Item]) -> list[_Item]:
    """Without what earlier turns thought, and without earlier developer turns."""
    last = _last_user(items)
    return [item for place, item in enumerate(items) if place >= last or item.role != "developer"]


def _write(out: _Writer, item: _Item, thought: bool) -> None:
    turn, content = item.turn, item.turn.content or ""
    if item.role == "user":
        out.special(USER)
        out.plain("\n\n".join([_part(part) for part in item.parts]))
    elif item.role == "latest_reminder":
        out.special(REMINDER)
        out.plain(content)
    elif item.role == "assistant":
        if thought:
            out.plain(turn.reasoning)
            out.special(ENDTHINK)
        out.plain(content)
        if turn.replay is not None:
            out.between(DSML, turn.replay.split(DSML))
        elif turn.calls:
            _calls(out, turn.calls)
        if not turn.open:
            out.special(EOS)
    else:
        if item.role == "developer":
            out.special(USER)
        out.plain(content)
        _tools(out, turn)


def _part(turn: Turn) -> str:
    content = turn.content or ""
    if turn.role == "user":
        return content
    return f"<tool_result>{content.replace(_RESULT_END, _RESULT_ESCAPED)}</tool_result>"


def _json(value: Any, what: str) -> str:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncoderError(f"no JSON: {error}", subject=what, code="encoder_value") from None


def _tools(out: _Writer, turn: Turn) -> None:
    if turn.tools:
        out.both(_TOOLS_SEGMENTS)
        out.plain("\n".join([_json(tool, "tools") for tool in turn.tools]))
        out.plain(_TOOLS_TAIL)
    if turn.format:
        out.plain(_FORMAT_HEAD)
        out.plain(_json(turn.format, "response_format"))


def _calls(out: _Writer, calls: Sequence[Call]) -> None:
    stretches = ["\n\n<", "tool_calls>"]  # DSML stands between each two
    for call in calls:
        stretches[-1] += "\n<"
        stretches.append(f'invoke name="{call.name}">\n')
        separator = "<"
        for key, is_string, value in parameters(call.arguments):
            stretches[-1] += separator
            stretches.append(f'parameter name="{key}" string="{"true" if is_string else "false"}">{value}</')
            stretches.append("parameter>")
            separator = "\n<"
        stretches[-1] += "\n</"
        stretches.append("invoke>")
    stretches[-1] += "\n</"
    stretches.append("tool_calls>")
    out.between(DSML, stretches)


def parameters(arguments: str) -> list[tuple[str, bool, str]]:
    """A call's arguments as (name, whether it is a string, what stands in the tag)."""
    try:
        members = loads(arguments)
    except ValueError:
        members = None
    if not isinstance(members, dict):
        members = {"arguments": arguments}
    return [
        (key, True, value.replace(_VALUE_END, _STRING_ESCAPED))
        if isinstance(value, str)
        else (key, False, dumps(value).replace(_VALUE_END, _JSON_ESCAPED))
        for key, value in members.items()
    ]
