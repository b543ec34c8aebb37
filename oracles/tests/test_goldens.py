"""Every oracle, as a command, on every golden and on damaged ones: the goldens' answers, and never a crash.

Under `./dev asan` the command is built with AddressSanitizer and UndefinedBehaviorSanitizer.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from parity.component import Component
from parity.registry import components
from parity.runner import cases

PROGRAM = os.environ["DS4_ORACLE_PROGRAM"]
DAMAGED = 3  # variants of each golden input
OK, BAD_TAPE = 0, 1


def batch(name: str, setup: bytes, inputs: list[bytes], folder: Path) -> list[tuple[int, bytes]]:
    """(status, output) of each input."""
    command = [os.path.abspath(PROGRAM), "--batch", name]
    if setup:
        (folder / "setup").write_bytes(setup)
        command.append(str(folder / "setup"))
    frames = b"".join(struct.pack("<I", len(tape)) + tape for tape in inputs)
    done = subprocess.run(command, input=frames, capture_output=True)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-4000:]
    answers, at = [], 0
    while at < len(done.stdout):
        status, length = struct.unpack_from("<II", done.stdout, at)
        answers.append((status, done.stdout[at + 8 : at + 8 + length]))
        at += 8 + length
    assert len(answers) == len(inputs)
    return answers


def damaged(tape: bytes, chance: random.Random) -> bytes:
    """The tape cut, or with a few bytes changed, doubled or taken out."""
    if not tape or chance.random() < 0.2:
        return tape[: chance.randrange(len(tape) + 1)]
    raw = bytearray(tape)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw))
        what = chance.randrange(4)
        if what == 0:
            raw[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            raw[at] = chance.choice(b" \n%-09\x00\xff")
        elif what == 2 and len(raw) > 1:
            del raw[at : at + chance.randint(1, 8)]
            raw = raw or bytearray(b"\n")
        else:
            raw[at:at] = raw[at : at + chance.randint(1, 8)]
    return bytes(raw)


@pytest.mark.parametrize("component", components().values(), ids=components().keys())
def test_an_oracle_answers_every_golden_and_survives_damaged_ones(component: Component, tmp_path: Path) -> None:
    by_setup = defaultdict(list)
    for case in cases(component):
        by_setup[case.setup].append(case)
    assert by_setup
    chance = random.Random(component.name)
    for setup, group in by_setup.items():
        prepared = component.setups[setup]()
        for case, (status, out) in zip(
            group, batch(component.name, prepared, [c.tape for c in group], tmp_path), strict=True
        ):
            assert status == OK and component.equal(case.expected, out), f"{case.golden}: {case.case}"
        bad = [damaged(c.tape, chance) for c in group for _ in range(DAMAGED)]
        statuses = {status for status, _ in batch(component.name, prepared, bad, tmp_path)}
        assert statuses <= {OK, BAD_TAPE}
