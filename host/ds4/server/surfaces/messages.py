"""POST /v1/messages and /v1/messages/count_tokens: Anthropic's Messages API."""

from __future__ import annotations

import falcon.asgi

from ds4.server.answer import ChatAnswer
from ds4.server.constraints import messages_format
from ds4.server.errors import invalid
from ds4.server.request import Body, GenerationRequest, new_id, read_sampling, read_stops, tail_calls
from ds4.server.service import Served, Service
from ds4.server.surfaces import wire
from ds4.server.surfaces.generation import Generating, model_and_body
from ds4.server.surfaces.messages_render import MessagesFacts
from ds4.server.surfaces.messages_request import MessagesRequest, hides_thinking, marks_cache, read_chat
from ds4.server.surfaces.rendering import dump
from ds4.server.surfaces.thinking_budget import read_budget
from ds4.server.surfaces.writing import Writing


class Messages(Generating):
    async def parse(self, body: Body, served: Served) -> GenerationRequest:
        dialect = served.prompts.dialect()
        chat = read_chat(body, dialect)
        max_tokens = body.integer("max_tokens", 0, 1 << 31, clamp=True)
        if max_tokens is None:
            raise invalid("'max_tokens' is required.", "max_tokens", "missing_field")
        sampling = read_sampling(body, served.defaults, served.tokenizer.n_vocab)
        stop = read_stops(body, "stop_sequences")
        body.nested("metadata").text("user_id")
        stream, reuse, ignore_eos = (
            body.boolean("stream"),
            body.boolean("cache_prompt", True),
            body.boolean("ignore_eos"),
        )
        caches, hides = marks_cache(body), hides_thinking(body)
        prompt, ids = await served.prompts.chat(chat)
        if not ids:
            raise invalid("'messages' must come to at least one token.", "messages")
        if len(ids) >= served.context:
            # Worded as Anthropic's API words it: clients look for this to shorten the conversation.
            message = f"prompt is too long: {len(ids)} tokens > {served.context - 1} maximum"
            raise invalid(message, "messages", "context_length_exceeded")
        asked = messages_format(body)
        grammar = await served.constraints.of_chat(asked, dialect, chat, prompt)
        return MessagesRequest(
            id=new_id("msg", "_"),
            prompts=[ids],
            sampling=sampling,
            max_tokens=max_tokens or 1,
            stop=stop,
            ignore_eos=ignore_eos,
            chat=chat,
            answer=ChatAnswer(dialect, prompt, "toolu_", chat.names) if dialect.thinks or dialect.calls_tools else None,
            budget=read_budget(body, dialect, served.tokenizer),
            grammar=None if max_tokens == 0 else grammar,
            constrained_by=None if asked is None else asked.param,
            cache_prompt=served.cache_prompt and reuse,
            stream=stream,
            calls=tail_calls(chat.messages),
            caches=caches,
            hides=hides,
            warms=max_tokens == 0,
        )

    def writing(self, request: GenerationRequest, served: Served, request_id: str) -> Writing:
        assert isinstance(request, MessagesRequest)
        facts = MessagesFacts(
            id=request.id,
            model=served.model_id,
            prompt=len(request.prompts[0]),
            writes=request.caches and request.cache_prompt,
            hides=request.hides,
            warms=request.warms,
            request_id=request_id,
        )
        return wire.writing("messages", facts, request.stream, served.tokenizer.token_bytes)


class CountTokens:
    """{"input_tokens": n}: of the prompt that the same body would be answered to."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served, body = await model_and_body(self.service, req)
        _, ids = await served.prompts.chat(read_chat(body, served.prompts.dialect()))
        resp.data = dump({"input_tokens": len(ids)})
