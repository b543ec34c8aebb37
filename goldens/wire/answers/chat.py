"""Chat completions."""

from __future__ import annotations

from typing import Any

from answers.openai import OpenAi
from answers.said import entries_of
from answers.stories import Event


class Chat(OpenAi):
    surface, object = "chat", "chat.completion.chunk"

    def delta(self, index: int, delta: Any, logprobs: Any = None, reason: str | None = None) -> str:
        told = None if logprobs is None else {"content": entries_of(logprobs), "refusal": None}
        return self.chunk(index=index, delta=delta, logprobs=told, finish_reason=reason)

    def told(self, event: Event, logprobs: Any) -> str:
        match event:
            case ("open",):
                count = self.facts["n"] * self.facts["prompts"]
                return "".join(self.delta(i, {"role": "assistant", "content": ""}) for i in range(count))
            case ("delta", choice, text):
                return self.delta(choice, {"content": text}, logprobs)
            case ("reasoning", choice, text):
                return self.delta(choice, {"reasoning_content": text}, logprobs)
            case ("call", choice, index, "", _, arguments):
                return self.delta(
                    choice, {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}, logprobs
                )
            case ("call", choice, index, id, name, arguments):
                function = {"name": name, "arguments": arguments}
                call = {"index": index, "function": function, "id": id, "type": "function"}
                return self.delta(choice, {"tool_calls": [call]}, logprobs)
            case ("finish", choice, reason, _):
                return self.delta(choice, {}, None, reason)
        return ""

    def choice(self, number: int) -> dict[str, Any]:
        calls: dict[int, list[str]] = {}
        for event in self.of(number, "call", "void"):
            if event[0] == "void":
                calls = {index: call for index, call in calls.items() if index < event[2]}
            elif event[3]:
                calls[event[2]] = [event[3], event[4], event[5]]
            else:
                calls[event[2]][2] += event[5]
        content: str | None = "".join(e[2] for e in self.of(number, "delta"))
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else ""), "refusal": None}
        if thoughts := self.of(number, "reasoning"):
            message["reasoning_content"] = "".join(e[2] for e in thoughts)
        if calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for id, name, arguments in calls.values()
            ]
        told = {"content": entries_of(self.logprobs_of(number)), "refusal": None} if self.facts["logprobs"] else None
        reason = self.of(number, "finish")[0][2]
        return {"index": number, "message": message, "logprobs": told, "finish_reason": reason}
