"""One response as it comes to be: the engine's events become output items, and each step of theirs a stream's event.

Streamed or not, the items are the same ones, so a delta and the final object cannot disagree about an id or a text.
Items follow one another: a part is closed when the next begins, and what is open at the end has its end's status.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Event, Failed, Finished, KeepAlive, TokenLogprob
from ds4.server.request import new_suffix
from ds4.server.surfaces.rendering import TokenBytes, dump, quote, timings
from ds4.server.surfaces.responses_parts import Call, ItemStatus, Message, Open, Reasoning, Summary, Text
from ds4.server.surfaces.responses_tools import Tool

_ENDS = {"completed": "response.completed", "failed": "response.failed"}


class Outside:
    """What a response takes from the outside: the ends of its items' ids, and the time at which it was finished. Who
    asks again for the same gets the same."""

    def __init__(self) -> None:
        self._suffixes: list[str] = []
        self._finished: int | None = None

    def suffix(self, number: int) -> str:
        while len(self._suffixes) <= number:
            self._suffixes.append(new_suffix())
        return self._suffixes[number]

    def finished(self) -> int:
        """Seconds since 1970, when this is asked for the first time."""
        if self._finished is None:
            self._finished = int(time.time())
        return self._finished


@dataclass(frozen=True, slots=True)
class ResponseFacts:
    """What an answer says about its request, and how it is told.

    members: of the response object, as JSON. tools: by the names that the model has for them. queued: it is made in the
    background. summary: reasoning is told as a summary, not as content; sealed: it comes sealed too; parallel: an
    answer may call more than one tool.
    """

    members: Mapping[str, bytes]
    tools: Mapping[str, Tool] = field(default_factory=dict)
    queued: bool = False
    summary: bool = False
    sealed: bool = False
    parallel: bool = True
    outside: Outside = field(default_factory=Outside)


class ResponseAnswer:
    quick = True

    def __init__(self, facts: ResponseFacts, streamed: bool, token_bytes: TokenBytes) -> None:
        self._facts, self._token_bytes = facts, token_bytes
        self._members = dict(facts.members)
        self._streamed = streamed
        self._sequence = self._begun = 0
        self._unsent = b""
        self._items: list[Open] = []
        self._open: Open | None = None
        self._calls: dict[int, Call | None] = {}  # by the engine's number; None: more than the client takes
        self._state: dict[str, Any] = {"status": "queued" if facts.queued else "in_progress"}

    @property
    def ended(self) -> bool:
        return self._state["status"] not in ("queued", "in_progress")

    def whole(self) -> bytes:
        """The response as it is now."""
        return self._response([one.item() for one in self._items])

    def _response(self, output: list[dict[str, Any]]) -> bytes:
        fixed = {"error": None, "incomplete_details": None, "completed_at": None, "usage": None}
        members = [b"%b:%b" % (dump(name), value) for name, value in self._members.items()]
        return b"{%b" % b",".join([*members, dump({**fixed, **self._state, "output": output})[1:]])

    # ---- the engine's events ---------------------------------------------------------------------------------------

    def opening(self) -> bytes:
        return self._lifecycle("response.created") + self._lifecycle("response.in_progress")

    def closing(self) -> bytes:
        """The last event. A response that was cancelled has none of its own: it is incomplete."""
        return self._unsent + self._lifecycle(_ENDS.get(self._state["status"], "response.incomplete"))

    def take(self, event: Event) -> bytes:
        """What a stream says of an event; the last one is left to `closing`."""
        if self.ended:
            return b""  # it was cancelled while this was under way
        if self._state["status"] == "queued":
            self._state["status"] = "in_progress"
        match event:
            case Delta():
                return self._text(event)
            case CallDelta():
                return self._call(event)
            case CallsVoid():
                return self._void(event)
            case Finished():
                return self._finish(event)
            case Failed():
                return self._fail(event.error)
            case KeepAlive():
                return self._lifecycle("response.in_progress", alive=True)
        return b""

    def cancel(self) -> None:
        """Nobody waits for the rest."""
        self._unsent = self._close("incomplete")
        self._state = {"status": "cancelled"}

    def not_stored(self) -> None:
        """It was to be kept and could not be: it must not say that it is."""
        self._members["store"] = b"false"

    def at_once(self, event: Delta) -> bytes | None:
        """The stream's event of a delta that only continues the open part, without taking it."""
        part = self._open
        if not isinstance(part, Text) or event.logprobs is not None or part.reasons != event.reasoning:
            return None
        return b"%b%b%b%d}\n\n" % (part.before, quote(event.text), part.after, self._sequence)

    def said(self, event: Delta) -> None:
        """The client has what `at_once` gave."""
        assert isinstance(self._open, Text)
        self._open.pieces.append(event.text)
        self._sequence += 1

    # ---- items -----------------------------------------------------------------------------------------------------

    def _text(self, event: Delta) -> bytes:
        out = b""
        if not isinstance(self._open, Text) or self._open.reasons != event.reasoning:
            out = self._close("completed")
            out += self._begin(self._new_text(event.reasoning))
        part = self._open
        assert isinstance(part, Text)
        entries = [] if event.logprobs is None or event.reasoning else self._logprobs(event.logprobs)
        if not event.text and not entries:
            return out
        part.pieces.append(event.text)
        part.logprobs += entries
        more = {} if event.reasoning else {"logprobs": entries}
        return out + self._emit(part.delta_event, **part.where, delta=event.text, **more)

    def _id(self, prefix: str) -> str:
        self._begun += 1
        return f"{prefix}_{self._facts.outside.suffix(self._begun - 1)}"

    def _new_text(self, reasons: bool) -> Text:
        index = len(self._items)
        if not reasons:
            return Message(index, self._id("msg"))
        return (Summary if self._facts.summary else Reasoning)(index, self._id("rs"), self._facts.sealed)

    def _call(self, event: CallDelta) -> bytes:
        out = b""
        call: Call | None
        if event.index not in self._calls:
            if not self._facts.parallel and any(call is not None and not call.void for call in self._calls.values()):
                self._calls[event.index] = None
            else:
                out = self._close("completed")
                tool = self._facts.tools.get(event.name) or Tool(event.name)
                id = self._id("ctc" if tool.custom else "fc")
                call = self._calls[event.index] = Call(len(self._items), id, event.id, tool)
                out += self._begin(call)
        call = self._calls[event.index]
        if call is None or not event.arguments:
            return out
        assert call is self._open, "calls come one after another"
        if more := call.push(event.arguments):
            out += self._emit(call.delta_event, **call.where, delta=more)
        return out

    def _void(self, event: CallsVoid) -> bytes:
        """Their text follows as content. A stream cannot take back what it told: such a call stays, incomplete."""
        out = b""
        for index, call in self._calls.items():
            if call is None or index < event.first:
                continue
            call.void = True
            if call is self._open:
                out += self._close("incomplete")
        if not self._streamed:
            self._items = [one for one in self._items if not (isinstance(one, Call) and one.void)]
            for index, one in enumerate(self._items):
                one.index = index
            if self._items and isinstance(self._items[-1], Message):
                self._open = self._items[-1]  # the text goes on
                self._open.status = "in_progress"
        return out

    def _begin(self, part: Open) -> bytes:
        self._items.append(part)
        self._open = part
        added = self._emit("response.output_item.added", output_index=part.index, item=part.item())
        return added + b"".join(self._emit(kind, **fields) for kind, fields in part.opened())

    def _close(self, status: ItemStatus) -> bytes:
        part, self._open = self._open, None
        if part is None:
            return b""
        out = b""
        rest = part.finish() if status == "completed" else ""
        if rest:
            out = self._emit(part.delta_event, **part.where, delta=rest)
        part.status = status
        out += b"".join(self._emit(kind, **fields) for kind, fields in part.closed())
        return out + self._emit("response.output_item.done", output_index=part.index, item=part.item())

    # ---- ends ------------------------------------------------------------------------------------------------------

    def _finish(self, end: Finished) -> bytes:
        cut = end.reason == "length"
        out = self._close("incomplete" if cut else "completed")
        self._state = {"status": "incomplete" if cut else "completed"}
        if cut:
            self._state["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            self._state["completed_at"] = self._facts.outside.finished()
        self._state |= {"usage": _usage(end), "timings": timings([end], 1)}
        return out

    def _fail(self, error: ApiError) -> bytes:
        out = self._close("incomplete")
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        self._state = {"status": "failed", "error": {"code": code, "message": error.message}}
        return out if self._streamed else error.body()

    # ---- events ----------------------------------------------------------------------------------------------------

    def _lifecycle(self, kind: str, *, alive: bool = False) -> bytes:
        if not self._streamed:
            return b""
        # A sign of life need not say again what has been said.
        response = self._response([]) if alive else self.whole()
        self._sequence += 1
        head, number = kind.encode(), self._sequence - 1
        return b'event: %b\ndata: {"type":"%b","response":%b,"sequence_number":%d}\n\n' % (head, head, response, number)

    def _emit(self, kind: str, **fields: Any) -> bytes:
        if not self._streamed:
            return b""
        data = {"type": kind, **fields, "sequence_number": self._sequence}
        self._sequence += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), dump(data))

    def _logprobs(self, entries: list[TokenLogprob]) -> list[dict[str, Any]]:
        return [
            {**self._entry(e.token, e.logprob), "top_logprobs": [self._entry(token, value) for token, value in e.top]}
            for e in entries
        ]

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        data = self._token_bytes(token)
        return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


def _usage(end: Finished) -> dict[str, Any]:
    return {
        "input_tokens": end.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": end.cached_tokens,
            "cache_write_tokens": end.prompt_tokens - end.cached_tokens,
        },
        "output_tokens": end.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": end.reasoning_tokens},
        "total_tokens": end.prompt_tokens + end.completion_tokens,
    }
