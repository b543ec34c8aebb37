"""Responses."""

from __future__ import annotations

import base64
from typing import Any

from answers.said import Said, dump, entries_of, timings
from answers.stories import INPUTS, Event
from answers.tape import end_of, opt, words


class Responses(Said):
    surface = "responses"
    MEMBERS = {
        "id": "resp_1", "object": "response", "created_at": 1764400000, "model": "my/model", "metadata": {"k": "é"},
        "parallel_tool_calls": True, "store": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
        "top_p": 0.95,
    }  # fmt: skip

    def __init__(self, streamed: bool, custom: str = "", **facts: Any) -> None:
        super().__init__(streamed, **facts)
        self.number, self.begun, self.custom = 0, 0, custom
        self.items: list[dict[str, Any]] = []
        self.calls: dict[int, dict[str, Any] | None] = {}
        self.fed = 0
        self.open: dict[str, Any] | None = None
        self.members: dict[str, Any] = dict(self.MEMBERS)
        self.state: dict[str, Any] = {"status": "queued" if facts["queued"] else "in_progress"}
        self.unsaid = ""

    def head(self) -> bytes:
        f = self.facts
        rows = words(b"facts", 1764400007, *(f[name] for name in ("queued", "summary", "sealed", "parallel")))
        rows += b"".join(words(b"member", name, dump(value)) for name, value in self.MEMBERS.items())
        rows += words(b"tool", "f", "f", b"-", 0) + words(b"tool", "patch", "patch", b"-", 1)
        rows += words(b"tool", "ns.g", "g", opt("ns"), 0)
        return rows + b"".join(words(b"suffix", f"{n:032x}") for n in range(9))

    def emit(self, kind: str, **fields: Any) -> str:
        if not self.streamed:
            return ""
        self.number += 1
        return f"event: {kind}\ndata: {dump({'type': kind, **fields, 'sequence_number': self.number - 1})}\n\n"

    def response(self, output: list[Any]) -> dict[str, Any]:
        fixed = {"error": None, "incomplete_details": None, "completed_at": None, "usage": None}
        return {**self.members, **fixed, **self.state, "output": output}

    def shown(self) -> list[dict[str, Any]]:
        return [self.item(item) for item in self.items]

    def part(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["kind"] == "delta":
            return {"type": "output_text", "text": item["text"], "annotations": [], "logprobs": item["logprobs"]}
        return {"type": "summary_text" if self.facts["summary"] else "reasoning_text", "text": item["text"]}

    def item(self, item: dict[str, Any]) -> dict[str, Any]:
        status, id = item["status"], item["id"]
        parts = [self.part(item)] if item.get("said") or status != "in_progress" else []
        match item["kind"]:
            case "delta":
                return {"id": id, "type": "message", "status": status, "role": "assistant", "content": parts}
            case "reasoning":
                told: dict[str, Any] = {"summary": parts}
                if not self.facts["summary"]:
                    told = {"summary": [], "content": parts}
                if self.facts["sealed"]:
                    told["encrypted_content"] = "ds4:" + base64.b64encode(item["text"].encode()).decode()
                return {"id": id, "type": "reasoning", "status": status, **told}
        custom = item["name"] == "patch"
        kind, key = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
        space = {"namespace": "ns"} if item["name"] == "ns.g" else {}
        name = item["name"].removeprefix("ns.")
        head = {"id": id, "type": kind, "status": status, "call_id": item["call_id"], **space}
        return {**head, "name": name, key: item["text"]}

    def where(self, item: dict[str, Any]) -> dict[str, Any]:
        place = {"item_id": item["id"], "output_index": self.items.index(item)}
        if item["kind"] == "call":
            return place
        return {**place, "summary_index" if self.summary(item) else "content_index": 0}

    def summary(self, item: dict[str, Any]) -> bool:
        return item["kind"] == "reasoning" and bool(self.facts["summary"])

    def names(self, item: dict[str, Any]) -> tuple[str, str]:
        """Of its deltas, and of its part."""
        if item["kind"] == "call":
            kind = "custom_tool_call_input" if item["name"] == "patch" else "function_call_arguments"
            return f"response.{kind}", ""
        if self.summary(item):
            return "response.reasoning_summary_text", "response.reasoning_summary_part"
        return f"response.{'output' if item['kind'] == 'delta' else 'reasoning'}_text", "response.content_part"

    def begin(self, kind: str, prefix: str, **more: Any) -> str:
        item = {"kind": kind, "id": f"{prefix}_{self.begun:032x}", "status": "in_progress", "text": "", **more}
        self.begun += 1
        self.items.append(item)
        self.open = item
        place = len(self.items) - 1
        out = self.emit("response.output_item.added", output_index=place, item=self.item(item))
        if kind != "call":
            out += self.emit(f"{self.names(item)[1]}.added", **self.where(item), part=self.part(item))
        return out

    def close(self, status: str) -> str:
        item, self.open = self.open, None
        if item is None:
            return ""
        out, (delta, part) = "", self.names(item)
        if item["kind"] == "call" and item["name"] == "patch" and status == "completed":
            rest = INPUTS[self.custom][2]
            item["text"] += rest
            out += self.emit(f"{delta}.delta", **self.where(item), delta=rest) if rest else ""
        item["status"] = status
        where = self.where(item)
        if item["kind"] != "call":
            logprobs = {"logprobs": item["logprobs"]} if item["kind"] == "delta" else {}
            out += self.emit(f"{delta}.done", **where, text=item["text"], **logprobs)
            out += self.emit(f"{part}.done", **where, part=self.part(item))
        elif status == "completed":
            name = item["name"].removeprefix("ns.")
            told = {"input": item["text"]} if name == "patch" else {"name": name, "arguments": item["text"]}
            out += self.emit(f"{delta}.done", **where, **told)
        return out + self.emit("response.output_item.done", output_index=where["output_index"], item=self.item(item))

    def say(self, event: Event, logprobs: Any) -> str:
        if self.state["status"] == "queued" and event[0] not in ("whole", "cancel", "fail", "finish"):
            self.state = {"status": "in_progress"}
        match event:
            case ("whole",):
                return dump(self.response(self.shown()))
            case ("open",):
                kinds = "response.created", "response.in_progress"
                return "".join(self.emit(kind, response=self.response([])) for kind in kinds)
            case ("alive",):
                return self.emit("response.in_progress", response=self.response([]))
            case ("close",):
                kind = {"completed": "completed", "failed": "failed"}.get(self.state["status"], "incomplete")
                return self.unsaid + self.emit(f"response.{kind}", response=self.response(self.shown()))
            case ("cancel",):
                self.unsaid = self.close("incomplete")
                self.state = {"status": "cancelled"}
                return ""
            case ("unstored",):
                self.members["store"] = False
                return ""
            case ("fail", status, *_, message):
                out = self.close("incomplete")
                code = "rate_limit_exceeded" if status == 429 else "server_error"
                self.state = {"status": "failed", "error": {"code": code, "message": message}}
                return out if self.streamed else self.error(event)
            case ("finish", choice, reason, _):
                return self.finish(end_of(choice), reason)
            case ("void", _, first):
                return self.void(first)
            case ("delta" | "reasoning" as kind, _, text):
                return self.text(kind, text, logprobs)
            case ("call", _, index, id, name, arguments):
                return self.call(index, id, name, arguments)
        raise AssertionError(event)

    def finish(self, end: dict[str, Any], reason: str) -> str:
        cut = reason == "length"
        out = self.close("incomplete" if cut else "completed")
        ended = {"incomplete_details": {"reason": "max_output_tokens"}} if cut else {"completed_at": 1764400007}
        usage = {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 7},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 19,
        }
        status = "incomplete" if cut else "completed"
        self.state = {**ended, "usage": usage, "status": status, "timings": timings([end], 1)}
        return out

    def text(self, kind: str, text: str, logprobs: Any) -> str:
        out = ""
        if self.open is None or self.open["kind"] != kind:
            out = self.close("completed")
            named: dict[str, Any] = {"logprobs": []} if kind == "delta" else {}
            out += self.begin(kind, "msg" if kind == "delta" else "rs", **named)
        item = self.open
        assert item is not None
        entries = entries_of(logprobs or []) if kind == "delta" else []
        if not text and not entries:
            return out
        item["said"], item["text"] = True, item["text"] + text
        more: dict[str, Any] = {}
        if kind == "delta":
            item["logprobs"] = item["logprobs"] + entries
            more = {"logprobs": entries}
        return out + self.emit(f"{self.names(item)[0]}.delta", **self.where(item), delta=text, **more)

    def call(self, index: int, id: str, name: str, arguments: str) -> str:
        out = ""
        if id:
            counted = any(call is not None and not call.get("void") for call in self.calls.values())
            if not self.facts["parallel"] and counted:
                self.calls[index] = None
            else:
                out = self.close("completed")
                out += self.begin("call", "ctc" if name == "patch" else "fc", name=name, call_id=id)
                self.calls[index] = self.items[-1]
        call = self.calls[index]
        if call is None or not arguments:
            return out
        more = arguments
        if call["name"] == "patch":
            more = INPUTS[self.custom][1][self.fed]
            self.fed += 1
        call["text"] += more
        return out + (self.emit(f"{self.names(call)[0]}.delta", **self.where(call), delta=more) if more else "")

    def void(self, first: int) -> str:
        void = [call for index, call in self.calls.items() if index >= first and call is not None]
        for call in void:
            call["void"] = True
        out = self.close("incomplete") if self.open is not None and self.open.get("void") else ""
        if not self.streamed:
            self.items = [item for item in self.items if not item.get("void")]
            if self.items and self.items[-1]["kind"] == "delta":
                self.open = self.items[-1]
                self.open["status"] = "in_progress"
        return out
