"""The stream of a Messages answer checked event by event, as the published API describes it, and put together.

message_start, then blocks one after another (start, deltas of its kind, stop), numbered from 0 without a gap, then
message_delta and message_stop; ping anywhere; error anywhere, and nothing behind it.
"""

from __future__ import annotations

import json
from typing import Any

_BLOCKS = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
_DELTAS = {"text": {"text_delta"}, "thinking": {"thinking_delta", "signature_delta"}, "tool_use": {"input_json_delta"}}
_REASONS = {"end_turn", "max_tokens", "stop_sequence", "tool_use"}
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class StreamError(AssertionError):
    """The stream breaks the protocol."""


def _require(holds: object, what: str, event: Any) -> None:
    if not holds:
        raise StreamError(f"{what}: {json.dumps(event, ensure_ascii=False)[:300]}")


class MessageStream:
    """feed(bytes) in any pieces, then `end()` gives the message. pings: how many there were. error: the error event.

    The message's tool inputs are JSON text, for a call that was cut off has none that is whole.
    """

    def __init__(self) -> None:
        self._raw = b""
        self._state = "start"  # start, between, block, delta, over
        self.message: dict[str, Any] = {}
        self._signed = False
        self.pings = 0
        self.error: dict[str, Any] | None = None

    def feed(self, data: bytes) -> None:
        self._raw += data
        while b"\n\n" in self._raw:
            one, _, self._raw = self._raw.partition(b"\n\n")
            self._read(one.decode())

    def end(self) -> dict[str, Any]:
        _require(not self._raw, "half an event at the end", self._raw.decode("utf-8", "replace"))
        _require(self._state == "over", f"the stream ended in state {self._state!r}", self.message)
        return self.message

    def _read(self, raw: str) -> None:
        lines = raw.split("\n")
        _require(len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "), "form", raw)
        event = json.loads(lines[1][6:])
        _require(event.get("type") == lines[0][7:], "the event's name is its type", raw)
        _require(self._state != "over", "an event behind the end", event)
        name = event["type"]
        if name == "ping":
            _require(event == {"type": "ping"}, "a ping says nothing", event)
            self.pings += 1
        elif name == "error":
            _require(set(event) == {"type", "error", "request_id"}, "an error's fields", event)
            _require(isinstance(event["error"]["type"], str) and event["error"]["message"], "an error's text", event)
            self.error, self._state = event, "over"
        else:
            getattr(self, "_" + name, self._unknown)(event)

    def _unknown(self, event: Any) -> None:
        _require(False, "no such event", event)

    def _message_start(self, event: Any) -> None:
        _require(self._state == "start", "a second beginning", event)
        message = event["message"]
        _require(message["type"] == "message" and message["role"] == "assistant", "a message", event)
        _require(message["id"].startswith("msg_") and len(message["id"]) > 30, "an id nobody guesses", event)
        _require(message["content"] == [] and message["stop_reason"] is None, "nothing has been said", event)
        _require(message["stop_sequence"] is None and message["usage"]["input_tokens"] > 0, "usage", event)
        self.message, self._state = message, "between"

    def _content_block_start(self, event: Any) -> None:
        _require(self._state == "between", f"a block begins in state {self._state!r}", event)
        block = event["content_block"]
        if block["type"] == "tool_use":
            _require(set(block) == {"type", "id", "name", "input"} and block["input"] == {}, "a call's head", event)
            _require(block["id"].startswith("toolu_") and len(block["id"]) > 30 and block["name"], "a call", event)
            ids = [known["id"] for known in self.message["content"] if known["type"] == "tool_use"]
            _require(block["id"] not in ids, "an id of its own", event)
            block["input"] = ""
        else:
            _require(block == _BLOCKS.get(block["type"]), "an empty block of a known kind", event)
        content = self.message["content"]
        _require(event["index"] == len(content), "blocks are numbered in order", event)
        content.append(block)
        self._state, self._signed = "block", False

    def _content_block_delta(self, event: Any) -> None:
        block, delta = self._block(event), event["delta"]
        kind = delta["type"]
        _require(kind in _DELTAS[block["type"]], f"a delta of a {block['type']} block", event)
        _require(not self._signed, "nothing follows a signature", event)
        match kind:
            case "text_delta":
                _require(delta["text"], "some text", event)
                block["text"] += delta["text"]
            case "thinking_delta":
                _require(delta["thinking"], "some thought", event)
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                _require(delta["signature"], "a signature", event)
                block["signature"], self._signed = delta["signature"], True
            case "input_json_delta":
                block["input"] += delta["partial_json"]

    def _content_block_stop(self, event: Any) -> None:
        block = self._block(event)
        _require(block["type"] != "thinking" or self._signed, "a thought is signed", event)
        _require(block["type"] != "text" or block["text"], "a text says something", event)
        self._state = "between"

    def _block(self, event: Any) -> dict[str, Any]:
        content = self.message.get("content", [])
        _require(self._state == "block" and event["index"] == len(content) - 1, "the open block", event)
        block: dict[str, Any] = content[-1]
        return block

    def _message_delta(self, event: Any) -> None:
        _require(self._state == "between", f"the end in state {self._state!r}", event)
        delta, usage = event["delta"], event["usage"]
        reason = delta["stop_reason"]
        _require(reason in _REASONS, "a reason", event)
        _require((reason == "stop_sequence") == (delta["stop_sequence"] is not None), "the stop's text", event)
        calls = [block for block in self.message["content"] if block["type"] == "tool_use"]
        if reason == "tool_use":
            _require(calls and isinstance(json.loads(calls[-1]["input"]), dict), "a call to make", event)
        before = self.message["usage"]
        _require(sum(usage[name] for name in _INPUT) == sum(before[name] for name in _INPUT), "the prompt", event)
        _require(usage["output_tokens"] >= usage["output_tokens_details"]["thinking_tokens"] >= 0, "output", event)
        self.message |= delta
        self.message["usage"] = {**before, **usage}
        self._state = "delta"

    def _message_stop(self, event: Any) -> None:
        _require(self._state == "delta" and event == {"type": "message_stop"}, "the end of the end", event)
        self._state = "over"
