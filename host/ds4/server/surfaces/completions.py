"""POST /v1/completions."""

from __future__ import annotations

import json
from typing import Any

from ds4.server import limits
from ds4.server.errors import invalid
from ds4.server.events import CallDelta, Delta, Finished, TokenLogprob
from ds4.server.request import Body, GenerationRequest, new_id, read_options, text, token_ids, wrong_type
from ds4.server.service import Served
from ds4.server.surfaces.generation import (
    DONE,
    Answer,
    Generating,
    Renderer,
    check_context,
    dump,
    sse,
    timings,
    usage,
)

_quote = json.encoder.encode_basestring


class Completions(Generating):
    async def parse(self, body: Body, served: Served) -> GenerationRequest:
        body.text("model")
        body.refuse("echo", (False,), "'echo' is not supported by this server.")
        body.refuse("suffix", ("",), "'suffix' is not supported by this server.")
        options = read_options(body, served.defaults, served.tokenizer.n_vocab)
        best_of = body.integer("best_of", 1, limits.MAX_CHOICES)
        if best_of is not None and best_of != options.n:
            raise invalid(
                "'best_of' other than 'n' is not supported by this server.", "best_of", "unsupported_parameter"
            )
        prompts = await self._prompts(body.get("prompt"), served)
        check_context(prompts, served, "prompt")
        return GenerationRequest(
            id=new_id("cmpl"),
            prompts=prompts,
            sampling=options.sampling,
            n=options.n,
            max_tokens=options.max_tokens,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
            logprobs=body.integer("logprobs", 0, limits.MAX_TOP_LOGPROBS),
            cache_prompt=served.cache_prompt and options.cache_prompt,
            stream=options.stream,
            include_usage=options.include_usage,
            surface="completions",
        )

    async def _prompts(self, prompt: object, served: Served) -> list[list[int]]:
        """A string, an array of strings, an array of token ids, or an array of such arrays."""
        n_vocab = served.tokenizer.n_vocab
        if isinstance(prompt, str):
            return await served.prompts.raw([text(prompt, "prompt")])
        if not isinstance(prompt, list):
            raise wrong_type("prompt", "a string, an array of strings or an array of token ids", prompt)
        if not prompt:
            raise invalid("'prompt' must not be empty.", "prompt")
        if isinstance(prompt[0], str | list) and len(prompt) > limits.MAX_PROMPTS:
            raise invalid(f"'prompt' may hold at most {limits.MAX_PROMPTS} prompts.", "prompt")
        if isinstance(prompt[0], str):
            return await served.prompts.raw([text(item, f"prompt[{i}]") for i, item in enumerate(prompt)])
        if isinstance(prompt[0], list):
            for i, item in enumerate(prompt):
                if not isinstance(item, list):
                    raise wrong_type(f"prompt[{i}]", "an array of token ids", item)
            return [token_ids(item, n_vocab, f"prompt[{i}]") for i, item in enumerate(prompt)]
        return [token_ids(prompt, n_vocab, "prompt")]

    def renderer(self, request: GenerationRequest, served: Served) -> CompletionRenderer:
        return CompletionRenderer(request, served)


class CompletionRenderer(Renderer):
    """Chunks are made of prepared bytes; a delta without log-probabilities costs one JSON string."""

    def __init__(self, request: GenerationRequest, served: Served) -> None:
        self._request, self._served = request, served
        self._head = {
            "id": request.id,
            "object": "text_completion",
            "created": request.created,
            "model": served.model_id,
            "system_fingerprint": served.fingerprint,
        }
        self._tail: dict[str, Any] = {"usage": None} if request.include_usage else {}
        self._offsets = [0] * request.choices  # characters of text sent so far, for text_offset
        halves = [sse(self._chunk(0, None, index)).split(b'"text":0') for index in range(request.choices)]
        self._before = [before + b'"text":' for before, _ in halves]
        self._after = [after for _, after in halves]

    def _chunk(self, shown: Any, reason: str | None, index: int, logprobs: Any = None) -> dict[str, Any]:
        choice = {"index": index, "text": shown, "logprobs": logprobs, "finish_reason": reason}
        return {**self._head, "choices": [choice], **self._tail}

    def opening(self) -> bytes:
        return b": stream\n\n"  # sends the headers: the first token may take a while

    def delta(self, event: Delta) -> bytes:
        if event.logprobs is None:
            return b"%b%b%b" % (self._before[event.choice], _quote(event.text).encode(), self._after[event.choice])
        logprobs = self._logprobs(event.logprobs, self._offsets[event.choice])
        self._offsets[event.choice] += len(event.text)
        return sse(self._chunk(event.text, None, event.choice, logprobs))

    def call(self, event: CallDelta) -> bytes:
        raise AssertionError("a completion is plain text")

    def finished(self, event: Finished) -> bytes:
        return sse(self._chunk("", event.reason, event.choice))

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
            logprobs = self._logprobs(answer.logprobs, 0) if self._request.logprobs is not None else None
            choices.append(
                {
                    "index": index,
                    "text": "".join(answer.text),
                    "logprobs": logprobs,
                    "finish_reason": answer.finished.reason,
                }
            )
        n = self._request.n
        return dump({**self._head, "choices": choices, "usage": usage(ends, n), "timings": timings(ends, n)})

    def _logprobs(self, entries: list[TokenLogprob], offset: int) -> dict[str, Any]:
        """The legacy shape: parallel arrays, alternatives by their text."""
        tokens, values, tops, offsets = [], [], [], []
        for entry in entries:
            shown = self._text(entry.token)
            tokens.append(shown)
            values.append(entry.logprob)
            tops.append({self._text(token): value for token, value in reversed(entry.top)} if entry.top else None)
            offsets.append(offset)
            offset += len(shown)
        return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}

    def _text(self, token: int) -> str:
        """A token's text; one that is no UTF-8 by itself shows its bytes."""
        data = self._served.tokenizer.token_bytes(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
