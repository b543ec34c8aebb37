"""POST /v1/chat/completions."""

from __future__ import annotations

from ds4.server.answer import ChatAnswer
from ds4.server.events import Progress
from ds4.server.request import Body, GenerationRequest, new_id, tail_calls
from ds4.server.service import Served
from ds4.server.surfaces import wire
from ds4.server.surfaces.chat_render import CHUNK
from ds4.server.surfaces.generation import Generating, answer_facts, check_context
from ds4.server.surfaces.reading import read
from ds4.server.surfaces.rendering import progress
from ds4.server.surfaces.thinking_budget import budget_of
from ds4.server.surfaces.writing import Writing


class ChatCompletions(Generating):
    async def parse(self, body: Body, served: Served) -> GenerationRequest:
        dialect, asked = served.prompts.dialect(), await read("chat", body, served)
        chat, options = asked.chat_for(dialect), asked.options
        prompt, ids = await served.prompts.chat(chat)
        check_context([ids], served, "messages")
        return GenerationRequest(
            id=new_id("chatcmpl"),
            prompts=[ids],
            sampling=options.sampling,
            n=options.n,
            max_tokens=options.max_tokens,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
            logprobs=asked.logprobs,
            chat=chat,
            answer=ChatAnswer(dialect, prompt, names=chat.names) if dialect.thinks or dialect.calls_tools else None,
            grammar=await served.constraints.of_chat(asked.format, dialect, chat, prompt),
            budget=budget_of(asked.thought, dialect, served.tokenizer),
            constrained_by=asked.formatted_by,
            cache_prompt=options.cache_prompt,
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
