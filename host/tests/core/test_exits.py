"""Errors to exit codes."""

from __future__ import annotations

import pytest
from ds4.core.exits import Exit, exit_code, guarded
from ds4.errors import (
    Cancelled,
    ContextLengthError,
    EngineError,
    ModelFileError,
    SamplingError,
    SettingsError,
    TemplateError,
    UnsupportedModelError,
)
from ds4.sys.descriptors import Status


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("x"), 2),
        (SamplingError("x"), 2),
        (ModelFileError("x"), 3),
        (UnsupportedModelError("x"), 4),
        (ContextLengthError("x"), 5),
        (TemplateError("x"), 1),
        (EngineError("x", status=Status.MISMATCH), 3),
        (EngineError("x", status=Status.UNSUPPORTED), 4),
        (EngineError("x", status=Status.CONTEXT), 5),
        (EngineError("x", status=Status.MEMORY), 1),
        (FileNotFoundError("x"), 1),
        (Cancelled("x"), 130),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(int(value)),
)
def test_each_error_has_its_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_a_misfortune_is_one_line_and_a_bug_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def misfortune() -> int:
        raise ModelFileError("too short", subject="header", expected=24, found=3)

    def bug() -> int:
        raise ZeroDivisionError

    assert guarded("ds4", misfortune) == Exit.MODEL_FILE
    assert capsys.readouterr().err == "ds4: header: too short (expected 24, found 3)\n"
    with pytest.raises(ZeroDivisionError):
        guarded("ds4", bug)
