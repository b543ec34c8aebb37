"""Reading a completions body."""

from __future__ import annotations

from ds4.server import limits
from ds4.server.constraints import openai_format
from ds4.server.errors import invalid
from ds4.server.request import Body, read_options, text, token_ids, wrong_type
from ds4.server.surfaces.asked import Asked, ModelFacts


def read(body: Body, model: ModelFacts) -> Asked:
    body.text("model")
    body.refuse("echo", (False,), "'echo' is not supported by this server.")
    body.refuse("suffix", ("",), "'suffix' is not supported by this server.")
    options = read_options(body, model.defaults, model.n_vocab).on(model.cache)
    best_of = body.integer("best_of", 1, limits.MAX_CHOICES)
    if best_of is not None and best_of != options.n:
        raise invalid("'best_of' other than 'n' is not supported by this server.", "best_of", "unsupported_parameter")
    logprobs = body.integer("logprobs", 0, limits.MAX_TOP_LOGPROBS)
    asked = openai_format(body)
    return Asked(options, logprobs, prompts=_prompts(body.get("prompt"), model.n_vocab), format=asked)


def _prompts(prompt: object, n_vocab: int) -> list[str | list[int]]:
    """A string, an array of strings, an array of token ids, or an array of such arrays."""
    if isinstance(prompt, str):
        return [text(prompt, "prompt")]
    if not isinstance(prompt, list):
        raise wrong_type("prompt", "a string, an array of strings or an array of token ids", prompt)
    if not prompt:
        raise invalid("'prompt' must not be empty.", "prompt")
    if isinstance(prompt[0], str | list) and len(prompt) > limits.MAX_PROMPTS:
        raise invalid(f"'prompt' may hold at most {limits.MAX_PROMPTS} prompts.", "prompt")
    if isinstance(prompt[0], str):
        return [text(item, f"prompt[{i}]") for i, item in enumerate(prompt)]
    if isinstance(prompt[0], list):
        for i, item in enumerate(prompt):
            if not isinstance(item, list):
                raise wrong_type(f"prompt[{i}]", "an array of token ids", item)
        return [token_ids(item, n_vocab, f"prompt[{i}]") for i, item in enumerate(prompt)]
    return [token_ids(prompt, n_vocab, "prompt")]
