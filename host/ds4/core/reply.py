"""One answer of a chat as it comes: what a session generates, read by the dialect's parser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ds4.core.generation import Generation
from ds4.core.output.events import ContentDelta, Event, Parser, ReasoningDelta, Void


class Piece(NamedTuple):
    """More of the answer, or of the reasoning before it."""

    text: str
    reasoning: bool


class Reply:
    """Iterate to run it. content, reasoning: what has come so far. Calls of tools are the business of those who declare
    any; none are shown here."""

    def __init__(self, generation: Generation, parser: Parser) -> None:
        self.generation, self._parser = generation, parser
        self._content: list[str] = []
        self._reasoning: list[str] = []

    @property
    def content(self) -> str:
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def __iter__(self) -> Iterator[Piece]:
        for event in self.generation:
            yield from self._keep(self._parser.push(event.text))
            if self._parser.mode == "done":
                self.generation.close()
        yield from self._keep(self._parser.finish()[0])

    def _keep(self, events: Iterable[Event]) -> Iterator[Piece]:
        for event in events:
            if isinstance(event, ContentDelta | ReasoningDelta | Void):
                thought = isinstance(event, ReasoningDelta)
                (self._reasoning if thought else self._content).append(event.text)
                yield Piece(event.text, thought)
