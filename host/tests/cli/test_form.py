"""ds4 -p with a form to hold the answer to."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from support import embedded
from support.commands import run

pytestmark = [embedded.needs_model, embedded.needs_engine]


def ask(home: Path, *more: str) -> tuple[int, str, str]:
    model = os.path.abspath(embedded.path())
    done = run("ds4.cli", "-m", model, "-p", "A cat, in JSON:", "-q", "-c", "512", "--temp", "1.5", *more, home=home)
    return done.returncode, done.stdout.removesuffix("\n"), done.stderr


def test_an_answer_obeys_the_schema_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "cat.json").write_text(
        json.dumps({"type": "object", "properties": {"age": {"enum": [1, 2]}}, "required": ["age"],
                    "additionalProperties": False}), encoding="utf-8"
    )  # fmt: skip
    code, out, said = ask(tmp_path, "--json-schema", str(tmp_path / "cat.json"))
    assert code == 0, said
    assert json.loads(out) in ({"age": 1}, {"age": 2})


def test_an_answer_obeys_a_pattern_and_a_grammar(tmp_path: Path) -> None:
    code, out, said = ask(tmp_path, "--regex", "[0-9]{3}-[0-9]{4}")
    assert code == 0 and re.fullmatch("[0-9]{3}-[0-9]{4}", out), (out, said)
    (tmp_path / "yes.lark").write_text('start: "yes" | "no"', encoding="utf-8")
    code, out, said = ask(tmp_path, "--raw", "--grammar", str(tmp_path / "yes.lark"))
    assert code == 0 and out in ("yes", "no"), (out, said)


def test_a_chat_has_no_form(tmp_path: Path) -> None:
    done = run("ds4.cli", "-i", "-m", os.path.abspath(embedded.path()), "--json-object", home=tmp_path)
    assert done.returncode != 0 and "--json-object" in done.stderr


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--regex", "("), "unclosed"),
        (("--regex", "a", "--json-object"), "exclude"),
        (("--json-schema", "none.json"), "none.json: cannot read it: No such file or directory\n"),
        (("--grammar", "none.lark"), "none.lark: cannot read it: No such file or directory\n"),
    ],
)
def test_a_form_that_cannot_be_used_is_said_in_one_line(tmp_path: Path, more: tuple[str, ...], word: str) -> None:
    code, out, said = ask(tmp_path, *more)
    assert code != 0 and out == "" and word in said and "Traceback" not in said
