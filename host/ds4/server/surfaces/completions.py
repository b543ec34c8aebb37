"""POST /v1/completions."""

from __future__ import annotations

from ds4.server import limits
from ds4.server.constraints import openai_format
from ds4.server.errors import invalid
from ds4.server.events import Progress
from ds4.server.request import Body, GenerationRequest, new_id, read_options, text, token_ids, wrong_type
from ds4.server.service import Served
from ds4.server.surfaces import wire
from ds4.server.surfaces.completions_render import CHUNK
from ds4.server.surfaces.generation import Generating, answer_facts, check_context
from ds4.server.surfaces.rendering import progress
from ds4.server.surfaces.writing import Writing


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
        asked = openai_format(body)
        prompts = await self._prompts(body.get("prompt"), served)
        check_context(prompts, served, "prompt")
        grammar = await served.constraints.plain(asked)
        return GenerationRequest(
            id=new_id("cmpl"),
            prompts=prompts,
            sampling=options.sampling,
            n=options.n,
            max_tokens=options.max_tokens,
            stop=options.stop,
            ignore_eos=options.ignore_eos,
            logprobs=body.integer("logprobs", 0, limits.MAX_TOP_LOGPROBS),
            grammar=grammar,
            constrained_by=None if asked is None else asked.param,
            cache_prompt=served.cache_prompt and options.cache_prompt,
            stream=options.stream,
            include_usage=options.include_usage,
            progress=options.progress,
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

    def progress(self, request: GenerationRequest, served: Served, event: Progress) -> bytes:
        return progress(answer_facts(request, served).head(CHUNK), event)

    def writing(self, request: GenerationRequest, served: Served, request_id: str) -> Writing:
        facts = answer_facts(request, served)
        return wire.writing("completions", facts, request.stream, served.tokenizer.token_bytes)
