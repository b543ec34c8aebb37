"""POST /v1/chat/completions."""

from __future__ import annotations

from ds4.server.answer import ChatAnswer
from ds4.server.request import Body, GenerationRequest, new_id
from ds4.server.service import Served
from ds4.server.surfaces import wire
from ds4.server.surfaces.asked import model_of
from ds4.server.surfaces.generation import Generating, answer_facts, check_context
from ds4.server.surfaces.reading import read
from ds4.server.surfaces.writing import Writing


class ChatCompletions(Generating):
    async def parse(self, body: Body, served: Served) -> GenerationRequest:
        dialect, asked = served.prompts.dialect(), read("chat", body, model_of(served))
        assert asked.chat is not None
        prompt, ids = await served.prompts.chat(asked.chat)
        check_context([ids], served, "messages")
        options = asked.options
        return GenerationRequest(
            id=new_id("chatcmpl"),
            prompts=[ids],
            sampling=options.sampling,
            n=options.n,
            max_tokens=options.max_tokens,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
            logprobs=asked.logprobs,
            answer=ChatAnswer(dialect, prompt) if dialect.thinks or dialect.calls_tools else None,
            cache_prompt=options.cache_prompt,
            stream=options.stream,
            include_usage=options.include_usage,
        )

    def writing(self, request: GenerationRequest, served: Served, request_id: str) -> Writing:
        facts = answer_facts(request, served)
        return wire.writing("chat", facts, request.stream, served.tokenizer.token_bytes)
