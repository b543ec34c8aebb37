"""Texts that people read: changed only on purpose."""

from __future__ import annotations

from ds4.cli.arguments import MODELS_PROGRAM, PROGRAM
from ds4.core.settings import GENERAL, Program
from ds4.core.settings_help import render
from ds4.perf import bench
from syrupy.assertion import SnapshotAssertion


def full(program: Program) -> Program:
    return Program(**{**program.__dict__, "options": (*program.options, *GENERAL)})


def test_the_help_of_ds4(snapshot: SnapshotAssertion) -> None:
    assert render(full(PROGRAM), 100) == snapshot


def test_the_help_of_ds4_models(snapshot: SnapshotAssertion) -> None:
    assert render(full(MODELS_PROGRAM), 100) == snapshot


def test_no_line_of_a_help_is_wider_than_asked() -> None:
    for program in (PROGRAM, MODELS_PROGRAM, bench.PROGRAM):
        for width in (72, 80, 100):
            assert max(len(line) for line in render(full(program), width).splitlines()) <= max(width, 96)


def test_every_option_says_what_it_does() -> None:
    for program in (PROGRAM, MODELS_PROGRAM, bench.PROGRAM):
        for option in program.options:
            assert option.help.endswith("."), option.name
