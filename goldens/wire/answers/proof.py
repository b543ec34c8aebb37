"""What the outside says of an answer: automata written from the references, and the types of the SDKs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from answers.responses import Responses
from answers.said import Said
from anthropic.types import Message, RawMessageStreamEvent
from ds4.sys.tape import lines, unescape
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from support.messages_events import MessageStream
from support.responses_automaton import check, parse

MESSAGES_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
RESPONSES_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def sent_of(out: bytes) -> Iterator[tuple[bool, bytes]]:
    for verb, word in lines(out):
        yield verb == b"body", unescape(word)


def prove(said: Said, out: bytes) -> None:
    """Automata and SDK types take it."""
    stream = b"".join(data for whole, data in sent_of(out) if not whole)
    bodies = [data for whole, data in sent_of(out) if whole]
    for body in bodies:
        kind: Any = {"chat": ChatCompletion, "completions": Completion, "messages": Message, "responses": Response}
        kind[said.surface].model_validate(json.loads(body))
    if not said.streamed:
        return
    if said.surface == "messages":
        automaton = MessageStream()
        automaton.feed(stream)
        automaton.end()
        for block in stream.decode().split("\n\n")[:-1]:
            data = json.loads(block.split("data: ", 1)[1])
            if data["type"] not in ("ping", "error"):
                MESSAGES_EVENT.validate_python(data)
    elif isinstance(said, Responses):
        told = parse(stream)
        if said.state["status"] != "cancelled":
            check(told)
        for event in told:
            assert type(RESPONSES_EVENT.validate_python(event)).__name__ != "dict"
    else:
        for block in stream.decode().split("\n\n")[:-1]:
            if block.startswith(":") or block == "data: [DONE]":
                continue
            data = json.loads(block.removeprefix("data: "))
            if "error" not in data:
                for choice in data["choices"] if said.surface == "completions" else ():
                    choice["finish_reason"] = choice["finish_reason"] or "stop"  # the type knows whole ones only
                (ChatCompletionChunk if said.surface == "chat" else Completion).model_validate(data)
