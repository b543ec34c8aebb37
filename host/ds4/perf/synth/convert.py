"""A checkpoint folder to a GGUF file, tensor by tensor, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from ds4.core.cursor import shown
from ds4.core.families import FamilyContract, SlotSpec, contract
from ds4.core.ggml_types import TENSOR_TYPES
from ds4.core.inventory import merge
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.perf.synth import checkpoint, config_kin, gguf_file, shapes, vocabulary
from ds4.perf.synth.arrays import Floats
from ds4.perf.synth.checkpoint_kin import KinReader
from ds4.perf.synth.gguf_file import Keys, Tensor, Written
from ds4.perf.synth.mixes import Mix
from ds4.perf.synth.quantize import encode
from ds4.perf.synth.safetensors import Checkpoint, open_checkpoint, read_json


class Reader(Protocol):
    """A family's checkpoints: the shape that a config states, and for each slot what of the checkpoint fills it."""

    @property
    def shape(self) -> shapes.Shape: ...

    def has(self, source: Checkpoint, spec: SlotSpec) -> bool: ...

    def check(self, source: Checkpoint, spec: SlotSpec) -> None: ...

    def unused(self, source: Checkpoint, specs: list[SlotSpec]) -> list[str]: ...

    def pieces(self, source: Checkpoint, spec: SlotSpec) -> Iterator[Floats]: ...


def reader_of(config: dict[str, Any]) -> Reader:
    """The reader for a config. Raises UnsupportedModelError, code `unsupported_architecture`, or what readers raise."""
    kind = config.get("model_type")
    if kind in config_kin.ARCHITECTURES:
        return KinReader(config)
    if kind == checkpoint.MODEL_TYPE:
        return checkpoint.Dsv4Reader(config)
    raise UnsupportedModelError(
        "no checkpoint of a family that can be converted",
        code="unsupported_architecture",
        subject="model_type",
        expected=" or ".join((*config_kin.ARCHITECTURES, checkpoint.MODEL_TYPE)),
        found=shown(str(kind)),
    )


def convert(folder: Path, target: Path, mix: Mix, *, name: str | None = None) -> Written:
    """Raises ModelFileError, UnsupportedModelError or SettingsError naming the file, key or tensor.

    Nothing of the checkpoint may be left over: a model without one of its tensors would compute something else.
    """
    reader = reader_of(read_json(folder / "config.json"))
    shape = reader.shape
    source = open_checkpoint(folder)
    family = contract(str(shape["architecture"]))
    keys = general(shape, mix, name or folder.resolve().name) | shapes.keys(shape)
    count = int(shape["vocab_size"])  # type: ignore[arg-type]
    words = vocabulary.from_folder(folder, count)
    if words is None:
        pre = max(family.PROMPT.pre, default="gpt-2")
        words = vocabulary.placeholder(count, pre, family.PROMPT.markup or ("<|bos|>", "<|eos|>"))
    keys |= words
    specs = [spec for spec in layout(family, keys) if spec.required or reader.has(source, spec)]
    left = reader.unused(source, specs)
    if left:
        raise ModelFileError(
            "a tensor that the family has no place for",
            code="tensor_unused",
            subject=shown(left[0]),
            expected="only tensors of the family",
            found=f"{len(left)} unused",
        )
    for spec in specs:
        reader.check(source, spec)  # before anything is written
    return gguf_file.write(target, keys, [_tensor(reader, source, spec, mix.kind(spec)) for spec in specs])


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


def _tensor(reader: Reader, source: Checkpoint, spec: SlotSpec, kind: int) -> Tensor:
    def data() -> Iterator[bytes]:
        for piece in reader.pieces(source, spec):
            yield encode(kind, piece, spec.name)

    assert checkpoint.PIECE % TENSOR_TYPES[kind].block == 0
    return Tensor(spec.name, spec.dims, kind, data)
