"""The parser of answers of models with a chat template: reasoning between tags, content, tool calls of a JSON dialect.

What white space stands around tags and blocks belongs to the layout, which templates write anew, and is not shown:
behind an opening tag, up to two line feeds in front of a closing tag or a block, behind a closing tag, between blocks
and behind the last one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from ds4.core.json_text import WHITE
from ds4.core.output.events import (
    ArgumentsDelta,
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
from ds4.core.output.json_value import JsonValue
from ds4.core.output.markers import Markers
from ds4.core.output.tools import Step

_LEADS = ("\n\n", "\n", "")


class Tags(NamedTuple):
    """What reasoning stands between. An answer may begin with `opening`, or the prompt ended with it."""

    opening: str
    closing: str

    def opened_by(self, prompt: str) -> bool:
        """Whether a prompt ends in reasoning."""
        return prompt.rstrip(WHITE).endswith(self.opening)


class JsonBlocks(Protocol):
    """A tool block of these dialects: calls, read and closers as those of `tools.Block`. sure: whether it is one for
    certain; until then it gives no events, and what becomes of it otherwise is content."""

    @property
    def calls(self) -> int: ...

    @property
    def sure(self) -> bool: ...

    def read(self, text: str, at: int, out: Emitter) -> Step: ...

    def closers(self, rest: str) -> str | None: ...

    def showing(self) -> JsonValue | None:
        """The arguments of call `calls`, while what they are is shown as it comes."""
        ...

    def ends(self) -> bool:
        """Whether the answer may end here: the calls are whole, only closers are missing."""
        ...


@dataclass(frozen=True)
class JsonDialect:
    """marks: what begins a block, anywhere in content. block: (mark, index of its first call) to the block behind it.
    reads: all texts that the dialect reads and that may be special tokens. bare: what begins a block only at the
    beginning of content and behind another block. between: what may stand between blocks, beside white space.
    """

    marks: tuple[str, ...]
    block: Callable[[str, int], JsonBlocks]
    reads: tuple[str, ...]
    bare: tuple[str, ...] = ()
    between: str = ""


class _Lead(NamedTuple):
    """A place where more than the usual is looked for, behind white space. markers: what may begin here. white:
    matches what is skipped. kept: whether that is text if nothing begins."""

    markers: Markers
    white: Callable[[str, int], re.Match[str] | None]
    kept: bool


class _Places(NamedTuple):
    """What is looked for in each place of an answer. before: at its beginning; None: what is looked for in content.
    thinking: at the beginning of reasoning. answer: behind reasoning. gap: behind a block. closings, openers: in
    reasoning and in content."""

    before: _Lead | None
    thinking: _Lead
    answer: _Lead
    gap: _Lead
    closings: Markers
    openers: Markers


@functools.lru_cache(maxsize=32)
def _places(dialect: JsonDialect | None, tags: Tags | None) -> _Places:
    white = re.compile(f"[{WHITE}]*+").match
    marks, bare, between = (dialect.marks, dialect.bare, dialect.between) if dialect is not None else ((), (), "")
    begins = Markers((*marks, *bare))
    opening = (tags.opening,) if tags is not None else ()
    before = _Lead(Markers((*opening, *marks, *bare)), white, True) if opening or bare else None
    gap = _Lead(begins, re.compile(f"[{WHITE}{re.escape(between)}]*+").match, True)
    closings = Markers([lead + tags.closing for lead in _LEADS] if tags is not None else ())
    openers = Markers([lead + mark for mark in marks for lead in _LEADS])
    return _Places(before, _Lead(Markers(opening), white, False), _Lead(begins, white, False), gap, closings, openers)


class TemplateParser:
    """One answer; an `events.Parser`. tags: how reasoning is marked; None: it is not. thinking: the prompt ended in
    reasoning, which needs tags. dialect: how tools are called; None: they are not declared, so nothing is a call.

    Linear in the text however it is cut: a piece is looked at once, but for the few characters that may begin a marker.
    """

    __slots__ = (
        *("_begins", "_block", "_calls", "_delta", "_dialect", "_index", "_lead", "_left", "_markers", "_mode"),
        *("_opening", "_out", "_places", "_raw", "_value", "_white"),
    )

    def __init__(self, *, thinking: bool, dialect: JsonDialect | None = None, tags: Tags | None = None) -> None:
        if thinking and tags is None:
            raise ValueError("reasoning without tags has no end")
        self._dialect = dialect
        self._opening = "" if tags is None else tags.opening
        self._places = _places(dialect, tags)
        self._out = Emitter()
        self._left = ""  # text that waits for what follows it
        self._white: list[str] = []  # skipped, but text if nothing begins behind it
        self._block: JsonBlocks | None = None
        self._value: JsonValue | None = None  # the block's arguments that are being shown,
        self._index = 0  # and their call
        self._raw: list[str] = []  # the block's text so far, without what is left
        self._calls = 0  # of complete blocks
        self._lead: _Lead | None = None
        self._enter("reasoning" if thinking else "content", self._places.thinking if thinking else self._places.before)

    def _enter(self, mode: Literal["reasoning", "content"], lead: _Lead | None) -> None:
        self._mode: Mode = mode
        self._lead = lead
        self._delta: type[ReasoningDelta] | type[ContentDelta] = ReasoningDelta if mode == "reasoning" else ContentDelta
        self._markers = self._places.closings if mode == "reasoning" else self._places.openers
        self._begins = self._markers.search if lead is None else None

    @property
    def mode(self) -> Mode:
        return self._mode

    def push(self, text: str) -> list[Event]:
        if self._left:
            text = self._left + text
            self._left = ""
        elif not text:
            return []
        if self._begins is not None:  # most pieces hold no marker
            found = self._begins(text)
            if found is None:
                return [self._delta(text)]
            if found.lastindex is None:  # it is the text's end, and waits
                at = found.start()
                self._left = text[at:]
                return [self._delta(text[:at])] if at else []
        elif self._value is not None and (shown := self._value.more(text)) is not None:
            self._raw.append(text)
            return [ArgumentsDelta(self._index, shown)]
        at, going = 0, True
        while going:
            if self._block is not None:
                at, going = self._in_block(self._block, text, at)
            elif self._lead is not None:
                at, going = self._leading(self._lead, text, at)
            else:
                at, going = self._searching(text, at)
        self._left = text[at:]
        return self._out.take()

    def _show(self, text: str) -> None:
        (self._out.reasoning if self._mode == "reasoning" else self._out.content)(text)

    def _leading(self, lead: _Lead, text: str, at: int) -> tuple[int, bool]:
        white = lead.white(text, at)
        assert white is not None
        at = white.end()
        if lead.kept and white[0]:
            self._white.append(white[0])
        if at == len(text):
            return at, False
        found = lead.markers.match(text, at)
        if found is not None and found.lastindex is None:
            return at, False
        if found is None:
            self._enter("reasoning" if self._mode == "reasoning" else "content", None)
            self._show(self._skipped())
        elif found[0] == self._opening:
            self._white.clear()
            self._enter("reasoning", self._places.thinking)
        else:
            self._open(found[0], self._skipped() + found[0])
        return at if found is None else found.end(), True

    def _skipped(self) -> str:
        white = "".join(self._white)
        self._white.clear()
        return white

    def _searching(self, text: str, at: int) -> tuple[int, bool]:
        found = self._markers.search(text, at)
        end = len(text) if found is None else found.start()
        self._show(text[at:end])
        if found is None or found.lastindex is None:
            return end, False
        if self._mode == "reasoning":
            self._out.add(ReasoningEnd())
            self._enter("content", self._places.answer)
        else:
            self._open(found[0].lstrip("\n"), found[0])
        return found.end(), True

    def _open(self, mark: str, raw: str) -> None:
        assert self._dialect is not None
        self._block = self._dialect.block(mark, self._calls)
        self._raw = [raw]
        self._mode, self._lead, self._begins = "block", None, None

    def _in_block(self, block: JsonBlocks, text: str, at: int) -> tuple[int, bool]:
        end, status = block.read(text, at, self._out)
        self._raw.append(text[at:end])
        if status == "more":
            self._value, self._index = block.showing(), block.calls
            return end, False
        self._leave(block, "".join(self._raw), complete=status == "complete")
        return end, True

    def _leave(self, block: JsonBlocks, raw: str, *, complete: bool) -> None:
        self._block, self._value, self._raw = None, None, []
        if complete:
            self._out.add(ToolBlock(raw))
            self._calls = block.calls
        elif block.sure:
            self._out.add(Void(raw))
        else:
            self._out.content(raw)
        self._enter("content", self._places.gap if complete else None)

    def finish(self) -> tuple[list[Event], Finish]:
        left, self._left = self._left, ""
        block = self._block
        if block is not None:
            raw = "".join([*self._raw, left])
            if block.sure and not block.ends():
                return [], Finish("unterminated", raw, block.closers(left))
            self._leave(block, raw, complete=block.sure)
        elif self._lead is not self._places.gap or left:
            self._show(self._skipped() + left)
        if self._mode == "reasoning":
            return self._out.take(), Finish("reasoning")
        return self._out.take(), Finish("tool_calls" if self._calls else "stop")
