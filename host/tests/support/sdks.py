"""Fixtures: the official SDKs as clients of the server whose URL, with /v1, the test's module gives as `url`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # not every room has the SDKs, and every room reads this
    import anthropic
    import openai

_SECONDS = 120


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=_SECONDS) as made:
        yield made


@pytest.fixture
def claude(url: str) -> Iterator[anthropic.Anthropic]:
    import anthropic

    root = url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=root, api_key="none", max_retries=0, timeout=_SECONDS) as made:
        yield made
