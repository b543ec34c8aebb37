"""How far prompts have been read: what a stream tells that asks for it with `stream_options.include_progress`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ds4.server.schedule.scheduler import Step
from ds4.server.schedule.sequence import Sequence


def prompts_read(step: Step, behind: Iterable[Step]) -> Iterator[tuple[Sequence, int]]:
    """The sequences whose prompts a completed step went on reading, and how many of their tokens have been computed, or
    were there. behind: the steps in flight, whose rows the banks count already."""
    later = [span for other in behind for span in other.spans]
    for bank, start in step.spans:
        owner = bank.owner
        if owner is None or start >= len(owner.prompt):
            continue
        end = min([len(bank.tokens), *(begin for other, begin in later if other is bank)])
        yield owner, min(end, len(owner.prompt))
