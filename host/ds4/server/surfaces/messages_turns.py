"""A conversation of the Messages API as the core's messages: what clients vary from turn to turn is made the same.

Nothing here may depend on what differs between two requests of one conversation, or no prefix is found again: content
as a string and as one text block, cache_control wherever it stands, and attribution lines all come to the same
messages. Between two answers results of tools come first, and the texts are one user's message.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ds4.core.json_kinds import kind
from ds4.core.json_text import dumps
from ds4.server.errors import invalid
from ds4.server.request import Body, base64_text, text, wrong_type

_ATTRIBUTION = "x-anthropic-"
"""How lines begin that tell about the request instead of the model's task; they differ from one request to the next."""

_HIDDEN = "ds4-thinking:"


def hidden_signature(thought: str) -> str:
    """A thinking block's signature that brings back a thought which the client does not want to see."""
    return _HIDDEN + base64.urlsafe_b64encode(thought.encode()).decode()


def read_system(body: Body) -> str:
    """The system prompt, without attribution; "" where there is none."""
    value = body.get("system")
    return "" if value is None else _system(value, "system")


def read_turns(body: Body) -> list[dict[str, Any]]:
    """The system prompt and the conversation. An answer at the end is to be continued (`prefix`)."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise wrong_type("messages", "an array of messages", messages)
    if not messages:
        raise invalid("'messages' must hold at least one message.", "messages")
    turns = _Turns()
    if system := read_system(body):
        turns.system.append(system)
    for index, item in enumerate(messages):
        path = f"messages[{index}]"
        if not isinstance(item, dict):
            raise wrong_type(path, "an object", item)
        turns.add(Body(item, path))
    return turns.done()


@dataclass(slots=True)
class _Answer:
    """The model's turn."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def message(self) -> dict[str, Any]:
        made: dict[str, Any] = {"role": "assistant", "content": "".join(self.texts)}
        if thought := "".join(self.thoughts):
            made["reasoning_content"] = thought
        if self.calls:
            made["tool_calls"] = self.calls
        return made


class _Turns:
    """Puts messages together: neighbours of one side are one turn, as the API has it."""

    def __init__(self) -> None:
        self.system: list[str] = []  # texts in front of the conversation
        self._out: list[dict[str, Any]] = []
        self._results: list[dict[str, Any]] = []  # of the user's turn that is being read
        self._texts: list[str] | None = None
        self._answer: _Answer | None = None

    def add(self, message: Body) -> None:
        role, content, path = message.text("role"), message.get("content"), message.param("content")
        match role:
            case "user":
                self._end_answer()
                self._user(content, path)
            case "assistant":
                self._end_user()
                self._assistant(content, path)
            case "system":
                said = _system(content, path)
                if self._out or self._answer is not None or self._texts is not None or self._results:
                    # Moved to the front it would change the prefix of all that came before it.
                    self._end_answer()
                    self._say(f"<system>\n{said}\n</system>" if said else "")
                elif said:
                    self.system.append(said)
            case _:
                shown = "missing" if role is None else repr(role[:40])
                raise invalid(
                    f"'{message.param('role')}' must be user, assistant or system, not {shown}.", message.param("role")
                )

    def done(self) -> list[dict[str, Any]]:
        self._end_user()
        last = self._answer
        self._end_answer()
        if last is not None and not last.calls:
            self._out[-1]["prefix"] = True
        system = [{"role": "system", "content": "\n\n".join(self.system)}] if self.system else []
        return system + self._out

    def _end_user(self) -> None:
        self._out += self._results
        if self._texts is not None and (self._texts or not self._results):
            self._out.append({"role": "user", "content": "\n\n".join(self._texts)})
        self._results, self._texts = [], None

    def _end_answer(self) -> None:
        if self._answer is not None:
            self._out.append(self._answer.message())
            self._answer = None

    def _say(self, said: str) -> None:
        if self._texts is None:
            self._texts = []
        if said:
            self._texts.append(said)

    def _user(self, content: object, path: str) -> None:
        if isinstance(content, str):
            self._say(text(content, path))
            return
        self._say("")
        for block in _blocks(content, path):
            if block.get("type") == "tool_result":
                self._results.append(_result(block))
            else:
                self._say(_readable(block))

    def _assistant(self, content: object, path: str) -> None:
        if self._answer is None:
            self._answer = _Answer()
        answer = self._answer
        if content is None:
            return
        if isinstance(content, str):
            answer.texts.append(text(content, path))
            return
        for block in _blocks(content, path):
            match block.get("type"):
                case "text":
                    answer.texts.append(_text(block))
                case "thinking":
                    answer.thoughts.append(_thought(block))
                case "redacted_thinking":
                    pass  # another model's, and closed to this one
                case "tool_use":
                    answer.calls.append(_call(block))
                case _:
                    raise _unknown(block)


def _system(content: object, path: str) -> str:
    if isinstance(content, str):
        return _without_attribution(text(content, path))
    texts = []
    for block in _blocks(content, path):
        if block.get("type") != "text":
            raise _unknown(block)
        texts.append(_without_attribution(_text(block)))
    return "\n\n".join([said for said in texts if said])


def _without_attribution(said: str) -> str:
    """The text without the attribution lines that it begins with."""
    at = 0
    while said.startswith(_ATTRIBUTION, at):
        if (at := said.find("\n", at)) < 0:
            return ""
        while said.startswith("\n", at):
            at += 1
    return said[at:]


def _blocks(content: object, path: str) -> list[Body]:
    if not isinstance(content, list):
        raise wrong_type(path, "a string or an array of content blocks", content)
    for index, item in enumerate(content):
        if not isinstance(item, dict):
            raise wrong_type(f"{path}[{index}]", "an object", item)
    return [Body(item, f"{path}[{index}]") for index, item in enumerate(content)]


def _unknown(block: Body) -> Exception:
    found = block.get("type")
    shown = repr(found[:40]) if isinstance(found, str) else kind(found)
    return invalid(f"This model reads text only; '{block.param('type')}' is {shown}.", block.param("type"))


def _text(block: Body) -> str:
    return text(block.get("text"), block.param("text"))


def _readable(block: Body) -> str:
    """The text of a block that is text, or has text in it."""
    match block.get("type"):
        case "text":
            return _text(block)
        case "search_result":
            return _joined([block.text("title"), block.text("source"), *_inner(block, "content", _readable)])
        case "document":
            source = block.nested("source")
            head = [block.text("title"), block.text("context")]
            if source.get("type") == "text":
                return _joined([*head, text(source.get("data"), source.param("data"))])
            if source.get("type") == "content":
                return _joined([*head, *_inner(source, "content", _readable)])
    raise _unknown(block)


def _inner(block: Body, name: str, read: Callable[[Body], str]) -> list[str]:
    content = block.get(name)
    if content is None:
        return []
    if isinstance(content, str):
        return [text(content, block.param(name))]
    return [read(inner) for inner in _blocks(content, block.param(name))]


def _joined(texts: list[str | None]) -> str:
    return "\n\n".join([said for said in texts if said])


def _result(block: Body) -> dict[str, Any]:
    call = block.text("tool_use_id")
    if not call:
        raise invalid(f"'{block.param('tool_use_id')}' is required.", block.param("tool_use_id"), "missing_field")
    said = "\n\n".join([part for part in _inner(block, "content", _result_part) if part])
    if block.boolean("is_error") and "error" not in said[:32].lower():
        said = f"Error: {said}" if said else "Error"
    return {"role": "tool", "tool_call_id": call, "content": said}


def _result_part(block: Body) -> str:
    """What a tool gave that is no text is named in its place: the call was made, and what it said besides counts."""
    match block.get("type"):
        case "text" | "search_result":
            return _readable(block)
        case "document" if block.nested("source").get("type") in ("text", "content"):
            return _readable(block)
        case "tool_reference":
            return f"The tool {block.text('tool_name') or ''} can be called."
        case str(other):
            return f"[Unsupported {text(other, block.param('type'))[:40]}]"
    raise _unknown(block)


def _call(block: Body) -> dict[str, Any]:
    name = block.text("name")
    if not name:
        raise invalid(f"'{block.param('name')}' is required.", block.param("name"), "missing_field")
    arguments = dumps(dict(block.nested("input").data))
    text(arguments, block.param("input"))
    return {"id": block.text("id") or "", "type": "function", "function": {"name": name, "arguments": arguments}}


def _thought(block: Body) -> str:
    """What was thought; from the signature if it was hidden from the client. Others' signatures say nothing here."""
    shown = block.text("thinking") or ""
    signature = block.text("signature") or ""
    if shown or not signature.startswith(_HIDDEN):
        return shown
    try:
        return base64_text(signature[len(_HIDDEN) :], b"-_")
    except ValueError:
        param = block.param("signature")
        raise invalid(f"'{param}' is not as this server gave it.", param) from None
