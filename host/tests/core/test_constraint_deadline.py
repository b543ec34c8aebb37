"""Masks that do not come to an end: their own request fails, and nobody else waits for them."""

from __future__ import annotations

import threading
import time

import pytest
from ds4.core import catalog, inventory
from ds4.core.constraint import grammar as grammars
from ds4.core.constraint.deadline import LINE, Deadline
from ds4.core.constraint.matcher import Vocabulary
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ConstraintError, SettingsError


def test_work_in_time_gives_its_result_and_its_error() -> None:
    line = Deadline(30.0)
    assert [line.run(lambda n=n: n) for n in range(3)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        line.run(lambda: 1 // 0)
    assert line.run(lambda: "after") == "after" and line.late == 0


def test_what_is_late_is_left_to_itself_and_too_many_of_it_are_not_risked() -> None:
    line, over = Deadline(0.01, most_late=1), threading.Event()
    with pytest.raises(ConstraintError, match="too complex") as caught:
        line.run(over.wait)
    assert caught.value.code == "complexity" and line.late == 1
    with pytest.raises(ConstraintError, match="others") as caught:
        line.run(lambda: None)
    assert caught.value.code == "busy"
    over.set()
    while line.late:
        time.sleep(0.001)
    with pytest.raises(ConstraintError) as caught:  # there is room for one again
        line.run(threading.Event().wait)
    assert caught.value.code == "complexity"


def test_an_ambiguous_grammar_does_not_hold_up_whoever_asks_for_its_mask() -> None:
    try:
        path = catalog.embedded_path("ds4-mini")
    except SettingsError as error:
        pytest.skip(str(error))
    text = 'start: a\na: a a | "x" | b\nb: b b b | "x"\n'
    tokenizer = Tokenizer.from_metadata(inventory.load(path).metadata)
    matcher = Vocabulary(tokenizer).matcher(grammars.lark(text))
    (token,) = tokenizer.encode("x")[-1:]
    with pytest.raises(ConstraintError) as caught:
        matcher.mask([token] * 300)
    assert caught.value.code == "complexity"
    while LINE.late:  # a few seconds, after which others may be risked again
        time.sleep(0.01)
