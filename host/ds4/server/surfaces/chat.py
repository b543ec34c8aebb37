"""POST /v1/chat/completions."""

from __future__ import annotations

import json
from typing import Any

from ds4.server import limits
from ds4.server.errors import invalid
from ds4.server.events import Delta, Finished, TokenLogprob
from ds4.server.request import Body, GenerationRequest, kind, new_id, read_options, text, wrong_type
from ds4.server.service import Served
from ds4.server.surfaces.generation import DONE, Answer, Generating, check_context, dump, sse, timings, usage

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_quote = json.encoder.encode_basestring


class ChatCompletions(Generating):
    async def parse(self, body: Body, served: Served) -> GenerationRequest:
        messages = read_messages(body)
        _refuse_unsupported(body)
        options = read_options(body, served.defaults, served.tokenizer.n_vocab)
        top = body.integer("top_logprobs", 0, limits.MAX_TOP_LOGPROBS)
        wanted = body.boolean("logprobs")
        if top is not None and not wanted:
            raise invalid("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
        prompt = await served.prompts.chat(messages)
        check_context([prompt], served, "messages")
        return GenerationRequest(
            id=new_id("chatcmpl"),
            prompts=[prompt],
            sampling=options.sampling,
            n=options.n,
            max_tokens=options.max_tokens,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
            logprobs=(top or 0) if wanted else None,
            cache_prompt=served.cache_prompt and options.cache_prompt,
            stream=options.stream,
            include_usage=options.include_usage,
        )

    def renderer(self, request: GenerationRequest, served: Served) -> ChatRenderer:
        return ChatRenderer(request, served)


def read_messages(body: Body) -> list[dict[str, Any]]:
    """The conversation as templates take it: text content, developer as system."""
    body.text("model")
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise wrong_type("messages", "an array of messages", messages)
    if not messages:
        raise invalid("'messages' must hold at least one message.", "messages")
    return [_message(item, f"messages[{index}]") for index, item in enumerate(messages)]


def _message(item: object, path: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise wrong_type(path, "an object", item)
    message = Body(item, path)
    role = message.text("role")
    if role not in _ROLES:
        raise invalid(f"'{path}.role' must be one of {', '.join(_ROLES)}, not {str(role)[:40]!r}.", f"{path}.role")
    if message.get("tool_calls"):
        raise invalid("Tool calls are not supported by this server.", f"{path}.tool_calls", "unsupported_parameter")
    content = message.get("content")
    if content is None and role != "assistant":
        raise invalid(f"'{path}.content' is required for the role {role}.", f"{path}.content")
    read = {"role": _ROLES[role], "content": _content(content, f"{path}.content")}
    if name := message.text("name"):
        read["name"] = name
    return read


def _content(content: object, path: str) -> str:
    """A string, null (nothing said), or text parts, joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return text(content, path)
    if not isinstance(content, list):
        raise wrong_type(path, "a string or an array of text parts", content)
    parts = []
    for index, item in enumerate(content):
        part = Body(item, f"{path}[{index}]") if isinstance(item, dict) else None
        if part is None:
            raise wrong_type(f"{path}[{index}]", "an object", item)
        if part.get("type") != "text":
            found = part.get("type")
            shown = repr(found[:40]) if isinstance(found, str) else kind(found)
            raise invalid(f"This model reads text only; '{path}[{index}].type' is {shown}.", f"{path}[{index}].type")
        parts.append(text(part.get("text"), f"{path}[{index}].text"))
    return "".join(parts)


def _refuse_unsupported(body: Body) -> None:
    body.refuse("tools", ([],), "Tools are not supported by this server.")
    body.refuse("functions", ([],), "Functions are not supported by this server.")
    response_format = body.nested("response_format")
    if response_format.get("type") not in (None, "text"):
        raise invalid("Only the response format 'text' is supported.", "response_format", "unsupported_parameter")


class ChatRenderer:
    """Chunks are made of prepared bytes; a delta without log-probabilities costs one JSON string."""

    def __init__(self, request: GenerationRequest, served: Served) -> None:
        self._request, self._served = request, served
        self._head = {
            "id": request.id,
            "object": "chat.completion.chunk",
            "created": request.created,
            "model": served.model_id,
            "system_fingerprint": served.fingerprint,
        }
        self._tail: dict[str, Any] = {"usage": None} if request.include_usage else {}
        # A quoted 0 stands where the text goes; its place is found once for each choice.
        halves = [
            sse(self._chunk({"content": 0}, None, index)).split(b'{"content":0}') for index in range(request.choices)
        ]
        self._before = [before + b'{"content":' for before, _ in halves]
        self._after = [b"}" + after for _, after in halves]

    def _chunk(self, delta: dict[str, Any], reason: str | None, index: int, logprobs: Any = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return {**self._head, "choices": [choice], **self._tail}

    def opening(self) -> bytes:
        delta = {"role": "assistant", "content": ""}
        return b"".join(sse(self._chunk(delta, None, index)) for index in range(self._request.choices))

    def delta(self, event: Delta) -> bytes:
        if event.logprobs is None:
            return b"%b%b%b" % (self._before[event.choice], _quote(event.text).encode(), self._after[event.choice])
        logprobs = {"content": self._logprobs(event.logprobs), "refusal": None}
        return sse(self._chunk({"content": event.text}, None, event.choice, logprobs))

    def finished(self, event: Finished) -> bytes:
        return sse(self._chunk({}, event.reason, event.choice))

    def closing(self, ends: list[Finished]) -> bytes:
        if not self._request.include_usage:
            return DONE
        n = self._request.n
        return sse({**self._head, "choices": [], "usage": usage(ends, n), "timings": timings(ends, n)}) + DONE

    def buffered(self, answers: list[Answer]) -> bytes:
        choices, ends = [], []
        for index, answer in enumerate(answers):
            assert answer.finished is not None
            ends.append(answer.finished)
            logprobs = None
            if self._request.logprobs is not None:
                logprobs = {"content": self._logprobs(answer.logprobs), "refusal": None}
            message = {"role": "assistant", "content": "".join(answer.text), "refusal": None}
            choices.append(
                {"index": index, "message": message, "logprobs": logprobs, "finish_reason": answer.finished.reason}
            )
        n = self._request.n
        whole = {**self._head, "object": "chat.completion", "choices": choices}
        return dump({**whole, "usage": usage(ends, n), "timings": timings(ends, n)})

    def _logprobs(self, entries: list[TokenLogprob]) -> list[dict[str, Any]]:
        return [
            {**self._entry(e.token, e.logprob), "top_logprobs": [self._entry(token, value) for token, value in e.top]}
            for e in entries
        ]

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        data = self._served.tokenizer.token_bytes(token)
        return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}
