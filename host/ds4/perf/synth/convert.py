"""A checkpoint folder to a GGUF file, tensor by tensor, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ds4.core.cursor import shown
from ds4.core.families import FamilyContract, SlotSpec, contract
from ds4.core.ggml_types import TENSOR_TYPES
from ds4.core.inventory import merge
from ds4.errors import ModelFileError
from ds4.perf.synth import checkpoint, gguf_file, shapes, vocabulary
from ds4.perf.synth.gguf_file import Keys, Tensor, Written
from ds4.perf.synth.mixes import Mix
from ds4.perf.synth.quantize import encode
from ds4.perf.synth.safetensors import Checkpoint, open_checkpoint, read_json


def convert(folder: Path, target: Path, mix: Mix, *, name: str | None = None) -> Written:
    """Raises ModelFileError, UnsupportedModelError or SettingsError naming the file, key or tensor.

    Nothing of the checkpoint may be left over: a model without one of its tensors would compute something else.
    """
    shape = checkpoint.shape_of(read_json(folder / "config.json"))
    source = open_checkpoint(folder)
    family = contract(str(shape["architecture"]))
    keys = general(shape, mix, name or folder.resolve().name) | shapes.keys(shape)
    count = int(shape["vocab_size"])  # type: ignore[arg-type]
    words = vocabulary.from_folder(folder, count)
    if words is None:
        words = vocabulary.placeholder(count, next(iter(sorted(family.PROMPT.pre, reverse=True))), family.PROMPT.markup)
    keys |= words
    specs = present(layout(family, keys), source)
    left = checkpoint.unused(source, specs)
    if left:
        raise ModelFileError(
            "a tensor that the family has no place for",
            code="tensor_unused",
            subject=shown(left[0]),
            expected="only tensors of the family",
            found=f"{len(left)} unused",
        )
    for spec in specs:
        checkpoint.find(source, spec)  # before anything is written
    return gguf_file.write(target, keys, [_tensor(source, spec, mix.kind(spec)) for spec in specs])


def general(shape: shapes.Shape, mix: Mix, name: str) -> Keys:
    return {
        "general.architecture": gguf_file.text(str(shape["architecture"])),
        "general.type": gguf_file.text("model"),
        "general.name": gguf_file.text(name),
        "general.file_type": gguf_file.u32(mix.file_type),
        "general.quantization_version": gguf_file.u32(2),
    }


def layout(family: FamilyContract, keys: Keys, *, drafting: bool = False) -> list[SlotSpec]:
    """The slots of a model with these keys. drafting: with a block that drafts. Raises what the family's contract says
    of them."""
    width, count = (int(keys[f"{family.ARCHITECTURE}.{name}"].value) for name in ("embedding_length", "vocab_size"))  # type: ignore[arg-type]
    stand_ins = [Tensor("token_embd.weight", (width, count), 0, lambda: iter(()))]
    if drafting:
        stand_ins.append(Tensor("mtp.0.enorm.weight", (width,), 0, lambda: iter(())))
    found = gguf_file.inspect(keys, stand_ins)
    return family.slots(family.validate(merge((found,))))


def present(specs: list[SlotSpec], source: Checkpoint) -> list[SlotSpec]:
    """Without the optional slots that the checkpoint has no tensor for."""
    return [spec for spec in specs if spec.required or checkpoint.source_name(spec) in source]


def _tensor(source: Checkpoint, spec: SlotSpec, kind: int) -> Tensor:
    def data() -> Iterator[bytes]:
        for piece in checkpoint.pieces(source, spec):
            yield encode(kind, piece, spec.name)

    assert checkpoint.PIECE % TENSOR_TYPES[kind].block == 0
    return Tensor(spec.name, spec.dims, kind, data)
