"""Completions."""

from __future__ import annotations

from typing import Any

from answers.openai import OpenAi
from answers.stories import TOKENS, Event
from answers.tape import Entries


class Completions(OpenAi):
    surface, object = "completions", "text_completion"

    def legacy(self, entries: Entries, offset: int) -> dict[str, Any]:
        def shown(token: int) -> str:
            try:
                return TOKENS[token].decode()
            except UnicodeDecodeError:
                return "bytes:" + "".join(f"\\x{b:02x}" for b in TOKENS[token])

        names = [shown(pairs[0][0]) for pairs in entries]
        offsets = [offset + len("".join(names[:i])) for i in range(len(names))]
        tops = [{shown(t): v for t, v in reversed(pairs[1:])} for pairs in entries]
        values = [pairs[0][1] for pairs in entries]
        return {"tokens": names, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}

    def told(self, event: Event, logprobs: Any) -> str:
        match event:
            case ("open",):
                return ": stream\n\n"
            case ("delta", choice, text):
                before = len("".join(e[2] for e in self.of(choice, "delta")[:-1]))
                told = None if logprobs is None else self.legacy(logprobs, before)
                return self.chunk(index=choice, text=text, logprobs=told, finish_reason=None)
            case ("finish", choice, reason, _):
                return self.chunk(index=choice, text="", logprobs=None, finish_reason=reason)
        return ""

    def choice(self, number: int) -> dict[str, Any]:
        told = self.legacy(self.logprobs_of(number), 0) if self.facts["logprobs"] else None
        text = "".join(e[2] for e in self.of(number, "delta"))
        return {"index": number, "text": text, "logprobs": told, "finish_reason": self.of(number, "finish")[0][2]}
