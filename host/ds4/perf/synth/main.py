"""`ds4-synth`: writes model files. `random` draws weights for a shape, `convert` takes those of a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ds4.core.exits import EPILOG, Exit, guarded
from ds4.core.render import byte_size
from ds4.core.settings import Option, Program, Settings, boolean, choice, integer, load, path, text, texts
from ds4.errors import SettingsError

if TYPE_CHECKING:
    from ds4.perf.synth.gguf_file import Written
    from ds4.perf.synth.mixes import Mix

_WHAT = "What to write"
_HOW = "How"

OUT: Option[Path | None] = Option("output", path(), None, "The file to write.", _WHAT, ("-o",), flag_only=True)
NAME: Option[str | None] = Option("name", text(), None, "The model's name in the file.", _WHAT, flag_only=True)
TYPE: Option[str] = Option(
    "type",
    text("MIX"),
    "q8_0",
    "A type for all matrices (f32, f16, bf16, q8_0, q4_k, ...), or a mix: q2, q4, mxfp4. Small deciding ones stay at "
    "16 bits where the mix is no plain type.",
    _HOW,
    flag_only=True,
)
TENSOR: Option[tuple[str, ...]] = Option(
    "tensor",
    texts("WHAT=TYPE"),
    (),
    "Another type for a part (embed, head, dense, index, expert, down, fine) or for tensors by name "
    "('blk.*.attn_kv.weight=f16'); repeats, the last that fits wins.",
    _HOW,
    flag_only=True,
)

SHAPE: Option[str] = Option(
    "shape",
    text("SHAPE"),
    "deepseek4-tiny",
    "deepseek4-tiny, flash, pro, llama-tiny, llama-135m, llama-8b, or mistral, smollm3, qwen2, qwen3, qwen3moe, gemma3 "
    "with -tiny behind.",
    _WHAT,
    flag_only=True,
)
LAYERS: Option[int | None] = Option(
    "layers", integer(1, 1024), None, "Another number of layers.", _WHAT, shows="the shape's", flag_only=True
)
SET: Option[tuple[str, ...]] = Option(
    "set",
    texts("KEY=VALUE"),
    (),
    "Another value for a key of the shape, without the architecture's prefix "
    "('attention.compress_ratios=0,0,4,128'); repeats.",
    _WHAT,
    flag_only=True,
)
MTP: Option[bool] = Option("mtp", boolean(), False, "With a block that drafts.", _WHAT, flag_only=True)
WITHOUT: Option[tuple[str, ...]] = Option(
    "without",
    texts("TENSOR"),
    (),
    "Leave out an optional tensor (output.weight: the head is then the embedding); repeats.",
    _WHAT,
    flag_only=True,
)
TOKENIZER: Option[Path | None] = Option(
    "tokenizer",
    path(),
    None,
    "Vocabulary of this GGUF file or folder with a tokenizer.json.",
    _WHAT,
    shows="bytes and unused tokens",
    flag_only=True,
)
SEED: Option[int] = Option(
    "seed", integer(0), 0, "The same seed, shape and types give the same bytes.", _HOW, flag_only=True
)
FILL: Option[str] = Option(
    "fill",
    choice("values", "blocks"),
    "values",
    "values: bell-shaped numbers, quantised; blocks: random codes, much faster, for timing alone.",
    _HOW,
    flag_only=True,
)
ALIAS: Option[bool] = Option(
    "alias",
    boolean(),
    False,
    "Layers of a kind share their matrices' bytes: full depth in the space of one layer of each kind.",
    _HOW,
    flag_only=True,
)
HF: Option[Path | None] = Option(
    "hf",
    path("directory"),
    None,
    "Folder with config.json, model.safetensors and tokenizer.json.",
    _WHAT,
    flag_only=True,
)

RANDOM = Program(
    name="ds4-synth random",
    table="synth",
    summary="Writes a model of random weights: any shape of a family, any mix of types, reproducible.",
    usage=(
        "ds4-synth random -o tiny.gguf",
        "ds4-synth random --shape flash --layers 4 --type q2 --fill blocks --alias -o flash4.gguf",
    ),
    options=(SHAPE, LAYERS, SET, MTP, WITHOUT, TOKENIZER, OUT, NAME, TYPE, TENSOR, SEED, FILL, ALIAS),
    epilog=EPILOG,
)
CONVERT = Program(
    name="ds4-synth convert",
    table="synth",
    summary="Converts a transformers checkpoint: of llama, mistral, smollm3, qwen2, qwen3, qwen3_moe, gemma3_text or "
    "deepseek_v4.",
    usage=("ds4-synth convert --hf DIR -o FILE [--type bf16|f16|f32|q8_0|...]",),
    options=(HF, OUT, NAME, TYPE, TENSOR),
    epilog=EPILOG,
)
PROGRAM = Program(
    name="ds4-synth",
    table="synth",
    summary="Writes model files: random ones of any shape, or conversions.",
    usage=(
        "ds4-synth random [--shape SHAPE] -o FILE    random weights (--help lists its options)",
        "ds4-synth convert --hf DIR -o FILE          a transformers checkpoint",
    ),
    options=tuple({option.name: option for option in (*RANDOM.options, *CONVERT.options)}.values()),
    epilog=EPILOG,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code (core.exits)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return guarded("ds4-synth", lambda: _dispatch(arguments))


def _dispatch(arguments: list[str]) -> int:
    match arguments:
        case ["random", *rest]:
            return _run(load(RANDOM, rest), _random)
        case ["convert", *rest]:
            return _run(load(CONVERT, rest), _convert)
    load(PROGRAM, arguments or ["--help"])
    raise SettingsError("say what to write: random or convert")


def _run(settings: Settings, write: Callable[[Settings, Path, Mix], Written]) -> int:
    target = settings[OUT]
    if target is None:
        raise SettingsError("needs -o FILE")
    # What needs numpy is imported only now, and first what says so where there is none.
    from ds4.perf.synth import arrays  # noqa: F401
    from ds4.perf.synth.mixes import Mix

    changes = settings[TENSOR]
    mix = Mix.of(settings[TYPE], changes)
    written = write(settings, target, mix)
    sys.stdout.write(_report(written, mix))
    return Exit.OK


def _random(settings: Settings, target: Path, mix: Mix) -> Written:
    from ds4.perf.synth import random_model, shapes

    changes, without = settings[SET], settings[WITHOUT]
    return random_model.write(
        target,
        shapes.shape(settings[SHAPE], settings[LAYERS], changes),
        mix,
        seed=settings[SEED],
        fill=settings[FILL],
        alias=settings[ALIAS],
        tokenizer=settings[TOKENIZER],
        name=settings[NAME] or settings[SHAPE],
        drafting=settings[MTP],
        without=without,
    )


def _convert(settings: Settings, target: Path, mix: Mix) -> Written:
    from ds4.perf.synth.convert import convert

    folder = settings[HF]
    if folder is None:
        raise SettingsError("needs --hf DIR")
    return convert(folder, target, mix, name=settings[NAME])


def _report(written: Written, mix: Mix) -> str:
    lines = [f"{written.path}: {written.tensors} tensors, {byte_size(written.stored_bytes)}"]
    if written.weight_bytes > written.stored_bytes:
        lines.append(f"weights that share bytes: {byte_size(written.weight_bytes)} in all")
    if mix.smaller:
        names = list(mix.smaller)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"rows no whole blocks of their type, so stored in another: {', '.join(names[:3])}{more}")
    return "".join(line + "\n" for line in lines)
