"""The output items of a response: what each is to the client, and what a stream tells when it begins and ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

from ds4.server.surfaces.rendering import dump
from ds4.server.surfaces.responses_items import seal
from ds4.server.surfaces.responses_tools import CustomInput, Tool

ItemStatus = Literal["in_progress", "completed", "incomplete"]
Told = list[tuple[str, dict[str, Any]]]


class Open(ABC):
    """An output item, and what a stream tells of its parts. where: the fields that place a delta."""

    delta_event = ""

    def __init__(self, index: int, id: str) -> None:
        self.id, self.index = id, index
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


class Text(Open):
    """An item of one part that is text. before, after: what stands around the text of a delta in a stream's event."""

    reasons = False
    place = "content_index"
    part_event = "response.content_part"
    after = b',"sequence_number":'

    def __init__(self, index: int, id: str) -> None:
        super().__init__(index, id)
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


class Message(Text):
    delta_event = "response.output_text.delta"
    after = b',"logprobs":[],"sequence_number":'

    def part(self) -> dict[str, Any]:
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs}

    def item(self) -> dict[str, Any]:
        content = [] if self.status == "in_progress" and not self.pieces else [self.part()]
        return {"id": self.id, "type": "message", "status": self.status, "role": "assistant", "content": content}


class Reasoning(Text):
    """What was thought, in the clear."""

    reasons = True
    delta_event = "response.reasoning_text.delta"

    def __init__(self, index: int, id: str, sealed: bool) -> None:
        super().__init__(index, id)
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


class Summary(Reasoning):
    """For clients that show summaries only: what was thought stands in for one."""

    delta_event = "response.reasoning_summary_text.delta"
    place = "summary_index"
    part_event = "response.reasoning_summary_part"

    def part(self) -> dict[str, Any]:
        return {"type": "summary_text", "text": self.text}

    def _holding(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"summary": parts}


class Call(Open):
    """A tool call. void: it turned out none."""

    def __init__(self, index: int, id: str, call_id: str, tool: Tool) -> None:
        super().__init__(index, id)
        self._call_id, self._tool = call_id, tool
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
