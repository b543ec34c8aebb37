"""The options that several programs share; each program takes the groups it needs.

What is left at its default of None is chosen later: threads from the machine, context and banks from free memory,
sampling from the model's own recommendation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ds4.core.catalog import DEFAULT_MODEL
from ds4.core.kinds import Kind
from ds4.core.output.answer import Tags
from ds4.core.output.dialects import TOOLS, reasoning_tags
from ds4.core.settings import Option, boolean, choice, integer, model_reference, number, path, text

_MODEL = "Model"
_ENGINE = "Engine"
_ANSWERS = "Reading answers"
_SAMPLING = "Sampling"

MODEL: Option[str] = Option(
    "model",
    model_reference(),
    DEFAULT_MODEL,
    "A name that `ds4 models` lists, or a GGUF file.",
    _MODEL,
    ("-m",),
)
MODEL_DIR: Option[Path | None] = Option(
    "model-dir", path("directory"), None, "Folder whose models can be named.", _MODEL
)

MTP: Option[Path | None] = Option(
    "mtp",
    path(),
    None,
    "GGUF file with the drafting block (MTP), where it is a file of its own; implies --draft.",
    _MODEL,
)
DRAFT: Option[bool] = Option(
    "draft",
    boolean(),
    False,
    "Guess a token ahead with the model's drafting block (MTP) and check it: the same answers in fewer steps.",
    _MODEL,
)

THREADS: Option[int | None] = Option(
    "threads", integer(1, 256), None, "Threads that compute.", _ENGINE, ("-t",), shows="one per physical core"
)
CTX: Option[int | None] = Option(
    "ctx",
    integer(1, 2**31 - 1),
    None,
    "Context of one conversation, in tokens.",
    _ENGINE,
    ("-c",),
    shows="what the model was trained for, up to 8192, if memory allows",
)
KV: Option[str] = Option("kv", choice("f32", "f16", "q8_0"), "f16", "Type of the KV cache.", _ENGINE)
NUMERIC: Option[str] = Option(
    "numeric",
    choice("ship", "float"),
    "ship",
    "ship: activations quantised where that is faster; float: fp32 with a fixed summation order, for proving.",
    _ENGINE,
)
BACKEND: Option[str] = Option(
    "backend",
    choice("cpu", "guard", "null"),
    "cpu",
    "guard checks memory access between operations; null computes nothing, to measure the host. Both are for tests.",
    _ENGINE,
)
BATCH: Option[int] = Option(
    "batch", integer(1, 4096), 512, "Most prompt tokens that one step computes.", _ENGINE, ("-b",)
)
WARM: Option[bool] = Option("warm", boolean(), True, "Read the weights into memory before starting.", _ENGINE)


def _tags() -> Kind[str | Tags]:
    plain = text("NAME|OPEN,CLOSE")
    return Kind(plain.metavar, lambda raw, base: reasoning_tags(plain.parse(raw, base)))


TOOL_DIALECT: Option[str | None] = Option(
    "tool-dialect",
    choice(*TOOLS),
    None,
    "How the model writes tool calls, of models with a chat template.",
    _ANSWERS,
    shows="as the template shows",
)
REASONING_TAGS: Option[str | Tags | None] = Option(
    "reasoning-tags",
    _tags(),
    None,
    "What reasoning stands between, of models with a chat template: none, think, mistral, or the two tags.",
    _ANSWERS,
    shows="as the template shows",
)

TEMP: Option[float | None] = Option(
    "temp", number(0, 100), None, "Temperature; 0 is greedy.", _SAMPLING, ("--temperature",), shows="the model's own"
)
TOP_P: Option[float | None] = Option(
    "top-p", number(0, 1), None, "Keep the likeliest with this mass; 1 is off.", _SAMPLING
)
TOP_K: Option[int | None] = Option("top-k", integer(0), None, "Keep the K likeliest; 0 is off.", _SAMPLING)
MIN_P: Option[float | None] = Option(
    "min-p", number(0, 1), None, "Drop what is less likely than this part of the likeliest; 0 is off.", _SAMPLING
)
REPEAT_PENALTY: Option[float | None] = Option(
    "repeat-penalty",
    number(0.01, 100),
    None,
    "Divide the logits of tokens already seen; 1 is off.",
    _SAMPLING,
    ("--repetition-penalty",),
)
FREQUENCY_PENALTY: Option[float | None] = Option(
    "frequency-penalty", number(-2, 2), None, "Lower logits for each time a token was output.", _SAMPLING
)
PRESENCE_PENALTY: Option[float | None] = Option(
    "presence-penalty", number(-2, 2), None, "Lower logits of tokens that were output.", _SAMPLING
)
SEED: Option[int | None] = Option(
    "seed",
    integer(0, 2**64 - 1),
    None,
    "Equal seeds give equal answers.",
    _SAMPLING,
    shows="drawn anew each time",
)

MODEL_OPTIONS: tuple[Option[Any], ...] = (MODEL, MODEL_DIR)
ENGINE_OPTIONS: tuple[Option[Any], ...] = (THREADS, CTX, KV, NUMERIC, BATCH, BACKEND, WARM)
SAMPLING_OPTIONS: tuple[Option[Any], ...] = (
    TEMP,
    TOP_P,
    TOP_K,
    MIN_P,
    REPEAT_PENALTY,
    FREQUENCY_PENALTY,
    PRESENCE_PENALTY,
    SEED,
)
ANSWER_OPTIONS: tuple[Option[Any], ...] = (TOOL_DIALECT, REASONING_TAGS)
SHARED: tuple[Option[Any], ...] = (*MODEL_OPTIONS, *ENGINE_OPTIONS, *SAMPLING_OPTIONS, *ANSWER_OPTIONS)
