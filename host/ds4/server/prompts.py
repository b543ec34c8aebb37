"""Prompts to token ids, off the event loop.

The tokenizer keeps the ids of recent runs of text, so a conversation that comes back whole with each turn costs its new
part only; and it releases the GIL while it works. Rendering a template does not, hence threads of its own with a bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ds4.core.template import ChatTemplate
from ds4.core.tokenizer import Tokenizer
from ds4.server.errors import invalid

T = TypeVar("T")


class Prompts:
    """template: None for a model that has none, which serves completions only."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> None:
        self.tokenizer = tokenizer
        self._template = template
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="ds4-prompt")

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function on a prompt thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    async def chat(self, messages: list[dict[str, Any]], *, generation_prompt: bool = True) -> list[int]:
        """Ids of a conversation; message text never becomes markup."""
        return await self.run(self._chat, messages, generation_prompt)

    async def raw(self, texts: list[str]) -> list[list[int]]:
        """Ids of completion prompts. Their author renders templates himself, so markup in them is meant."""
        return await self.run(self._raw, texts)

    async def render(self, messages: list[dict[str, Any]], generation_prompt: bool) -> str:
        template = self.template()
        return await self.run(
            lambda: template.render_text(messages, add_generation_prompt=generation_prompt),
        )

    def template(self) -> ChatTemplate:
        if self._template is None:
            raise invalid("This model has no chat template; use /v1/completions.", code="no_chat_template")
        return self._template

    def _chat(self, messages: list[dict[str, Any]], generation_prompt: bool) -> list[int]:
        segments = self.template().render(messages, add_generation_prompt=generation_prompt)
        return self.tokenizer.with_bos(self.tokenizer.encode_segments(segments))

    def _raw(self, texts: list[str]) -> list[list[int]]:
        return [self.tokenizer.with_bos(self.tokenizer.encode(text, special=True)) for text in texts]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
