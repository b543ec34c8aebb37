"""The wire form of bind: what a tape may be, what it says, and that an oracle's answer makes the same plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from ds4.core import bind, gguf, inventory
from ds4.core.families import llama
from ds4.core.inventory import Inventory
from ds4.core.tapes import bind as tapes
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.tape import TapeError
from support.gguf_writer import F32, F64, I32, TYPE_F16, U32, GgufWriter, tiny_llama, tiny_shards
from support.oracles import standing_in


@pytest.fixture(autouse=True)
def answered_by_the_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapes, "oracle", standing_in(tapes.by_tape))


def _inventory(writer: GgufWriter) -> Inventory:
    return inventory.merge((gguf.parse(writer.build(), Path("x.gguf")),))


def _variants() -> list[GgufWriter]:
    yarn = tiny_llama().string("llama.rope.scaling.type", "yarn").number("llama.rope.scaling.factor", F64, 1.7)
    lists = tiny_llama().without("llama.feed_forward_length").array("llama.feed_forward_length", I32, [64, 64])
    odd = tiny_llama().u32("llama.shoe_size", 44).string("llama.what", "é").array("llama.more", I32, [3, -7, 5])
    odd.tensor("blk.0.attn_rot_embd", (4,))
    return [tiny_llama(), yarn, lists, odd, tiny_llama().number("llama.attention.scale", F64, 0.1)]


@pytest.mark.parametrize("index", range(5))
def test_an_oracles_answer_makes_the_same_plan(index: int) -> None:
    held = _inventory(_variants()[index])
    assert tapes.by_oracle(held) == bind.make(held)


def test_an_oracles_answer_makes_the_same_plan_of_shards(tmp_path: Path) -> None:
    held = inventory.load(tiny_shards().write(tmp_path))
    assert tapes.by_oracle(held) == bind.make(held)


def test_an_oracles_verdicts_are_those_of_python() -> None:
    wrong = [
        tiny_llama().without("llama.block_count"),
        tiny_llama().u32("llama.expert_count", 8),
        tiny_llama().drop("output_norm.weight"),
        tiny_llama().change("blk.1.attn_norm.weight", type=TYPE_F16),
        tiny_llama().tensor("x\xa0y", (4,)),
        tiny_llama().tensor("é" * 30, (4,)),
    ]
    for writer in wrong:
        held = _inventory(writer)
        with pytest.raises(ModelFileError) as ours:
            bind.make(held)
        with pytest.raises(ModelFileError) as theirs:
            tapes.by_oracle(held)
        assert type(ours.value) is type(theirs.value)
        assert ours.value.code == theirs.value.code
        assert tapes.write_output(ours.value) == tapes.write_output(theirs.value)


def test_arrays_are_told_by_their_least_and_greatest_integer() -> None:
    writer = tiny_llama().array("a.none", U32, []).array("a.floats", F32, [1.0]).array("a.ints", I32, [3, -7, 5])
    tape = tapes.write_input(_inventory(writer)).decode().split("\n")
    assert "key a.none array u32 0" in tape
    assert "key a.floats array f32 1" in tape
    assert "key a.ints array i32 3 -7 5" in tape
    assert "key tokenizer.ggml.tokens array string 16" in tape
    assert "key tokenizer.ggml.token_type array i32 16 1 1" in tape


def test_floats_of_a_plan_are_those_of_the_engine() -> None:
    held = _inventory(tiny_llama().number("llama.attention.scale", F64, 0.1))
    assert bind.make(held).hparams.attn_scale == 0.10000000149011612


def test_a_tape_means_the_inventory_that_it_was_written_from() -> None:
    for writer in _variants():
        held = _inventory(writer)
        read = tapes.read_input(tapes.write_input(held))
        assert tapes.write_output(tapes.answer(read)) == tapes.write_output(bind.make(held))
        assert tapes.write_output(tapes.answer(read)).startswith(b"plan llama\n")


def test_a_family_that_is_insisted_on_is_the_files_own() -> None:
    class Other:
        FAMILY = 99
        ARCHITECTURE = "other"

    held = _inventory(tiny_llama())
    assert bind.plan(held, llama.CONTRACT).architecture == "llama"
    with pytest.raises(UnsupportedModelError) as error:
        bind.plan(held, Other())  # type: ignore[arg-type]
    assert error.value.code == "unsupported_architecture"


HEAD = b"plan 1 1 0\nshard 0 0 32\n"
BAD_TAPES = (
    b"",
    b"plan 0 0 0\n",
    b"plan 1 0\n",
    b"plan 1 0 0\n",
    b"plan 1 0 0\nshard 0 0 0\n",
    b"plan 1 0 0\nshard 0 0 2147483649\n",
    b"plan 1 0 0\nshard 0 0 -1\n",
    b"plan 1 0 0\nshard 0 0 32\nshard 0 0 32\n",
    b"plan 1 0 1\nshard 0 0 32\ntensor a 0 0 0 0\n",
    b"plan 1 0 1\nshard 0 0 32\ntensor a 0 0 0 0 1 1 1 1 1\n",
    b"plan 1 0 1\nshard 0 0 32\ntensor a 4294967296 0 0 0 1\n",
    b"plan 1 0 1\nshard 0 0 32\ntensor a 0 0 9223372036854775808 0 1\n",
    b"plan 1 0 2\nshard 0 0 32\ntensor a 0 0 0 0 1\ntensor a 0 0 0 0 1\n",
    b"plan 1 2 0\nshard 0 0 32\nkey a u8 1\nkey a u8 1\n",
    *(
        HEAD + b"key " + key + b"\n"
        for key in (
            *(b"a", b"a u8", b"a u8 256", b"a u8 -1", b"a i8 128", b"a u8 1 2", b"a bool 2", b"a u9 1", b"%- u8 1"),
            *(
                b"%FF u8 1",
                b"%ED%A0%80 u8 1",
                b"a string %FF",
                b"a string",
                b"a f32 3f800000",
                b"a f32 3F80",
                b"a f32 1.0",
            ),
            *(b"a f32 7FC00000", b"a f64 7FF0000000000001", b"a f32 NAN", b"a array", b"a array u8", b"a array u8 -1"),
            *(b"a array u8 1", b"a array u8 1 2", b"a array u8 1 2 3", b"a array u8 2 3 2", b"a array u8 2 3 256"),
            *(b"a array u8 0 1 1", b"a array string 1 1 1", b"a array what 1", b"a array u8 9223372036854775808 1 1"),
        )
    ),
)


@pytest.mark.parametrize("tape", BAD_TAPES)
def test_bytes_that_are_no_tape_are_refused(tape: bytes) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape)


@pytest.mark.parametrize(
    "value", [b"u8 255", b"i64 -9223372036854775808", b"f32 7F800000", b"f64 nan", b"array array 3"]
)
def test_what_the_contract_allows_is_read(value: bytes) -> None:
    held = tapes.read_input(HEAD + b"key a " + value + b"\n")
    assert list(held.metadata) == ["a"]


def test_hostile_arrays_take_no_memory_by_their_count() -> None:
    held = tapes.read_input(HEAD + b"key a array i64 9223372036854775807 1 2\n")
    assert held.metadata.count("a") == 2**63 - 1
    assert isinstance(tapes.answer(held), ModelFileError)
