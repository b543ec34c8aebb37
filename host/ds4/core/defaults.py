"""Sampling from settings: what was asked for, else what the model's file recommends, else the program's fallback.

Files recommend by the keys `general.sampling.*`, as llama.cpp's converter writes them.
"""

from __future__ import annotations

from ds4.core.metadata import Metadata
from ds4.core.options import (
    FREQUENCY_PENALTY,
    MIN_P,
    PRESENCE_PENALTY,
    REPEAT_PENALTY,
    SEED,
    TEMP,
    TOP_K,
    TOP_P,
)
from ds4.core.sampling import Sampling
from ds4.core.settings import Option, Settings


def sampling(settings: Settings, metadata: Metadata, fallback: Sampling) -> Sampling:
    """Raises SamplingError for values out of range, ModelFileError for recommendations of a wrong type."""

    def pick(option: Option[float | None], key: str | None, last: float) -> float:
        asked = settings[option]
        if asked is not None:
            return asked
        return last if key is None else metadata.f32(f"general.sampling.{key}", last)

    top_k = settings[TOP_K]
    return Sampling(
        temperature=pick(TEMP, "temp", fallback.temperature),
        top_p=pick(TOP_P, "top_p", fallback.top_p),
        top_k=metadata.i32("general.sampling.top_k", fallback.top_k) if top_k is None else top_k,
        min_p=pick(MIN_P, "min_p", fallback.min_p),
        repetition_penalty=pick(REPEAT_PENALTY, "penalty_repeat", fallback.repetition_penalty),
        frequency_penalty=pick(FREQUENCY_PENALTY, None, fallback.frequency_penalty),
        presence_penalty=pick(PRESENCE_PENALTY, None, fallback.presence_penalty),
        seed=settings[SEED],
    )
