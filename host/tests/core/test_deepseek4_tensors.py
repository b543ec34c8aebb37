"""Every tensor of a deepseek4 file in turn: missing, of a wrong type, with wrong dims; each has an error of its own."""

from __future__ import annotations

import pytest
from ds4.errors import UnsupportedModelError
from support.changed_deepseek4 import (
    drop,
    refusal,
    with_drafting,
)
from support.gguf_writer import (
    TYPE_F16,
    TYPE_F32,
    TYPE_I32,
    TYPE_Q8_0,
    Tensor,
)
from support.tiny_deepseek4 import (
    drafting_tensors,
    tiny_tensors,
)

TENSORS = {str(tensor.name): tensor for tensor in (*tiny_tensors(), *drafting_tensors())}


@pytest.mark.parametrize("name", [n for n in TENSORS if not n.startswith("blk.") or "exp_probs_b" not in n])
def test_a_tensor_that_is_missing_is_named(name: str) -> None:
    error = refusal(with_drafting, lambda w: w.drop(name))
    assert (error.code, error.subject, error.found) == ("tensor_missing", name, "nothing")


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_of_a_wrong_type_is_named(name: str) -> None:
    kind = TENSORS[name].type
    dims = TENSORS[name].dims
    if kind == TYPE_F32 and len(dims) == 1:
        wrong, nbytes = TYPE_F16, 2
    elif kind == TYPE_I32:
        wrong, nbytes = TYPE_F32, 4
    else:
        wrong, nbytes = TYPE_I32, 4
    count = 1
    for dim in dims:
        count *= dim
    error = refusal(with_drafting, lambda w: w.change(name, type=wrong, data=bytes(count * nbytes)))
    assert (error.code, error.subject) == ("tensor_type", name)
    assert isinstance(error, UnsupportedModelError)


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_with_wrong_dims_is_named(name: str) -> None:
    tensor = TENSORS[name]
    shapes = [(*tensor.dims, 2), (*tensor.dims[:-1], tensor.dims[-1] * 2)]
    if len(set(tensor.dims)) > 1 and tensor.type != TYPE_Q8_0:
        shapes.append(tuple(reversed(tensor.dims)))
    for dims in shapes:
        error = refusal(with_drafting, drop("vocab_size"), lambda w, dims=dims: w.change(name, dims=dims))  # type: ignore[misc]
        if name == "token_embd.weight" and len(dims) == 2:
            continue  # its rows are the vocabulary where no key says so, and so others do not fit it
        assert (error.code, error.subject) == ("tensor_dims", name)
        assert error.found == list(dims)


def test_a_tensor_too_many_is_named() -> None:
    error = refusal(lambda w: w.tensors.append(Tensor("blk.0.attn_compressor_kv.weight", (32, 16))))
    assert (error.code, error.subject) == ("tensor_unused", "blk.0.attn_compressor_kv.weight")


@pytest.mark.parametrize("name", ["mtp.1.enorm.weight", "blk.9.nextn.enorm.weight", "blk.3.nextn.enorm.weight"])
def test_a_drafting_block_in_the_wrong_place_is_named(name: str) -> None:
    error = refusal(lambda w: w.tensors.append(Tensor(name, (32,))))
    assert (error.code, error.subject) == ("tensor_unused", name)
