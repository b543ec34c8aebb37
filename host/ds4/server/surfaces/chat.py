"""POST /v1/chat/completions."""

from __future__ import annotations

from ds4.server import limits
from ds4.server.answer import ChatAnswer
from ds4.server.constraints import openai_format
from ds4.server.errors import invalid
from ds4.server.events import Progress
from ds4.server.request import Body, GenerationRequest, new_id, read_options, tail_calls
from ds4.server.service import Served
from ds4.server.surfaces import wire
from ds4.server.surfaces.chat_render import CHUNK
from ds4.server.surfaces.chat_request import read_chat
from ds4.server.surfaces.generation import Generating, answer_facts, check_context
from ds4.server.surfaces.rendering import progress
from ds4.server.surfaces.thinking_budget import read_budget
from ds4.server.surfaces.writing import Writing


class ChatCompletions(Generating):
    async def parse(self, body: Body, served: Served) -> GenerationRequest:
        dialect = served.prompts.dialect()
        asked = openai_format(body)
        told = None if asked is None or not dialect.tells_format else asked.told
        chat = read_chat(body, thinks=dialect.thinks, response_format=told)
        options = read_options(body, served.defaults, served.tokenizer.n_vocab)
        top = body.integer("top_logprobs", 0, limits.MAX_TOP_LOGPROBS)
        wanted = body.boolean("logprobs")
        if top is not None and not wanted:
            raise invalid("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
        prompt, ids = await served.prompts.chat(chat)
        check_context([ids], served, "messages")
        grammar = await served.constraints.of_chat(asked, dialect, chat, prompt)
        return GenerationRequest(
            id=new_id("chatcmpl"),
            prompts=[ids],
            sampling=options.sampling,
            n=options.n,
            max_tokens=options.max_tokens,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
            logprobs=(top or 0) if wanted else None,
            chat=chat,
            answer=ChatAnswer(dialect, prompt, names=chat.names) if dialect.thinks or dialect.calls_tools else None,
            grammar=grammar,
            budget=read_budget(body, dialect, served.tokenizer),
            constrained_by=None if asked is None else asked.param,
            cache_prompt=served.cache_prompt and options.cache_prompt,
            stream=options.stream,
            include_usage=options.include_usage,
            progress=options.progress,
            calls=tail_calls(chat.messages),
        )

    def progress(self, request: GenerationRequest, served: Served, event: Progress) -> bytes:
        return progress(answer_facts(request, served).head(CHUNK), event)

    def writing(self, request: GenerationRequest, served: Served, request_id: str) -> Writing:
        facts = answer_facts(request, served)
        return wire.writing("chat", facts, request.stream, served.tokenizer.token_bytes)
