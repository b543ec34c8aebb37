"""The live runs, short: the long ones are `./dev gate load` and `./dev gate kill`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from parity.live import kill, load
from parity.live.process import Failure, serving
from parity.live.streams import SURFACES, Heard

needs_model = pytest.mark.skipif("DS4_EMBEDDED_MODEL" not in os.environ, reason="DS4_EMBEDDED_MODEL names no model")


@needs_model
def test_a_server_killed_at_any_moment_serves_again_and_has_what_it_had_promised(tmp_path: Path) -> None:
    report = kill.run(tmp_path, times=5, seed=7)
    assert report.failures == []
    assert report.kills == 5
    assert report.kept


@needs_model
def test_streams_beside_hang_ups_long_prompts_and_a_slow_reader_end_well(tmp_path: Path) -> None:
    with serving(["--max-seqs", "8", "-c", "2304"], tmp_path / "log") as server:
        report = asyncio.run(load.run(server, minutes=0.1, streams=16, rounds=1, seed=3))
    assert report.failures == []
    assert report.end is not None and report.end.busy_banks == 0
    assert report.ended.total() > 0 and report.slow > 0


def test_a_stream_without_its_end_is_a_failure() -> None:
    chunk = {"choices": [{"index": 0, "text": "a", "finish_reason": None}]}
    with pytest.raises(Failure, match="ended with"):
        SURFACES["completions"].check(Heard([chunk], [0.0], done=False))
    with pytest.raises(Failure, match="sequence numbers"):
        SURFACES["responses"].check(Heard([{"type": "response.created", "sequence_number": 1}], [0.0]))
    with pytest.raises(Failure, match="overloaded"):
        SURFACES["messages"].check(Heard([{"type": "error", "error": {"type": "overloaded_error"}}], [0.0]))


def test_a_long_gap_beside_a_long_prompt_is_a_fault() -> None:
    report = load.Report(streams=1, seed=1, slow=1, gap_median=0.01, gap_p99=0.031)
    assert any("p99 gap" in fault for fault in report.faults())
