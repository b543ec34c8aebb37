"""What answers of chat and of completions have in common: chunks of prepared bytes, and choices."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ds4.server.events import Delta, Finished, TokenLogprob
from ds4.server.surfaces.rendering import (
    DONE,
    Answer,
    AnswerFacts,
    Renderer,
    TokenBytes,
    dump,
    quote,
    sse,
    timings,
    usage,
)


class ChunkRenderer(Renderer):
    """A delta without log-probabilities costs one JSON string.

    chunk, whole: what a chunk, and the body, are called. text: where a delta's text stands; reasoning: the same of one
    that is reasoning, where answers are read for it.
    """

    def __init__(
        self,
        facts: AnswerFacts,
        token_bytes: TokenBytes,
        *,
        chunk: str,
        whole: str,
        text: tuple[str, ...],
        reasoning: tuple[str, ...] | None = None,
    ) -> None:
        self._facts, self._token_bytes = facts, token_bytes
        self._head, self._whole = facts.head(chunk), facts.head(whole)
        self._tail: dict[str, Any] = {"usage": None} if facts.usage else {}
        self._text = self._halves(text)
        self._reasoning = self._halves(reasoning) if reasoning is not None and facts.reads else []

    def _halves(self, path: tuple[str, ...]) -> list[tuple[bytes, bytes]]:
        """What stands before and after the text of a delta, for each choice: found with a 0 in the text's place."""
        shown: Any = 0
        for name in reversed(path):
            shown = {name: shown}
        key = b'"%b":' % path[-1].encode()
        halves = []
        for index in range(self._facts.choices):
            before, after = self._chunk(index, shown).split(key + b"0")
            halves.append((before + key, after))
        return halves

    def _chunk(self, index: int, shown: dict[str, Any], logprobs: Any = None, reason: str | None = None) -> bytes:
        return sse({**self._head, "choices": [_choice(index, shown, logprobs, reason)], **self._tail})

    def delta(self, event: Delta) -> bytes:
        if event.logprobs is not None:
            return self._likely(event, event.logprobs)
        before, after = (self._reasoning if event.reasoning else self._text)[event.choice]
        return b"%b%b%b" % (before, quote(event.text), after)

    def closing(self, ends: list[Finished]) -> bytes:
        return sse({**self._head, "choices": [], **self._figures(ends)}) + DONE if self._facts.usage else DONE

    def buffered(self, answers: list[Answer]) -> bytes:
        choices, ends = [], []
        for index, answer in enumerate(answers):
            assert answer.finished is not None
            ends.append(answer.finished)
            logprobs = self._logprobs(answer.logprobs) if self._facts.logprobs else None
            choices.append(_choice(index, self._shown(answer), logprobs, answer.finished.reason))
        return dump({**self._whole, "choices": choices, **self._figures(ends)})

    def _figures(self, ends: list[Finished]) -> dict[str, Any]:
        return {"usage": self._usage(ends), "timings": timings(ends, self._facts.n)}

    def _usage(self, ends: list[Finished]) -> dict[str, Any]:
        return usage(ends, self._facts.n)

    @abstractmethod
    def _likely(self, event: Delta, entries: list[TokenLogprob]) -> bytes:
        """A delta whose tokens are told with their log-probabilities."""

    @abstractmethod
    def _logprobs(self, entries: list[TokenLogprob]) -> dict[str, Any]:
        """Those of an answer's whole text, or of a delta that is shown like one."""

    @abstractmethod
    def _shown(self, answer: Answer) -> dict[str, Any]:
        """What a choice of the body has of its answer."""


def _choice(index: int, shown: dict[str, Any], logprobs: Any, reason: str | None) -> dict[str, Any]:
    return {"index": index, **shown, "logprobs": logprobs, "finish_reason": reason}
