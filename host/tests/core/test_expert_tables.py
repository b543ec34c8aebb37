"""Tables of expert ids are looked at before anything indexes with them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from ds4.core import bind, expert_tables, inventory
from ds4.core.model import Model
from ds4.errors import ModelFileError
from support.gguf_writer import tiny_llama
from support.tiny_deepseek4 import FLASH, PRO, Shape, tiny_deepseek4

TABLE = "blk.1.ffn_gate_tid2eid.weight"


def written(folder: Path, changes: dict[int, int], shape: Shape = FLASH, name: str = TABLE) -> Path:
    """A right file but for these entries of a table."""
    ids = [place % shape.experts for place in range(shape.used * shape.vocab)]
    for place, expert in changes.items():
        ids[place] = expert
    w = tiny_deepseek4(shape).change(name, data=struct.pack(f"<{len(ids)}i", *ids))
    return w.write(folder / "x.gguf")


def check(path: Path) -> None:
    expert_tables.check(bind.plan(inventory.load(path)))


@pytest.mark.parametrize("shape", [FLASH, PRO])
def test_a_table_of_experts_passes(shape: Shape, tmp_path: Path) -> None:
    check(written(tmp_path, {0: shape.experts - 1}, shape))


@pytest.mark.parametrize("shape", [FLASH, PRO])
@pytest.mark.parametrize("wrong", [-1, None, 2**31 - 1, -(2**31)])
def test_an_id_that_is_no_expert_is_named_with_its_token(shape: Shape, wrong: int | None, tmp_path: Path) -> None:
    wrong = shape.experts if wrong is None else wrong
    for place in (0, 7, shape.used * shape.vocab - 1):
        with pytest.raises(ModelFileError, match=f"token {place // shape.used} ") as caught:
            check(written(tmp_path, {place: wrong}, shape))
        error = caught.value
        assert (error.code, error.subject) == ("tensor_range", TABLE)
        assert (error.expected, error.found) == (f"0..{shape.experts - 1}", wrong)


def test_the_last_table_is_looked_at_too(tmp_path: Path) -> None:
    name = f"blk.{PRO.hashed - 1}.ffn_gate_tid2eid.weight"
    with pytest.raises(ModelFileError) as caught:
        check(written(tmp_path, {3: -7}, PRO, name))
    assert caught.value.subject == name


def test_a_model_is_not_opened_with_such_a_table(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        Model.open(written(tmp_path, {5: 6}))
    assert (caught.value.code, caught.value.subject) == ("tensor_range", TABLE)


def test_a_file_that_shrank_or_went_since_the_plan_is_a_typed_error(tmp_path: Path) -> None:
    path = written(tmp_path, {})
    plan = bind.plan(inventory.load(path))
    path.write_bytes(path.read_bytes()[:100])  # no test maps it any more
    with pytest.raises(ModelFileError) as caught:
        expert_tables.check(plan)
    assert (caught.value.code, caught.value.subject) == ("gguf_tensor_past_end", "blk.0.ffn_gate_tid2eid.weight")
    path.unlink()
    with pytest.raises(ModelFileError) as caught:
        expert_tables.check(plan)
    assert caught.value.code == "file_io"


def test_models_without_tables_have_nothing_to_look_at(tmp_path: Path) -> None:
    check(tiny_llama().write(tmp_path / "x.gguf"))
