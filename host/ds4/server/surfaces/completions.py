"""POST /v1/completions."""

from __future__ import annotations

from ds4.server.events import Progress
from ds4.server.request import Body, GenerationRequest, new_id
from ds4.server.service import Served
from ds4.server.surfaces import wire
from ds4.server.surfaces.completions_render import CHUNK
from ds4.server.surfaces.generation import Generating, answer_facts, check_context
from ds4.server.surfaces.reading import read
from ds4.server.surfaces.rendering import progress
from ds4.server.surfaces.writing import Writing


class Completions(Generating):
    async def parse(self, body: Body, served: Served) -> GenerationRequest:
        asked = await read("completions", body, served)
        texts = [prompt for prompt in asked.prompts if isinstance(prompt, str)]
        tokenised = iter(await served.prompts.raw(texts) if texts else ())
        prompts = [next(tokenised) if isinstance(prompt, str) else prompt for prompt in asked.prompts]
        check_context(prompts, served, "prompt")
        options = asked.options
        return GenerationRequest(
            id=new_id("cmpl"),
            prompts=prompts,
            sampling=options.sampling,
            n=options.n,
            max_tokens=options.max_tokens,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
            logprobs=asked.logprobs,
            grammar=await served.constraints.plain(asked.format),
            constrained_by=asked.formatted_by,
            cache_prompt=options.cache_prompt,
            stream=options.stream,
            include_usage=options.include_usage,
            progress=options.progress,
        )

    def progress(self, request: GenerationRequest, served: Served, event: Progress) -> bytes:
        return progress(answer_facts(request, served).head(CHUNK), event)

    def writing(self, request: GenerationRequest, served: Served, request_id: str) -> Writing:
        facts = answer_facts(request, served)
        return wire.writing("completions", facts, request.stream, served.tokenizer.token_bytes)
