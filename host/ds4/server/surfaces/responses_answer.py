"""One response as it comes to be: the engine's events become output items, and each step of theirs a stream's event.

Streamed or not, the items are the same ones, so a delta and the final object cannot disagree about an id or a text.
Items follow one another: a part is closed when the next begins, and what is open at the end has its end's status.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Event, Failed, Finished, KeepAlive, TokenLogprob
from ds4.server.surfaces.generation import dump, timings
from ds4.server.surfaces.responses_items import seal
from ds4.server.surfaces.responses_request import ResponsesRequest, item_id
from ds4.server.surfaces.responses_tools import CustomInput, Tool

_quote = json.encoder.encode_basestring
ItemStatus = Literal["in_progress", "completed", "incomplete"]
_ENDS = {"completed": "response.completed", "failed": "response.failed"}


class ResponseAnswer:
    """token_bytes: a token's bytes, for log-probabilities."""

    def __init__(self, asked: ResponsesRequest, token_bytes: Callable[[int], bytes]) -> None:
        self._asked, self._token_bytes = asked, token_bytes
        self._streamed = asked.generation.stream
        self._sequence = 0
        self._unsent = b""
        self._items: list[_Open] = []
        self._open: _Open | None = None
        self._calls: dict[int, _Call | None] = {}  # by the engine's number; None: more than the client takes
        self._state: dict[str, Any] = {"status": "queued" if asked.background else "in_progress"}

    @property
    def ended(self) -> bool:
        return self._state["status"] not in ("queued", "in_progress")

    @property
    def body(self) -> dict[str, Any]:
        """The response as it is now, without its output."""
        fixed = {"error": None, "incomplete_details": None, "completed_at": None, "usage": None}
        return {**self._asked.head, **fixed, **self._state}

    @property
    def output(self) -> list[dict[str, Any]]:
        return [one.item() for one in self._items]

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
        self._asked.head["store"] = False

    def glimpse(self, event: Delta) -> bytes | None:
        """The stream's event of a delta that only continues the open part, without taking it."""
        part = self._open
        if not isinstance(part, _Text) or event.logprobs is not None or part.reasons != event.reasoning:
            return None
        return b"%b%b%b%d}\n\n" % (part.before, _quote(event.text).encode(), part.after, self._sequence)

    def commit(self, event: Delta) -> None:
        """The client has what `glimpse` gave."""
        assert isinstance(self._open, _Text)
        self._open.pieces.append(event.text)
        self._sequence += 1

    # ---- items -----------------------------------------------------------------------------------------------------

    def _text(self, event: Delta) -> bytes:
        out = b""
        if not isinstance(self._open, _Text) or self._open.reasons != event.reasoning:
            out = self._close("completed")
            out += self._begin(self._new_text(event.reasoning))
        part = self._open
        assert isinstance(part, _Text)
        entries = [] if event.logprobs is None or event.reasoning else self._logprobs(event.logprobs)
        if not event.text and not entries:
            return out
        part.pieces.append(event.text)
        part.logprobs += entries
        more = {} if event.reasoning else {"logprobs": entries}
        return out + self._emit(part.delta_event, **part.where, delta=event.text, **more)

    def _new_text(self, reasons: bool) -> _Text:
        index = len(self._items)
        if not reasons:
            return _Message(index)
        return (_Summary if self._asked.summary else _Reasoning)(index, self._asked.sealed)

    def _call(self, event: CallDelta) -> bytes:
        out = b""
        call: _Call | None
        if event.index not in self._calls:
            if not self._asked.parallel and any(call is not None and not call.void for call in self._calls.values()):
                self._calls[event.index] = None
            else:
                out = self._close("completed")
                call = self._calls[event.index] = _Call(len(self._items), event, self._asked.tools.of(event.name))
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
            self._items = [one for one in self._items if not (isinstance(one, _Call) and one.void)]
            for index, one in enumerate(self._items):
                one.index = index
            if self._items and isinstance(self._items[-1], _Message):
                self._open = self._items[-1]  # the text goes on
                self._open.status = "in_progress"
        return out

    def _begin(self, part: _Open) -> bytes:
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
            self._state["completed_at"] = int(time.time())
        self._state |= {"usage": _usage(end), "timings": timings([end], 1)}
        return out

    def _fail(self, error: ApiError) -> bytes:
        out = self._close("incomplete")
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        self._state = {"status": "failed", "error": {"code": code, "message": error.message}}
        return out

    # ---- events ----------------------------------------------------------------------------------------------------

    def _lifecycle(self, kind: str, *, alive: bool = False) -> bytes:
        # A sign of life need not say again what has been said.
        output = [] if alive else self.output
        return self._emit(kind, response={**self.body, "output": output})

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


Told = list[tuple[str, dict[str, Any]]]


class _Open(ABC):
    """An output item, and what a stream tells of its parts. where: the fields that place a delta."""

    delta_event = ""

    def __init__(self, index: int, prefix: str) -> None:
        self.id, self.index = item_id(prefix), index
        self.status: ItemStatus = "in_progress"
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def where(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index}

    @abstractmethod
    def item(self) -> dict[str, Any]: ...

    def opened(self) -> Told:
        return []

    def closed(self) -> Told:
        return []

    def finish(self) -> str:
        """What is known only now that the item is complete."""
        return ""


class _Text(_Open):
    """An item of one part that is text. before, after: what stands around the text of a delta in a stream's event."""

    reasons = False
    place = "content_index"
    part_event = "response.content_part"
    after = b',"sequence_number":'

    def __init__(self, index: int, prefix: str) -> None:
        super().__init__(index, prefix)
        self.logprobs: list[dict[str, Any]] = []
        kind = self.delta_event
        head = dump({"type": kind, **self.where})[:-1]
        self.before = b'event: %b\ndata: %b,"delta":' % (kind.encode(), head)

    @property
    def where(self) -> dict[str, Any]:
        return {**super().where, self.place: 0}

    @abstractmethod
    def part(self) -> dict[str, Any]: ...

    def opened(self) -> Told:
        return [(f"{self.part_event}.added", {**self.where, "part": self.part()})]

    def closed(self) -> Told:
        done = self.delta_event.removesuffix("delta") + "done"
        more = {"logprobs": self.logprobs} if not self.reasons else {}
        return [
            (done, {**self.where, "text": self.text, **more}),
            (f"{self.part_event}.done", {**self.where, "part": self.part()}),
        ]


class _Message(_Text):
    delta_event = "response.output_text.delta"
    after = b',"logprobs":[],"sequence_number":'

    def __init__(self, index: int) -> None:
        super().__init__(index, "msg")

    def part(self) -> dict[str, Any]:
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs}

    def item(self) -> dict[str, Any]:
        content = [] if self.status == "in_progress" and not self.pieces else [self.part()]
        return {"id": self.id, "type": "message", "status": self.status, "role": "assistant", "content": content}


class _Reasoning(_Text):
    """What was thought, in the clear."""

    reasons = True
    delta_event = "response.reasoning_text.delta"

    def __init__(self, index: int, sealed: bool) -> None:
        super().__init__(index, "rs")
        self._sealed = sealed

    def part(self) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": self.text}

    def item(self) -> dict[str, Any]:
        parts = [] if self.status == "in_progress" and not self.pieces else [self.part()]
        item = {"id": self.id, "type": "reasoning", "status": self.status, **self._holding(parts)}
        if self._sealed:
            item["encrypted_content"] = seal(self.text)
        return item

    def _holding(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"summary": [], "content": parts}


class _Summary(_Reasoning):
    """For clients that show summaries only: what was thought stands in for one."""

    delta_event = "response.reasoning_summary_text.delta"
    place = "summary_index"
    part_event = "response.reasoning_summary_part"

    def part(self) -> dict[str, Any]:
        return {"type": "summary_text", "text": self.text}

    def _holding(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"summary": parts}


class _Call(_Open):
    """A tool call. void: it turned out none."""

    def __init__(self, index: int, event: CallDelta, tool: Tool) -> None:
        super().__init__(index, "ctc" if tool.custom else "fc")
        self._call_id, self._tool = event.id, tool
        self._custom = CustomInput() if tool.custom else None
        self.void = False
        self.delta_event = (
            "response.custom_tool_call_input.delta" if tool.custom else "response.function_call_arguments.delta"
        )

    def push(self, arguments: str) -> str:
        more = arguments if self._custom is None else self._custom.push(arguments)
        self.pieces.append(more)
        return more

    def finish(self) -> str:
        more = "" if self._custom is None else self._custom.finish()
        self.pieces.append(more)
        return more

    def item(self) -> dict[str, Any]:
        kind, name = ("custom_tool_call", "input") if self._custom else ("function_call", "arguments")
        item = {"id": self.id, "type": kind, "status": self.status, "call_id": self._call_id}
        if self._tool.namespace:
            item["namespace"] = self._tool.namespace
        return {**item, "name": self._tool.name, name: self.text}

    def closed(self) -> Told:
        """Arguments that were cut off are never done."""
        if self.status != "completed":
            return []
        done = self.delta_event.removesuffix("delta") + "done"
        if self._custom:
            return [(done, {**self.where, "input": self.text})]
        return [(done, {**self.where, "name": self._tool.name, "arguments": self.text})]


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
