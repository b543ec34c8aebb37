"""An answer in the protocol of the Messages API, whole or as its events:

message_start (content_block_start content_block_delta* content_block_stop)* message_delta message_stop, pings between.

Blocks follow one another, each of one kind, in the order in which the model wrote them. A tool block that turns out
malformed leaves its calls in a stream, which has told of them; the text it was follows as what it is, and stop_reason
is not tool_use. A whole answer has only that text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ds4.core.json_text import WHITE, deep, unlimited
from ds4.server.envelopes import anthropic_error
from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Finished
from ds4.server.surfaces.messages_turns import hidden_signature
from ds4.server.surfaces.rendering import Answer, Renderer, dump, one_line, quote

_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


def _event(name: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dump({"type": name, **data}))


@dataclass(frozen=True, slots=True)
class MessagesFacts:
    """What an answer says about its request.

    prompt: its tokens. writes: what was computed of it is kept, and the client asked for that. hides: thinking is not
    shown. warms: there is no answer. request_id: of the HTTP request, for errors.
    """

    id: str
    model: str
    prompt: int
    writes: bool = False
    hides: bool = False
    warms: bool = False
    request_id: str = ""


class MessagesRenderer(Renderer):
    def __init__(self, facts: MessagesFacts) -> None:
        self._facts = facts
        self._open: str | int | None = None  # the block that is: "text", "thinking", or the number of a call
        self._index = -1  # of the last block
        self._before = self._after = b""  # around the text of its deltas
        self._hidden: list[str] = []  # thoughts that are not shown

    # ---- a stream --------------------------------------------------------------------------------------------------

    def opening(self) -> bytes:
        usage = {
            "input_tokens": self._facts.prompt,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
            "service_tier": "standard",
        }
        return _event("message_start", message=self._message([], None, None, usage))

    def at_once(self, event: Delta) -> bytes | None:
        hidden = event.reasoning and self._facts.hides
        if self._open != ("thinking" if event.reasoning else "text") or hidden or self._facts.warms:
            return None
        return self.delta(event)

    def delta(self, event: Delta) -> bytes:
        if self._facts.warms:
            return b""
        kind = "thinking" if event.reasoning else "text"
        begun = b"" if self._open == kind else self._begin(kind, _empty(kind))
        if event.reasoning and self._facts.hides:
            self._hidden.append(event.text)
            return begun
        return b"%b%b%b%b" % (begun, self._before, quote(event.text), self._after)

    def call(self, event: CallDelta) -> bytes:
        if self._facts.warms:
            return b""
        begun = b""
        if event.id:
            begun = self._begin(event.index, {"type": "tool_use", "id": event.id, "name": event.name, "input": {}})
        if not event.arguments:
            return begun
        if event.index != self._open:
            raise AssertionError(f"arguments of call {event.index} while {self._open!r} is open")
        return b"%b%b%b%b" % (begun, self._before, quote(event.arguments), self._after)

    def _begin(self, what: str | int, block: dict[str, Any]) -> bytes:
        ended = self._end()
        self._open = what
        self._index += 1
        kind, key = ("input_json_delta", "partial_json") if isinstance(what, int) else _DELTAS[what]
        delta = _event("content_block_delta", index=self._index, delta={"type": kind, key: 0})
        before, _, after = delta.rpartition(b'":0')
        self._before, self._after = before + b'":', after
        return ended + _event("content_block_start", index=self._index, content_block=block)

    def _end(self) -> bytes:
        if self._open is None:
            return b""
        signed = b""
        if self._open == "thinking":
            delta = {"type": "signature_delta", "signature": self._signature("".join(self._hidden))}
            signed = _event("content_block_delta", index=self._index, delta=delta)
            self._hidden.clear()
        self._open = None
        return signed + _event("content_block_stop", index=self._index)

    def finished(self, event: Finished) -> bytes:
        reason, stop = self._reason(event)
        delta = {"stop_reason": reason, "stop_sequence": stop}
        return self._end() + _event("message_delta", delta=delta, usage=self._usage(event))

    def closing(self, ends: list[Finished]) -> bytes:
        return _event("message_stop")

    def heartbeat(self) -> bytes:
        return _PING

    def error(self, error: ApiError) -> bytes:
        return anthropic_error(error, self._facts.request_id)

    def failed(self, error: ApiError) -> bytes:
        return b"event: error\ndata: %b\n\n" % self.error(error)

    # ---- whole -----------------------------------------------------------------------------------------------------

    def buffered(self, answers: list[Answer]) -> bytes:
        (answer,) = answers
        end = answer.finished
        assert end is not None
        reason, stop = self._reason(end)
        blocks = [] if self._facts.warms else self._blocks(answer.parts)
        usage = {**self._usage(end), "service_tier": "standard"}
        before, _, after = dump(self._message(0, reason, stop, usage)).partition(b'"content":0')
        return b'%b"content":[%b]%b' % (before, b",".join(blocks), after)

    def _blocks(self, parts: Iterable[Delta | CallDelta | CallsVoid]) -> list[bytes]:
        made: list[tuple[str | int, dict[str, Any], list[str]]] = []  # what it is, its head, its text
        for part in parts:
            match part:
                case Delta():
                    kind = "thinking" if part.reasoning else "text"
                    if not made or made[-1][0] != kind:
                        made.append((kind, _empty(kind), []))
                    made[-1][2].append(part.text)
                case CallDelta():
                    if part.id:
                        made.append((part.index, {"type": "tool_use", "id": part.id, "name": part.name}, []))
                    if part.arguments:
                        assert made[-1][0] == part.index, f"arguments of call {part.index} behind {made[-1][0]!r}"
                        made[-1][2].append(part.arguments)
                case CallsVoid():
                    made = [block for block in made if isinstance(block[0], str) or block[0] < part.first]
        return [self._block(what, head, "".join(texts)) for what, head, texts in made]

    def _block(self, what: str | int, head: dict[str, Any], said: str) -> bytes:
        if what == "text":
            return dump({**head, "text": said})
        if what == "thinking":
            hidden = self._facts.hides
            shown = "" if hidden else said
            return dump({**head, "thinking": shown, "signature": self._signature(said if hidden else "")})
        return dump(head)[:-1] + b',"input":%b}' % _input(said)

    # ---- both ------------------------------------------------------------------------------------------------------

    def _message(self, content: Any, reason: str | None, stop: str | None, usage: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": self._facts.id,
            "type": "message",
            "role": "assistant",
            "model": self._facts.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": stop,
            "usage": usage,
        }

    def _signature(self, hidden: str) -> str:
        """Clients send thinking back only if it is signed. A shown thought needs no proof: what a client says that the
        model thought is as good as anything else it says."""
        return hidden_signature(hidden) if self._facts.hides else self._facts.id

    def _reason(self, end: Finished) -> tuple[str, str | None]:
        if self._facts.warms or end.reason == "length":
            return "max_tokens", None
        if end.reason == "tool_calls":
            return "tool_use", None
        return ("end_turn", None) if end.stop is None else ("stop_sequence", end.stop)

    def _usage(self, end: Finished) -> dict[str, Any]:
        """The three kinds of input come to the whole prompt. Its last token is always computed, and never written."""
        computed = end.prompt_tokens - end.cached_tokens
        written = computed - 1 if self._facts.writes else 0
        warms = self._facts.warms
        return {
            "input_tokens": computed - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": end.cached_tokens,
            "output_tokens": 0 if warms else end.completion_tokens,
            "output_tokens_details": {"thinking_tokens": 0 if warms else end.reasoning_tokens},
        }


def _empty(kind: str) -> dict[str, Any]:
    return {"type": "text", "text": ""} if kind == "text" else {"type": "thinking", "thinking": "", "signature": ""}


_value = unlimited.raw_decode  # its values are not used


def _input(arguments: str) -> bytes:
    """A call's arguments as an object's JSON: whole ones as the model wrote them, numbers too."""
    try:
        if not deep(arguments) and isinstance(unlimited.decode(arguments), dict):
            return one_line(arguments)
    except ValueError:
        pass
    return one_line(whole_members(arguments))


def whole_members(cut: str) -> str:
    """What is certain of an object's JSON that was cut off: its members up to the last one that something follows. Half
    a string is no value: what is left of a command must not look like one."""
    made: list[str] = []

    def skip(at: int) -> int:
        while at < len(cut) and cut[at] in WHITE:
            at += 1
        return at

    at = skip(0)
    try:
        while cut[at : at + 1] in ("{", ","):
            begin = skip(at + 1)
            name, at = _value(cut, begin)
            at = skip(at)
            if not isinstance(name, str) or cut[at : at + 1] != ":":
                break
            value = skip(at + 1)
            _, end = _value(cut, value)
            at = skip(end)
            if cut[at : at + 1] not in (",", "}") or deep(cut[value:end]):
                break
            made.append(cut[begin:end])
    except (ValueError, RecursionError):
        pass
    return "{" + ", ".join(made) + "}"
