"""From a prompt to token ids. No engine is needed for that."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ds4.cli.arguments import EFFORT, RAW, SYSTEM
from ds4.core import inventory
from ds4.core.chat import ChatRequest
from ds4.core.dialects import Override, dialect
from ds4.core.exits import Exit
from ds4.core.memory_plan import DEFAULT_CTX
from ds4.core.metadata import Metadata
from ds4.core.options import CTX
from ds4.core.settings import Settings
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ChatError, SettingsError


@contextmanager
def effort_as(told: str) -> Iterator[None]:
    """What a model says to an effort that it cannot make, told of where the effort was given instead of the request's
    field. SettingsError."""
    try:
        yield
    except ChatError as error:
        if error.code != "chat_thinking":
            raise
        raise SettingsError(error.message, subject=told) from None


def messages(system: str | None, prompt: str) -> list[dict[str, str]]:
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, {"role": "user", "content": prompt}]


def prompt_ids(settings: Settings, tokenizer: Tokenizer, metadata: Metadata, prompt: str) -> list[int]:
    """The ids that a prompt becomes: through the model's chat dialect, if it has one and --raw is not given."""
    chat = None if settings[RAW] else dialect(metadata, tokenizer, Override.of(settings))
    if chat is None:
        return tokenizer.with_bos(tokenizer.encode(prompt, special=True))
    request = ChatRequest(messages(settings[SYSTEM], prompt), effort=settings[EFFORT])
    with effort_as(f"--effort {settings[EFFORT]}"):
        segments = chat.prompt(request, settings[CTX] or DEFAULT_CTX).segments
    return tokenizer.with_bos(tokenizer.encode_segments(segments))


def dump_tokens(settings: Settings, path: Path, prompt: str | None) -> int:
    """--dump-tokens: an id and its piece a line."""
    if prompt is None:
        raise SettingsError("needs a prompt", subject="--dump-tokens")
    metadata = inventory.load(path).metadata
    tokenizer = Tokenizer.from_metadata(metadata)
    for token in prompt_ids(settings, tokenizer, metadata, prompt):
        piece = tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")
        sys.stdout.write(f"{token}\t{json.dumps(piece, ensure_ascii=False)}\n")
    return Exit.OK
