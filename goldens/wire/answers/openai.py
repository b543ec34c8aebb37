"""What the two surfaces that send choices have in common."""

from __future__ import annotations

from typing import Any

from answers.said import Said, dump, timings
from answers.stories import Event
from answers.tape import end_of, words


class OpenAi(Said):
    object = ""

    def head(self) -> bytes:
        f = self.facts
        return words(
            b"facts", "id-1 é", 1764400000, "my/model", "fp\n1",
            f["n"], f["prompts"], f["usage"], int(f["logprobs"]), f["reads"],
        )  # fmt: skip

    def top(self, object: str) -> dict[str, Any]:
        return {
            "id": "id-1 é",
            "object": object,
            "created": 1764400000,
            "model": "my/model",
            "system_fingerprint": "fp\n1",
        }

    def ends(self) -> list[dict[str, Any]]:
        return [end_of(choice) for choice in range(self.facts["n"] * self.facts["prompts"])]

    def usage(self) -> dict[str, Any]:
        ends, n = self.ends(), self.facts["n"]
        prompt, completion = sum(e["prompt"] for e in ends[::n]), sum(e["completion"] for e in ends)
        used = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(e["cached"] for e in ends[::n])},
        }
        if self.facts["reads"]:
            used["completion_tokens_details"] = {"reasoning_tokens": sum(e["thought"] for e in ends)}
        return used

    def chunk(self, **choice: Any) -> str:
        tail = {"usage": None} if self.facts["usage"] else {}
        return f"data: {dump({**self.top(self.object), 'choices': [choice], **tail})}\n\n"

    def say(self, event: Event, logprobs: Any) -> str:
        match event:
            case ("whole",):
                return self.whole()
            case ("fail", *_):
                return f"data: {self.error(event)}\n\n" if self.streamed else self.error(event)
        if not self.streamed:
            return ""
        match event:
            case ("alive",):
                return ": keep-alive\n\n"
            case ("close",):
                if self.failed:
                    return ""
                last = {**self.top(self.object), "choices": [], "usage": self.usage()}
                last["timings"] = timings(self.ends(), self.facts["n"])
                return (f"data: {dump(last)}\n\n" if self.facts["usage"] else "") + "data: [DONE]\n\n"
        return self.told(event, logprobs)

    def told(self, event: Event, logprobs: Any) -> str:
        raise NotImplementedError

    def choice(self, number: int) -> dict[str, Any]:
        raise NotImplementedError

    def whole(self) -> str:
        count = self.facts["n"] * self.facts["prompts"]
        body = {**self.top(self.object.removesuffix(".chunk")), "choices": [self.choice(i) for i in range(count)]}
        return dump({**body, "usage": self.usage(), "timings": timings(self.ends(), self.facts["n"])})
