"""The models that the build brings along, for tests that are about real ones."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest
from ds4.core import gguf
from ds4.core.gguf import GgufFile
from ds4.core.tokenizer import Tokenizer

needs_model = pytest.mark.skipif("DS4_EMBEDDED_MODEL" not in os.environ, reason="DS4_EMBEDDED_MODEL names no model")
needs_mini = pytest.mark.skipif("DS4_MINI_MODEL" not in os.environ, reason="DS4_MINI_MODEL names no model")
needs_engine = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")


def path() -> Path:
    return Path(os.environ["DS4_EMBEDDED_MODEL"])


def mini() -> Path:
    """ds4-mini, wherever a program is started."""
    return Path(os.environ["DS4_MINI_MODEL"]).absolute()


@functools.cache
def file() -> GgufFile:
    return gguf.read(path())


@functools.cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_metadata(file().metadata)
