"""POST /v1/messages and /v1/messages/count_tokens: Anthropic's Messages API."""

from __future__ import annotations

import falcon.asgi

from ds4.server.answer import ChatAnswer
from ds4.server.constraints import messages_format, told_of
from ds4.server.errors import invalid
from ds4.server.request import Body, GenerationRequest, new_id, tail_calls
from ds4.server.service import Served, Service
from ds4.server.surfaces import wire
from ds4.server.surfaces.generation import Generating, model_and_body
from ds4.server.surfaces.messages_render import MessagesFacts
from ds4.server.surfaces.messages_request import MessagesRequest, read_chat
from ds4.server.surfaces.reading import aside, read
from ds4.server.surfaces.rendering import dump
from ds4.server.surfaces.thinking_budget import budget_of
from ds4.server.surfaces.writing import Writing


class Messages(Generating):
    async def parse(self, body: Body, served: Served) -> GenerationRequest:
        dialect, asked = served.prompts.dialect(), await read("messages", body, served)
        assert asked.shown is not None
        chat, options = asked.chat_for(dialect), asked.options
        prompt, ids = await served.prompts.chat(chat)
        if not ids:
            raise invalid("'messages' must come to at least one token.", "messages")
        if len(ids) >= served.context:
            # Worded as Anthropic's API words it: clients look for this to shorten the conversation.
            message = f"prompt is too long: {len(ids)} tokens > {served.context - 1} maximum"
            raise invalid(message, "messages", "context_length_exceeded")
        shown, warms = asked.shown, asked.shown.warms
        grammar = await served.constraints.of_chat(asked.format, dialect, chat, prompt)
        return MessagesRequest(
            id=new_id("msg", "_"),
            prompts=[ids],
            sampling=options.sampling,
            max_tokens=options.max_tokens,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
            chat=chat,
            answer=ChatAnswer(dialect, prompt, "toolu_", chat.names) if dialect.thinks or dialect.calls_tools else None,
            budget=budget_of(asked.thought, dialect, served.tokenizer),
            grammar=None if warms else grammar,
            constrained_by=asked.formatted_by,
            cache_prompt=options.cache_prompt,
            stream=options.stream,
            calls=tail_calls(chat.messages),
            caches=shown.caches,
            hides=shown.hides,
            warms=warms,
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
        dialect = served.prompts.dialect()
        chat = await aside(
            lambda: told_of(read_chat(body, dialect.thinks), messages_format(body), dialect), body, served
        )
        _, ids = await served.prompts.chat(chat)
        resp.data = dump({"input_tokens": len(ids)})
