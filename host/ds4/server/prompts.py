"""Prompts to token ids, off the event loop.

The tokenizer keeps the ids of recent runs of text, so a conversation that comes back whole with each turn costs its new
part only; and it releases the GIL while it works. Rendering a template does not, hence threads of its own with a bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ds4.core.chat import ChatRequest, Dialect, Prompt
from ds4.core.tokenizer import Tokenizer
from ds4.server.errors import ApiError, invalid

T = TypeVar("T")


def no_dialect() -> ApiError:
    """The answer to a chat with a model that has none."""
    return invalid("This model has no chat template or markup; use /v1/completions.", code="no_chat_template")


class Prompts:
    """dialect: None for a model that has none, which serves completions only. context: positions of one bank."""

    def __init__(self, tokenizer: Tokenizer, dialect: Dialect | None, context: int) -> None:
        self.tokenizer, self.context = tokenizer, context
        self._dialect = dialect
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="ds4-prompt")

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function on a prompt thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    async def chat(self, request: ChatRequest) -> tuple[Prompt, list[int]]:
        """A chat's prompt and its ids; what the request brings never becomes markup."""
        return await self.run(self._chat, request)

    async def raw(self, texts: list[str]) -> list[list[int]]:
        """Ids of completion prompts. Their author renders templates himself, so markup in them is meant."""
        return await self.run(self._raw, texts)

    async def render(self, request: ChatRequest) -> str:
        dialect = self.dialect()
        return await self.run(lambda: dialect.prompt(request, self.context).text)

    @property
    def known(self) -> Dialect | None:
        """The dialect, if there is one."""
        return self._dialect

    def dialect(self) -> Dialect:
        if self._dialect is None:
            raise no_dialect()
        return self._dialect

    def _chat(self, request: ChatRequest) -> tuple[Prompt, list[int]]:
        prompt = self.dialect().prompt(request, self.context)
        return prompt, self.tokenizer.with_bos(self.tokenizer.encode_segments(prompt.segments))

    def _raw(self, texts: list[str]) -> list[list[int]]:
        return [self.tokenizer.with_bos(self.tokenizer.encode(text, special=True)) for text in texts]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
