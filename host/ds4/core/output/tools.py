"""Tool calls in an answer: what a family's way of writing them has to offer, and the memory of what was written.

A *dialect* says how a tool block begins and reads it. DeepSeek's is `dsml.Dsml`, for which `reasoning.AnswerParser`
finds the block, keeps its text and undoes it when it is malformed; those of models with chat templates are the rows of
`dialects`, for which `answer.TemplateParser` does so.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ds4.core.json_text import loads
from ds4.core.output.events import ArgumentsDelta, CallStart, Emitter, Event, ToolBlock, Void
from ds4.core.output.markers import Markers, Search

Status = Literal["more", "again", "complete", "fault"]


Step = tuple[int, Status]
"""Up to where the text is used, and: more: what is left waits for the next piece. complete: the block ended here.
fault: the block is malformed and ended here; what follows is content again. again: for a block's own use.
"""


class Block(Protocol):
    """One tool block that is being read, behind its opener."""

    @property
    def calls(self) -> int:
        """The index of the next call."""
        ...

    @property
    def search(self) -> Search | None:
        """What finds markup in the next piece, while pieces without any are more of a call's arguments. None: all of
        them are to be read."""
        ...

    def shown(self, text: str) -> ArgumentsDelta:
        """What a piece is in which `search` finds nothing."""
        ...

    def read(self, text: str, at: int, out: Emitter) -> Step:
        """Goes on at text[at:], which begins with what the last call left."""
        ...

    def closers(self, rest: str) -> str | None:
        """What would complete the block. rest: text that was left."""
        ...


class Dialect(Protocol):
    """openers: the markers, in content, that begin a block. last: whether an answer ends with its first complete
    block."""

    @property
    def openers(self) -> Markers: ...

    @property
    def last(self) -> bool: ...

    def open(self, opener: str, first: int) -> Block:
        """first: the index of the block's first call."""
        ...


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call as the model made it. arguments: JSON text."""

    name: str
    arguments: str


def calls(events: Iterable[Event]) -> list[MadeCall]:
    """The calls of an answer's events; those of a malformed block are none."""
    names: dict[int, str] = {}
    arguments: dict[int, list[str]] = {}
    sure = 0
    for event in events:
        if isinstance(event, CallStart):
            names[event.index], arguments[event.index] = event.name, []
        elif isinstance(event, ArgumentsDelta):
            arguments[event.index].append(event.text)
        elif isinstance(event, Void):
            names = {index: name for index, name in names.items() if index < sure}
        elif isinstance(event, ToolBlock):
            sure = len(names)
    return [MadeCall(name, "".join(arguments[index])) for index, name in names.items()]


def _same(made: MadeCall) -> tuple[str, str]:
    """What two calls have in common that are the same: name and arguments, whatever the order of the keys."""
    try:
        return made.name, json.dumps(loads(made.arguments), sort_keys=True)
    except ValueError:
        return made.name, made.arguments


class CallMemory:
    """The exact text of sampled tool blocks by the ids that their calls were given, so that a later turn is rendered
    as it was sampled and its cached prefix is found. The oldest blocks are forgotten beyond `most` characters.

    A client may change what it sends back: a block is given only for exactly the calls that it made, in their order.
    The order of a call's keys does not matter; many clients do not keep it.
    """

    def __init__(self, most: int = 64 * 1024 * 1024) -> None:
        self._most, self._size = most, 0
        self._blocks: OrderedDict[tuple[str, ...], tuple[str, list[tuple[str, str]]]] = OrderedDict()
        self._of: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def put(self, ids: Sequence[str], made: Sequence[MadeCall], text: str) -> None:
        """ids: of the block's calls, in order; an id that is known already now means this block."""
        if len(ids) != len(made) or not ids:
            raise ValueError(f"{len(ids)} ids for {len(made)} calls")
        key = tuple(ids)
        for call_id in key:
            self._forget(self._of.get(call_id))
        self._blocks[key] = text, list(map(_same, made))
        self._of.update(dict.fromkeys(key, key))
        self._size += len(text)
        while self._size > self._most and len(self._blocks) > 1:
            self._forget(next(iter(self._blocks)))

    def _forget(self, key: tuple[str, ...] | None) -> None:
        if key is None or key not in self._blocks:
            return
        self._size -= len(self._blocks.pop(key)[0])
        for call_id in key:
            self._of.pop(call_id, None)

    def replay(self, ids: Sequence[str], made: Sequence[MadeCall]) -> str | None:
        """The text that made exactly these calls; None: render them anew."""
        key = tuple(ids)
        found = self._blocks.get(key)
        if found is None or found[1] != list(map(_same, made)):
            return None
        self._blocks.move_to_end(key)
        return found[0]

    def items(self) -> list[tuple[str, str]]:
        """(call id, block text), the oldest block first: what the tool map of a KV record keeps."""
        return [(call_id, text) for key, (text, _) in self._blocks.items() for call_id in key]

    def restore(self, items: Iterable[tuple[str, str]], read: Callable[[str], Sequence[MadeCall]]) -> None:
        """Takes back what `items` gave. read: the calls that a block's text makes (`dsml.read_block`). Blocks whose ids
        are not all there are left out."""
        blocks: dict[str, list[str]] = {}
        for call_id, text in items:
            blocks.setdefault(text, []).append(call_id)
        for text, ids in blocks.items():
            made = read(text)
            for first in range(0, len(ids), max(1, len(made))):  # the same text may have been sampled more than once
                if made and len(group := ids[first : first + len(made)]) == len(made):
                    self.put(group, made, text)
