"""The parser of an answer: reasoning up to its end marker, then content, in which a dialect's tool blocks may begin."""

from __future__ import annotations

from collections.abc import Sequence

from ds4.core.output.events import (
    ContentDelta,
    Emitter,
    Event,
    Finish,
    Mode,
    ReasoningDelta,
    ReasoningEnd,
    ToolBlock,
    Void,
)
from ds4.core.output.markers import Markers, Search
from ds4.core.output.tools import Block, Dialect, Status

THINK_END = "</think>"
_NOTHING = Markers(())


class AnswerParser:
    """One answer. thinking: it begins in reasoning (the prompt opened it). dialect: how tools are called; None: they
    are not declared, so nothing is taken for a call.

    Linear in the text however it is cut: a piece is looked at once, but for the few characters that may begin a marker.
    """

    __slots__ = (
        *("_block", "_calls", "_delta", "_dialect", "_left", "_markers", "_mode", "_openers", "_out", "_raw"),
        "_search",
    )

    def __init__(self, *, thinking: bool, dialect: Dialect | None = None, ends: Sequence[str] = (THINK_END,)) -> None:
        self._mode: Mode = "reasoning" if thinking else "content"
        self._dialect = dialect
        self._openers = _NOTHING if dialect is None else dialect.openers
        self._markers = self._openers  # of the mode, in reasoning and content
        self._delta: type[ReasoningDelta] | type[ContentDelta] = ContentDelta
        if thinking:
            self._markers = Markers(ends) if tuple(ends) != (THINK_END,) else _THINK_END
            self._delta = ReasoningDelta
        self._out = Emitter()
        self._left = ""  # text that waits for what follows it
        self._block: Block | None = None
        self._raw: list[str] = []  # the block's text so far, without what is left
        self._calls = 0  # of complete blocks
        self._search: Search | None = self._markers.search  # what finds markup in the next piece, if nothing is left

    @property
    def mode(self) -> Mode:
        return self._mode

    def push(self, text: str) -> list[Event]:
        search = self._search
        if search is not None and search(text) is None and text:  # most pieces have no markup
            if self._block is None:
                return [self._delta(text)]
            self._raw.append(text)
            return [self._block.shown(text)]
        text = self._left + text
        at = 0
        while True:
            if self._block is not None:
                end, status = self._block.read(text, at, self._out)
                if end > at:
                    self._raw.append(text[at:end])
                    at = end
                if status == "more":
                    break
                self._ended(self._block, status)
            elif self._mode == "done":
                at = len(text)
                break
            else:
                at, going = self._searching(text, at)
                if not going:
                    break
        self._left = left = text[at:]
        if left or self._mode == "done":
            self._search = None
        else:
            self._search = self._markers.search if self._block is None else self._block.search
        return self._out.take()

    def _searching(self, text: str, at: int) -> tuple[int, bool]:
        thinking = self._mode == "reasoning"
        found = self._markers.search(text, at)
        end = len(text) if found is None else found.start()
        (self._out.reasoning if thinking else self._out.content)(text[at:end])
        if found is None or found.lastindex is None:
            return end, False
        if thinking:
            self._out.add(ReasoningEnd())
            self._mode, self._markers, self._delta = "content", self._openers, ContentDelta
        else:
            assert self._dialect is not None
            self._block = self._dialect.open(found[0], self._calls)
            self._raw = [found[0]]
            self._mode = "block"
        return found.end(), True

    def _ended(self, block: Block, status: Status) -> None:
        raw = "".join(self._raw)
        self._block, self._raw = None, []
        if status == "fault":
            self._out.add(Void(raw))
            self._mode = "content"
        else:
            assert self._dialect is not None
            self._out.add(ToolBlock(raw))
            self._calls = block.calls
            self._mode = "done" if self._dialect.last else "content"

    def finish(self) -> tuple[list[Event], Finish]:
        left, self._left = self._left, ""
        if self._block is not None:
            return [], Finish("unterminated", "".join([*self._raw, left]), self._block.closers(left))
        if self._mode == "done":
            return [], Finish("tool_calls")
        if self._mode == "reasoning":
            self._out.reasoning(left)
            return self._out.take(), Finish("reasoning")
        self._out.content(left)
        return self._out.take(), Finish("tool_calls" if self._calls else "stop")


_THINK_END = Markers((THINK_END,))
