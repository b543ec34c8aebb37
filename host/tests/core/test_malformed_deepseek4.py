"""Malformed deepseek4 files beyond the tiny Flash-like one: a PRO-like shape, drafting blocks in every layout and in
files of their own, numbers that are none or too large together, and vocabularies. Each fault has its own typed error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from ds4.core import bind, inventory
from ds4.core.families import deepseek4
from ds4.core.tokenizer import Tokenizer
from ds4.errors import Ds4Error, ModelFileError, TokenizerError
from support.changed_deepseek4 import OPTIONAL, Change, inventory_of, put
from support.gguf_writer import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    I64,
    STRING,
    TYPE_F16,
    TYPE_F32,
    TYPE_I32,
    U8,
    U32,
    U64,
    GgufWriter,
    Tensor,
    array,
    scalar,
    string,
)
from support.tiny_deepseek4 import (
    ARCH,
    FLASH,
    PRO,
    drafting_tensors,
    keys_of,
    lists_of,
    nextn_tensors,
    tiny_deepseek4,
    tiny_tensors,
)

SHAPES = {"flash": FLASH, "pro": PRO}


def _told(error: Ds4Error) -> tuple[str, str]:
    """An error's code and subject; it must say as well what was expected and what was found."""
    assert error.subject and error.expected is not None and error.found is not None, error
    return error.code, error.subject


def _refused(writer: GgufWriter) -> tuple[str, str]:
    with pytest.raises(ModelFileError) as caught:
        bind.plan(inventory_of(writer))
    return _told(caught.value)


def _put(w: GgufWriter, key: str, kind: int, payload: bytes) -> GgufWriter:
    put(f"{ARCH}.{key}", kind, payload)(w)
    return w


def _numbers(w: GgufWriter, **values: float) -> GgufWriter:
    for key, value in values.items():
        _put(w, key.replace("__", "."), U32, scalar(U32, value))
    return w


def _faults(tensor: Tensor) -> list[tuple[str, dict[str, object]]]:
    """Changes of a tensor that its slot does not take, each with the error's code."""
    dims, last = tuple(tensor.dims), len(tensor.dims) - 1
    other = TYPE_F16 if tensor.type == TYPE_F32 and last == 0 else TYPE_F32 if tensor.type == TYPE_I32 else TYPE_I32
    grown = (*dims[:last], dims[last] + 32)
    return [
        ("tensor_type", {"type": other}),
        ("tensor_dims", {"dims": grown}),
        ("tensor_dims", {"dims": (*dims, 2)}),
        ("tensor_dims", {"dims": (*dims[:last], 1 if dims[last] > 1 else 2) if last else (dims[0] + 1,)}),
    ]


# ---- a PRO-like shape


def test_the_pro_like_file_is_right() -> None:
    plan = bind.plan(inventory_of(tiny_deepseek4(PRO)))
    own = plan.hparams.dsv4
    assert own is not None and (own.ratios, own.hc_count, own.n_expert_used) == ((128, 128, 4, 128), 4, 3)
    assert {slot.name for slot in plan.slots} == {tensor.name for tensor in tiny_tensors(PRO)}


@pytest.mark.parametrize("key", [key for key, *_ in (*keys_of(PRO), *lists_of(PRO))])
def test_each_key_of_a_pro_like_file_has_errors_of_its_own(key: str) -> None:
    kind = next((kind for name, kind, _ in keys_of(PRO) if name == key), ARRAY)
    name = f"{ARCH}.{key}"
    if key not in OPTIONAL | {"rope.scaling.type"}:
        assert _refused(tiny_deepseek4(PRO).without(name)) == ("metadata_missing", name)
    wrong = {U32: (STRING, string("8")), F32: (U32, scalar(U32, 1)), ARRAY: (ARRAY, array(BOOL, [True] * 4))}
    kind_put, payload = wrong.get(kind, (F32, scalar(F32, 1.0)))
    assert _refused(_put(tiny_deepseek4(PRO), key, kind_put, payload)) == ("metadata_type", name)
    if kind == U32:
        for put, value in ((U64, 2**63), (I64, -1), (I32, -(2**31))):
            code, subject = _refused(_put(tiny_deepseek4(PRO), key, put, scalar(put, value)))
            assert (code in ("metadata_range", "unsupported_shape"), subject) == (True, name)


@pytest.mark.parametrize("key", [key for key, kind, _ in keys_of(PRO) if kind == F32])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1.0, -1e-30])
def test_a_float_that_is_no_size_is_named(key: str, value: float) -> None:
    for kind in (F32, F64):
        found = _refused(_put(tiny_deepseek4(PRO), key, kind, scalar(kind, value)))
        assert found == ("metadata_range", f"{ARCH}.{key}")


def test_a_double_that_is_1_as_a_single_is_1() -> None:
    w = _put(tiny_deepseek4(), "attention.compress_rope_freq_base", F64, scalar(F64, 1 + 1e-12))
    assert _refused(w) == ("metadata_range", f"{ARCH}.attention.compress_rope_freq_base")


@pytest.mark.parametrize("name", [str(tensor.name) for tensor in tiny_tensors(PRO)])
def test_each_tensor_of_a_pro_like_file_has_errors_of_its_own(name: str) -> None:
    tensor = next(tensor for tensor in tiny_tensors(PRO) if tensor.name == name)
    if "exp_probs_b" not in name:
        assert _refused(tiny_deepseek4(PRO).drop(name)) == ("tensor_missing", name)
    for code, change in _faults(tensor):
        found = _refused(tiny_deepseek4(PRO).change(name, **change))
        if name == "token_embd.weight" and found[0] == "metadata_range":
            assert found[1] == f"{ARCH}.vocab_size"  # whose rows it has
        else:
            assert found == (code, name)


# ---- lists


@pytest.mark.parametrize("key", [key for key, *_ in lists_of(FLASH)])
def test_a_list_of_another_length_or_of_other_elements_is_named(key: str) -> None:
    name, n = f"{ARCH}.{key}", len(FLASH.ratios)
    kind, value = (I32, 0) if "ratios" in key else (F32, 10.0)
    for count in (0, 1, n - 1, n + 2, 4096):
        payload = array(kind, [value] * count)
        assert _refused(_put(tiny_deepseek4(), key, ARRAY, payload)) == ("metadata_range", name)
    inner = array(U8, [])
    elements: list[tuple[int, Sequence[object]]] = [(STRING, ["4"] * n), (BOOL, [False] * n), (ARRAY, [inner] * n)]
    elements.append((F32, [0.0] * n) if kind == I32 else (I32, [10] * n))
    for other, values in elements:
        assert _refused(_put(tiny_deepseek4(), key, ARRAY, array(other, values))) == ("metadata_type", name)


def test_ratios_past_the_engines_integers_are_named() -> None:
    for kind, value in ((U64, 2**64 - 1), (I64, -(2**63)), (U32, 2**32 - 4)):
        values = [0, 0, value, 0, 0]
        w = _put(tiny_deepseek4(), "attention.compress_ratios", ARRAY, array(kind, values))
        assert _refused(w) == ("unsupported_shape", f"{ARCH}.attention.compress_ratios[2]")


# ---- counts that are right by themselves

TOGETHER = {
    "hyper_connection.count": {"hyper_connection__count": 16, "embedding_length": 1 << 21},
    "attention.output_lora_rank": {"attention__output_lora_rank": 1 << 23, "attention__output_group_count": 4},
    "expert_used_count": {"expert_feed_forward_length": 1 << 23, "expert_used_count": 3},
    "expert_shared_count": {"expert_feed_forward_length": 1 << 20, "expert_shared_count": 1 << 15},
}


@pytest.mark.parametrize("key", TOGETHER)
def test_counts_that_are_too_large_together_are_named(key: str) -> None:
    assert _refused(_numbers(tiny_deepseek4(), **TOGETHER[key])) == ("metadata_range", f"{ARCH}.{key}")


LIMITS = {
    "attention.sliding_window": ((1 << 16) + 1, "metadata_range"),
    "attention.indexer.top_k": ((1 << 20) + 1, "metadata_range"),
    "attention.key_length": (24, "unsupported_shape"),
    "block_count": (1 << 31, "metadata_range"),
}


@pytest.mark.parametrize("key", LIMITS)
def test_what_the_engine_would_refuse_the_host_refuses_by_its_key(key: str) -> None:
    value, code = LIMITS[key]
    w = _put(tiny_deepseek4(), key, U32, scalar(U32, value))
    assert _refused(w) == (code, f"{ARCH}.{key}")


# ---- the drafting block: in the model's file, and in one of its own

MAY_MISS = ("embed_tokens.weight", "shared_head_head.weight", "shared_head_norm.weight")
HEAD = ("output_hc_fn.weight", "output_hc_base.weight", "output_hc_scale.weight")


def _block(layout: str, shape: str) -> list[Tensor]:
    s = SHAPES[shape]
    if layout == "mtp":
        return list(drafting_tensors(s))
    own = [tensor for tensor in tiny_tensors(s) if tensor.name in HEAD]
    at = f"blk.{len(s.ratios)}.nextn."
    tables = [Tensor(at + name, (s.width, s.vocab), TYPE_F16) for name in MAY_MISS[:2]]
    return [*nextn_tensors(None, s), *tables, *own]


BLOCKS = [
    (shape, layout, str(tensor.name))
    for shape in SHAPES
    for layout in ("mtp", "nextn")
    for tensor in _block(layout, shape)
]


def _joined(shape: str, layout: str, change: Change) -> bind.BindPlan:
    sibling = GgufWriter().string("general.architecture", ARCH)
    sibling.tensors += _block(layout, shape)
    change(sibling)
    model = inventory_of(tiny_deepseek4(SHAPES[shape]))
    return bind.plan(deepseek4.attach(model, inventory_of(sibling, "x-mtp.gguf")))


@pytest.mark.parametrize(("shape", "layout", "name"), BLOCKS)
def test_each_tensor_of_a_drafting_file_has_errors_of_its_own(shape: str, layout: str, name: str) -> None:
    tensor = next(tensor for tensor in _block(layout, shape) if tensor.name == name)
    subject = f"mtp:{name}" if name in HEAD else name
    if not name.endswith(MAY_MISS):
        with pytest.raises(ModelFileError) as caught:
            _joined(shape, layout, lambda w: w.drop(name))
        assert _told(caught.value) == ("tensor_missing", subject)
    for code, change in _faults(tensor):
        with pytest.raises(ModelFileError) as caught:
            _joined(shape, layout, lambda w, change=change: w.change(name, **change))  # type: ignore[misc]
        assert _told(caught.value) == (code, subject)


@pytest.mark.parametrize("name", [str(tensor.name) for tensor in nextn_tensors()])
def test_each_tensor_of_a_drafting_block_in_the_layers_rows_has_errors_of_its_own(name: str) -> None:
    tensor = next(tensor for tensor in nextn_tensors() if tensor.name == name)

    def model() -> GgufWriter:
        w = tiny_deepseek4()
        w.tensors += nextn_tensors()
        return w

    if not name.endswith(MAY_MISS):
        assert _refused(model().drop(name)) == ("tensor_missing", name)
    for code, change in _faults(tensor):
        assert _refused(model().change(name, **change)) == (code, name)


def test_a_drafting_file_may_do_without_tables_norm_and_head() -> None:
    def change(w: GgufWriter) -> None:
        w.tensors = [tensor for tensor in nextn_tensors() if not str(tensor.name).endswith(MAY_MISS)]

    own = _joined("flash", "nextn", change).hparams.dsv4
    assert own is not None and own.n_mtp == 1


LETTERS = [chr(ord("a") + index) for index in range(FLASH.vocab)]
FOREIGN: dict[str, tuple[Change, str, str]] = {
    "another architecture": (
        put("general.architecture", STRING, string("llama")),
        "mtp_architecture",
        "general.architecture",
    ),
    "an architecture that is no text": (
        put("general.architecture", U32, scalar(U32, 4)),
        "metadata_type",
        "general.architecture",
    ),
    "another width": (
        put(f"{ARCH}.embedding_length", U32, scalar(U32, 64)),
        "mtp_key",
        f"{ARCH}.embedding_length",
    ),
    "another number of heads": (
        put(f"{ARCH}_mtp_support.attention.head_count", U32, scalar(U32, 8)),
        "mtp_key",
        f"{ARCH}_mtp_support.attention.head_count",
    ),
    "another base": (put(f"{ARCH}.rope.freq_base", F32, scalar(F32, 5e5)), "mtp_key", f"{ARCH}.rope.freq_base"),
    "a vocabulary of another size": (
        put("tokenizer.ggml.tokens", ARRAY, array(STRING, LETTERS[:-1])),
        "mtp_vocabulary",
        "tokenizer.ggml.tokens",
    ),
    "another token": (
        put("tokenizer.ggml.tokens", ARRAY, array(STRING, [*LETTERS[:3], "é", *LETTERS[4:]])),
        "mtp_vocabulary",
        "tokenizer.ggml.tokens[3]",
    ),
    "tokens that are none": (
        put("tokenizer.ggml.tokens", ARRAY, array(I32, [1] * 24)),
        "metadata_type",
        "tokenizer.ggml.tokens",
    ),
    "the block of another layer": (
        lambda w: (w.tensors.clear(), w.tensors.extend(nextn_tensors(9))),
        "tensor_unused",
        "blk.9.hc_attn_fn.weight",
    ),
    "another block": (
        lambda w: w.tensor("mtp.1.enorm.weight", (32,)),
        "unsupported_shape",
        f"{ARCH}.nextn_predict_layers",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_drafting_file_of_another_model_is_refused_by_what_tells_them_apart(name: str) -> None:
    change, code, subject = FOREIGN[name]
    model = tiny_deepseek4().array("tokenizer.ggml.tokens", STRING, LETTERS)
    sibling = GgufWriter().string("general.architecture", ARCH)
    sibling.tensors += drafting_tensors()
    change(sibling)
    with pytest.raises(ModelFileError) as caught:
        bind.plan(deepseek4.attach(inventory_of(model), inventory_of(sibling, "x-mtp.gguf")))
    assert _told(caught.value) == (code, subject)


def test_a_drafting_file_as_published_for_ds4_joins() -> None:
    model = tiny_deepseek4().array("tokenizer.ggml.tokens", STRING, LETTERS)
    sibling = GgufWriter().string("general.architecture", f"{ARCH}_mtp_support")
    sibling.u32(f"{ARCH}.embedding_length", FLASH.width).array("tokenizer.ggml.tokens", STRING, LETTERS)
    sibling.tensors += drafting_tensors()
    own = bind.plan(deepseek4.attach(inventory_of(model), inventory_of(sibling))).hparams.dsv4
    assert own is not None and own.n_mtp == 1


def test_a_model_of_another_family_takes_no_drafting_block() -> None:
    sibling = GgufWriter().string("general.architecture", ARCH)
    sibling.tensors += drafting_tensors()
    model = GgufWriter().string("general.architecture", "llama")
    with pytest.raises(ModelFileError) as caught:
        deepseek4.attach(inventory_of(model), inventory_of(sibling))
    assert _told(caught.value) == ("mtp_architecture", "general.architecture")


def test_a_drafting_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    sibling = GgufWriter().string("general.architecture", ARCH)
    sibling.tensors += drafting_tensors()
    whole, path = sibling.build(), tmp_path / "x-mtp.gguf"
    for size in (0, 1, 4, 23, 24, 60, *range(100, len(whole), len(whole) // 60), len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError) as caught:
            inventory.load(path)
        assert caught.value.code.startswith("gguf_") and all(_told(caught.value))


# ---- the vocabulary

K = "tokenizer.ggml."


def _vocabulary() -> GgufWriter:
    w = tiny_deepseek4().string(K + "model", "gpt2").string(K + "pre", "joyai-llm")
    w.array(K + "tokens", STRING, LETTERS).array(K + "token_type", I32, [1] * FLASH.vocab)
    return w.array(K + "merges", STRING, [])


VOCABULARIES: dict[str, tuple[Change, str, str]] = {
    "no tokens": (lambda w: w.without(K + "tokens"), "metadata_missing", "tokens"),
    "tokens of numbers": (put(K + "tokens", ARRAY, array(I32, [1] * 24)), "metadata_type", "tokens"),
    "a token that is no text": (
        put(K + "tokens", ARRAY, array(STRING, [*LETTERS[:-1], b"\xff"])),
        "gguf_utf8",
        "tokens[23]",
    ),
    "too few kinds": (put(K + "token_type", ARRAY, array(I32, [1] * 23)), "tokenizer", "token_type"),
    "a kind that is none": (
        put(K + "token_type", ARRAY, array(I32, [1] * 23 + [7])),
        "tokenizer",
        "token_type[23]",
    ),
    "kinds of text": (put(K + "token_type", ARRAY, array(STRING, ["1"] * 24)), "metadata_type", "token_type"),
    "no merges": (lambda w: w.without(K + "merges"), "metadata_missing", "merges"),
    "merges of numbers": (put(K + "merges", ARRAY, array(I32, [1])), "metadata_type", "merges"),
    "a merge of one token": (put(K + "merges", ARRAY, array(STRING, ["ab"])), "tokenizer", "merges[0]"),
    "a merge of nothing": (put(K + "merges", ARRAY, array(STRING, [""])), "tokenizer", "merges[0]"),
    "a merge to no token": (put(K + "merges", ARRAY, array(STRING, ["a b"])), "tokenizer", "merges[0]"),
    "a merge of no tokens": (put(K + "merges", ARRAY, array(STRING, ["Z a"])), "tokenizer", "merges[0]"),
    "another pre-tokenizer": (put(K + "pre", STRING, string("none-such")), "tokenizer", "pre"),
    "another kind of vocabulary": (put(K + "model", STRING, string("bert")), "tokenizer", "model"),
    "an end that is no token": (put(K + "eos_token_id", U32, scalar(U32, 24)), "tokenizer", "eos_token_id"),
    "a beginning that is text": (put(K + "bos_token_id", STRING, string("a")), "metadata_type", "bos_token_id"),
}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_vocabulary_that_cannot_work_is_named(name: str) -> None:
    change, code, subject = VOCABULARIES[name]
    w = _vocabulary()
    change(w)
    with pytest.raises((ModelFileError, TokenizerError)) as caught:
        Tokenizer.from_metadata(inventory_of(w).metadata)
    assert _told(caught.value) == (code, K + subject)
