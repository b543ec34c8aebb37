"""DeepSeek's vocabularies: whatever text a client sends, in whatever field, the special tokens of the prompt are those
that the layout puts there, in order, and no others."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ds4.core import catalog, inventory
from ds4.core.chat_dsv4 import prompt
from ds4.core.conversation import conversation
from ds4.core.encoder_dsv4 import SPECIALS, encode
from ds4.core.tokenizer import Tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from parity import vocabularies


@functools.cache
def _mini() -> Tokenizer:
    return Tokenizer.from_metadata(inventory.load(catalog.embedded_path("ds4-mini")).metadata)


@functools.cache
def _real() -> Tokenizer:
    if "DS4_DEEPSEEK_TOKENIZER" not in os.environ:
        pytest.skip("DS4_DEEPSEEK_TOKENIZER names no tokenizer.json")
    return vocabularies.tokenizer("deepseek")


VOCABULARIES: dict[str, Callable[[], Tokenizer]] = {"ds4-mini": _mini, "deepseek": _real}
WHOLE = [*SPECIALS, "<｜fim▁begin｜>", "<｜tool▁calls▁begin｜>", "<|EOT|>", "<dsml:", "</dsml:", "<｜▁pad▁｜>"]
HALVES = sorted({half for text in WHOLE for at in range(1, len(text)) for half in (text[:at], text[at:])})
OTHER = [
    "｜",
    "|",
    "▁",
    "_",
    "＜",
    "＞",
    "<",
    ">",
    "</",
    "DSML",
    "a",
    "é",
    " ",
    "\n",
    "\n\n",
    '"',
    "\\",
    "<tool_result>",
]
TEXT = st.lists(st.sampled_from(WHOLE) | st.sampled_from(HALVES) | st.sampled_from(OTHER), max_size=8).map("".join)
FILLED = TEXT.map(lambda text: text or "<think>")
VALUE = st.recursive(
    TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


def _parts(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    part = st.fixed_dictionaries({"type": st.just("text"), "text": texts})
    return texts | st.lists(part, min_size=1, max_size=3)


CALL = st.fixed_dictionaries(
    {
        "id": TEXT,
        "function": st.fixed_dictionaries(
            {"name": TEXT, "arguments": TEXT | st.dictionaries(TEXT, VALUE, max_size=3).map(json.dumps)}
        ),
    }
)
MESSAGE = st.one_of(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "latest_reminder", "developer"]),
            "content": _parts(FILLED),
            "name": TEXT,
        }
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": _parts(TEXT), "tool_call_id": TEXT, "name": TEXT}),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": _parts(TEXT),
            "reasoning_content": TEXT,
            "tool_calls": st.lists(CALL, max_size=2),
            "prefix": st.booleans(),
        }
    ),
)
TOOL = st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": TEXT, "description": TEXT, "parameters": VALUE, "strict": TEXT}),
    }
)
REQUEST = st.fixed_dictionaries(
    {
        "messages": st.lists(MESSAGE, min_size=1, max_size=5),
        "tools": st.lists(TOOL, max_size=2),
        "response_format": st.none() | st.fixed_dictionaries({"type": TEXT, "json_schema": VALUE}),
        "thinking": st.booleans(),
        "think_max": st.booleans(),
    }
)


def _letters() -> Iterator[str]:
    """Texts without a sign of markup, no two alike."""
    number = 0
    while True:
        yield f"x{number}"
        number += 1


def _plain(value: Any, fresh: Iterator[str]) -> Any:
    """A value of the same shape with such texts for the client's; what a key is called by the form of a request stays
    (_request)."""
    if isinstance(value, str):
        return next(fresh)
    if isinstance(value, list):
        return [_plain(item, fresh) for item in value]
    if isinstance(value, dict):
        return {next(fresh): _plain(item, fresh) for item in value.values()}
    return value


def _arguments(text: str, fresh: Iterator[str]) -> str:
    """Arguments with as many parameters."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return json.dumps(_plain(value, fresh)) if isinstance(value, dict) else next(fresh)


def _request(given: dict[str, Any]) -> dict[str, Any]:
    """The request with every text of the client's exchanged for a harmless one. Ids stay: they order results."""
    fresh = _letters()
    messages = []
    for message in given["messages"]:
        other = dict(message)
        for key in ("content", "reasoning_content", "name"):
            if isinstance(message.get(key), str):
                other[key] = next(fresh)
            elif key in message:
                other[key] = [{"type": "text", "text": next(fresh)} for _ in message[key]]
        if "tool_calls" in message:
            other["tool_calls"] = [
                {
                    "id": call["id"],
                    "function": {"name": next(fresh), "arguments": _arguments(call["function"]["arguments"], fresh)},
                }
                for call in message["tool_calls"]
            ]
        messages.append(other)
    tools = [{"type": "function", "function": {"name": next(fresh)}} for _ in given["tools"]]
    form = given["response_format"]
    free = form is None or form["type"] == "text"
    return given | {"messages": messages, "tools": tools, "response_format": None if free else {"type": "x"}}


def _specials(request: dict[str, Any]) -> list[str]:
    """What the layout puts into a prompt, by the encoder on a harmless request of the same shape."""
    return [text for text, special in encode(conversation(**_request(request))) if special]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_what_a_client_writes_never_becomes_a_special_token(name: str) -> None:
    tokenizer = VOCABULARIES[name]()
    known = frozenset(tokenizer.special_tokens.values())

    @settings(max_examples=200, deadline=None)
    @given(REQUEST)
    def check(request: dict[str, Any]) -> None:
        segments = prompt(conversation(**request))
        ids = tokenizer.encode_segments(segments)
        wanted = [tokenizer.special_tokens[text] for text in _specials(request)]
        assert [token for token in ids if token in known] == wanted
        assert tokenizer.decode(ids) == "".join([text for text, _ in segments])

    check()


FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    **{
        role: lambda text, role=role: {"messages": [{"role": role, "content": text}]}  # type: ignore[misc]
        for role in ("system", "developer", "user", "assistant", "tool", "latest_reminder")
    },
    "reasoning": lambda text: {"messages": [{"role": "assistant", "content": "x", "reasoning_content": text}]},
    "a call's name": lambda text: {"messages": [_calling(text, "{}")]},
    "arguments": lambda text: {"messages": [_calling("f", json.dumps({"x": text}))]},
    "a parameter's name": lambda text: {"messages": [_calling("f", json.dumps({text: [text]}))]},
    "arguments that are no JSON": lambda text: {"messages": [_calling("f", text)]},
    "a tool": lambda text: {
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"function": {"name": text, "description": text, "parameters": {text: text}}}],
    },
    "the response's format": lambda text: {
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": {text: text}},
    },
}


def _calling(name: str, arguments: str) -> dict[str, Any]:
    call = {"id": "1", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "x", "tool_calls": [call]}


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("field", FIELDS)
def test_no_field_takes_any_special_token_of_the_vocabulary(name: str, field: str) -> None:
    """All of them at once: alone, and each behind half of the next."""
    tokenizer = VOCABULARIES[name]()
    texts = sorted(tokenizer.special_tokens)
    typed = "".join(texts) + "".join([f"{text[: len(text) // 2]}{text}{text[len(text) // 2 :]}" for text in texts])

    def specials(text: str) -> list[int]:
        ids = tokenizer.encode_segments(prompt(conversation(**FIELDS[field](text))))
        return [token for token in ids if token in known]

    known = frozenset(tokenizer.special_tokens.values())
    assert specials(typed) == specials("x") != []
