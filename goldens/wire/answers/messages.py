"""Messages."""

from __future__ import annotations

import base64
import json
from typing import Any

from answers.said import Said, dump
from answers.stories import Event, certain
from answers.tape import words

MSG = "msg_" + "0123456789abcdef" * 2


class Messages(Said):
    surface = "messages"

    def __init__(self, streamed: bool, story: str = "", **facts: Any) -> None:
        super().__init__(streamed, **facts)
        self.story = story
        self.open: tuple[str, Any] | None = None
        self.number = -1
        self.thought = ""

    def head(self) -> bytes:
        f = self.facts
        return words(b"facts", MSG, "my/model", 12, f["writes"], f["hides"], f["warms"], "req_1")

    def play(self, given: list[Event], logprobs: Any = None) -> tuple[bytes, bytes]:
        named = [tuple(w.replace("call_", "toolu_") if isinstance(w, str) else w for w in event) for event in given]
        return super().play([("call", *e[1:]) if e[0] == "call" else e for e in named], logprobs)

    def event(self, name: str, **data: Any) -> str:
        return f"event: {name}\ndata: {dump({'type': name, **data})}\n\n"

    def error(self, event: Event) -> str:
        kinds = {429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 400: "invalid_request_error"}
        _, status, _, code, _, message = event
        error = {"type": kinds.get(status, "api_error"), "message": message}
        error |= {} if code is None else {"details": {"error_code": code}}
        return json.dumps({"type": "error", "error": error, "request_id": "req_1"})

    def signature(self, thought: str) -> str:
        if not self.facts["hides"]:
            return MSG
        return "ds4-thinking:" + base64.urlsafe_b64encode(thought.encode()).decode()

    def message(self, content: Any, reason: Any, stop: Any, usage: Any) -> dict[str, Any]:
        return {
            "id": MSG, "type": "message", "role": "assistant", "model": "my/model", "content": content,
            "stop_reason": reason, "stop_sequence": stop, "usage": usage,
        }  # fmt: skip

    def end(self) -> str:
        if self.open is None:
            return ""
        out = ""
        if self.open[0] == "thinking":
            delta = {"type": "signature_delta", "signature": self.signature(self.thought)}
            out = self.event("content_block_delta", index=self.number, delta=delta)
        self.open, self.thought = None, ""
        return out + self.event("content_block_stop", index=self.number)

    def begin(self, kind: str, key: Any, block: dict[str, Any]) -> str:
        if self.open == (kind, key) and kind != "tool_use":
            return ""
        out = self.end()
        self.open = kind, key
        self.number += 1
        return out + self.event("content_block_start", index=self.number, content_block={"type": kind, **block})

    def delta(self, kind: str, key: str, text: str) -> str:
        return self.event("content_block_delta", index=self.number, delta={"type": kind, key: text})

    def reason(self) -> tuple[str, str | None]:
        _, _, reason, stop = self.of(0, "finish")[0]
        if self.facts["warms"] or reason == "length":
            return "max_tokens", None
        if reason == "tool_calls":
            return "tool_use", None
        return ("end_turn", None) if stop is None else ("stop_sequence", stop)

    def usage(self) -> dict[str, Any]:
        written, warms = 6 if self.facts["writes"] else 0, self.facts["warms"]
        return {
            "input_tokens": 7 - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": 5,
            "output_tokens": 0 if warms else 7,
            "output_tokens_details": {"thinking_tokens": 0 if warms else 2},
        }

    def say(self, event: Event, logprobs: Any) -> str:
        match event:
            case ("whole",):
                usage = {**self.usage(), "service_tier": "standard"}
                blocks = [] if self.facts["warms"] else self.blocks()
                # Inputs stand as the model wrote them, so they come in as text.
                whole = dump(
                    self.message([{k: v for k, v in b.items() if k != "raw"} for b in blocks], *self.reason(), usage)
                )
                for block in blocks:
                    if "raw" in block:
                        whole = whole.replace('"input":"@"', f'"input":{block["raw"]}', 1)
                return whole
            case ("fail", *_):
                return f"event: error\ndata: {self.error(event)}\n\n" if self.streamed else self.error(event)
        if not self.streamed:
            return ""
        match event:
            case ("open",):
                usage = {
                    "input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                    "output_tokens": 0, "service_tier": "standard",
                }  # fmt: skip
                return self.event("message_start", message=self.message([], None, None, usage))
            case ("alive",):
                return self.event("ping")
            case ("close",):
                return "" if self.failed else self.event("message_stop")
            case ("finish", *_):
                reason, stop = self.reason()
                delta = {"stop_reason": reason, "stop_sequence": stop}
                return self.end() + self.event("message_delta", delta=delta, usage=self.usage())
        if self.facts["warms"]:
            return ""
        match event:
            case ("delta", _, text):
                return self.begin("text", 0, {"text": ""}) + self.delta("text_delta", "text", text)
            case ("reasoning", _, text):
                out = self.begin("thinking", 0, {"thinking": "", "signature": ""})
                self.thought += text
                return out if self.facts["hides"] else out + self.delta("thinking_delta", "thinking", text)
            case ("call", _, index, id, name, arguments):
                out = self.begin("tool_use", index, {"id": id, "name": name, "input": {}}) if id else ""
                return out + (self.delta("input_json_delta", "partial_json", arguments) if arguments else "")
        return ""

    def blocks(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for event, _ in self.events:
            match event:
                case ("delta", _, text):
                    if not made or made[-1]["type"] != "text":
                        made.append({"type": "text", "text": ""})
                    made[-1]["text"] += text
                case ("reasoning", _, text):
                    if not made or made[-1]["type"] != "thinking":
                        made.append({"type": "thinking", "thinking": ""})
                    made[-1]["thinking"] += text
                case ("call", _, index, id, name, _) if id:
                    raw = certain(self.story, index)
                    made.append({"type": "tool_use", "id": id, "name": name, "input": "@", "number": index, "raw": raw})
                case ("void", _, first):
                    made = [block for block in made if block.get("number", -1) < first]
        for block in made:
            block.pop("number", None)
            if block["type"] == "thinking":
                thought = block["thinking"]
                block["thinking"] = "" if self.facts["hides"] else thought
                block["signature"] = self.signature(thought)
        return made
