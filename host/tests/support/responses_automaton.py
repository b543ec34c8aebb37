"""What a stream of the Responses API may be: an automaton made from the published reference of its events.

`check` follows one stream and gives its final response; anything out of order, missing, double or contradicting what
was told before is an AssertionError that names the event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Event = dict[str, Any]

_TERMINAL = {
    "response.completed": ("completed",),
    "response.incomplete": ("incomplete", "cancelled"),
    "response.failed": ("failed",),
}
# kind of part: (stem of the part's events, stem of the text's events, name of the index, type of the part)
_PARTS = {
    "message": ("response.content_part", "response.output_text", "content_index", "output_text"),
    "reasoning": ("response.content_part", "response.reasoning_text", "content_index", "reasoning_text"),
    "summary": (
        "response.reasoning_summary_part",
        "response.reasoning_summary_text",
        "summary_index",
        "summary_text",
    ),
}
_CALLS = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}


def parse(raw: bytes) -> list[Event]:
    """The events of a stream's bytes. Comments are no events."""
    events = []
    for message in raw.decode().split("\n\n"):
        lines = [line for line in message.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        assert len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "), message
        event = json.loads(lines[1][6:])
        assert event["type"] == lines[0][7:], message
        events.append(event)
    return events


def check(events: list[Event]) -> dict[str, Any]:
    """The final response of a stream that is right."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return _Stream(events).run()


class _Stream:
    def __init__(self, events: list[Event]) -> None:
        self._id = events[0]["response"]["id"]
        self._events: Iterator[Event] = iter(events)
        self._output: list[dict[str, Any]] = []

    def next(self) -> Event:
        """The next event that is no sign of life."""
        for event in self._events:
            if event["type"] != "response.in_progress":
                return event
            self._lifecycle(event, "in_progress")
        raise AssertionError("the stream ended without a last event")

    def _lifecycle(self, event: Event, *statuses: str) -> dict[str, Any]:
        response: dict[str, Any] = event["response"]
        assert response["id"] == self._id and response["object"] == "response", event
        assert response["status"] in statuses, event
        return response

    def run(self) -> dict[str, Any]:
        created = next(self._events)
        assert created["type"] == "response.created", created
        assert self._lifecycle(created, "in_progress")["output"] == []
        progress = next(self._events)
        assert progress["type"] == "response.in_progress", progress
        self._lifecycle(progress, "in_progress")
        while True:
            event = self.next()
            if event["type"] in _TERMINAL:
                return self._end(event)
            self._item(event)

    def _end(self, event: Event) -> dict[str, Any]:
        response = self._lifecycle(event, *_TERMINAL[event["type"]])
        assert response["output"] == self._output, "the final object is what the stream told"
        assert (response["error"] is not None) == (response["status"] == "failed"), response
        assert (response["incomplete_details"] is not None) == (response["status"] == "incomplete"), response
        assert (response["completed_at"] is not None) == (response["status"] == "completed"), response
        usage = response["usage"]
        assert (usage is not None) == (response["status"] in ("completed", "incomplete")), response
        if usage is not None:
            assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
            assert usage["input_tokens_details"]["cached_tokens"] <= usage["input_tokens"]
            assert usage["output_tokens_details"]["reasoning_tokens"] <= usage["output_tokens"]
        for item in response["output"][:-1]:
            assert item["status"] == "completed" or item["type"] in _CALLS, "only the last item can be cut"
        assert not list(self._events), "nothing follows the last event"
        return response

    def _item(self, added: Event) -> None:
        assert added["type"] == "response.output_item.added", added
        assert added["output_index"] == len(self._output), added
        item = added["item"]
        assert item["status"] == "in_progress", added
        where = {"item_id": item["id"], "output_index": added["output_index"]}
        if item["type"] in _CALLS:
            done = self._call(item, where)
        else:
            done = self._text(item, where)
        assert done["type"] == "response.output_item.done", done
        assert done["output_index"] == added["output_index"], done
        assert done["item"]["status"] in ("completed", "incomplete"), done
        kept = {key: value for key, value in item.items() if key in ("id", "type", "name", "call_id", "namespace")}
        assert kept.items() <= done["item"].items(), "an item stays what it is"
        self._output.append(done["item"])

    def _deltas(self, event: Event, kind: str, where: dict[str, Any]) -> tuple[str, Event]:
        """The text of a run of deltas, and the event behind it."""
        pieces = []
        while event["type"] == kind:
            assert where.items() <= event.items(), event
            assert event["delta"], "a delta says something"
            pieces.append(event["delta"])
            event = self.next()
        return "".join(pieces), event

    def _call(self, item: dict[str, Any], where: dict[str, Any]) -> Event:
        stem, field = _CALLS[item["type"]]
        assert item[field] == "" and item["call_id"].startswith("call_"), item
        assert item["id"].startswith("fc_" if item["type"] == "function_call" else "ctc_"), item
        text, event = self._deltas(self.next(), f"{stem}.delta", where)
        if event["type"] == f"{stem}.done":
            assert where.items() <= event.items() and event[field] == text, event
            event = self.next()
            assert event["item"]["status"] == "completed", event
        else:
            assert event["item"]["status"] == "incomplete", "a call that is complete says so"
        assert event["item"][field] == text, event
        return event

    def _text(self, item: dict[str, Any], where: dict[str, Any]) -> Event:
        first = self.next()
        name = "summary" if first["type"].startswith("response.reasoning_summary") else str(item["type"])
        part, stem, index, kind = _PARTS[name]
        assert item["id"].startswith("msg_" if name == "message" else "rs_"), item
        where = {**where, index: 0}
        assert first["type"] == f"{part}.added" and where.items() <= first.items(), first
        assert first["part"]["type"] == kind and first["part"]["text"] == "", first
        text, event = self._deltas(self.next(), f"{stem}.delta", where)
        assert event["type"] == f"{stem}.done" and where.items() <= event.items(), event
        assert event["text"] == text, event
        event = self.next()
        assert event["type"] == f"{part}.done" and where.items() <= event.items(), event
        assert event["part"]["type"] == kind and event["part"]["text"] == text, event
        done = self.next()
        held = done["item"]["summary" if name == "summary" else "content"]
        assert held == [event["part"]], done
        return done
