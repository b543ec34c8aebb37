"""POST /v1/embeddings: the mean, or the last, of the model's final states over each input, brought to length 1.

An input is a prompt like any other: it waits for a bank and is read in the steps that others decode in. It takes no
prefix from a bank, since the states of what a bank holds are gone. Many inputs come to the queue a few at a time, so
that they neither fill it nor make others wait for all of them.
"""

from __future__ import annotations

import base64
from array import array
from typing import Any, cast

import falcon.asgi

from ds4.core.sampling import Sampling
from ds4.server import limits
from ds4.server.corrective import Buffered
from ds4.server.disconnect import Connection
from ds4.server.errors import ClientGone, invalid
from ds4.server.pooling import Pool, Pooling
from ds4.server.request import Body, GenerationRequest, new_id, text, token_ids, wrong_type
from ds4.server.service import Served, Service
from ds4.server.surfaces.generation import check_context, connection_of, heard, model_and_body
from ds4.server.surfaces.rendering import dump

WAVE = 8
"""Inputs of one request that are in the queue at once."""


class Embeddings:
    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        connection = connection_of(req)
        served, body = await model_and_body(self.service, req)
        pooling = _choice(body, "pooling", ("mean", "last"))
        encoding = _choice(body, "encoding_format", ("float", "base64"))
        width = served.engine.width
        if (dimensions := body.integer("dimensions", 1, limits.LARGEST_COUNT)) not in (None, width):
            raise invalid(
                f"Embeddings of this model have {width} dimensions and cannot be cut; 'dimensions' is {dimensions}.",
                "dimensions",
                "unsupported_parameter",
            )
        prompts = await _inputs(body.get("input"), served)
        check_context(prompts, served, "input")
        vectors: list[list[float]] = []
        for at in range(0, len(prompts), WAVE):
            wave = prompts[at : at + WAVE]
            pools = [Pool(cast(Pooling, pooling), len(prompt)) for prompt in wave]
            self.service.check()
            await _read(served, wave, pools, connection.nbytes * len(wave) // len(prompts), connection)
            vectors += [pool.vector() for pool in pools]
        tokens = sum(map(len, prompts))
        resp.content_type = "application/json"
        data = [
            {"object": "embedding", "index": index, "embedding": _encoded(vector, encoding)}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        resp.data = dump({"object": "list", "data": data, "model": served.model_id, "usage": usage})


async def _read(
    served: Served, prompts: list[list[int]], pools: list[Pool], nbytes: int, connection: Connection
) -> None:
    if connection.gone:
        raise ClientGone
    request = GenerationRequest(
        id=new_id("embd"),
        prompts=prompts,
        sampling=Sampling(temperature=0.0),
        max_tokens=1,
        ignore_eos=True,
        cache_prompt=False,
        pools=pools,
    )
    connection.sign(request, nbytes)
    engine = served.engine
    job = engine.submit(request)
    job.abort = connection.abort
    connection.on_hang_up(lambda: engine.cancel(job))
    async for _ in heard(Buffered(served, job, began=lambda _: None)):
        pass  # a prompt ends with a draw: the token behind an input, which nobody is told


def _choice(body: Body, name: str, allowed: tuple[str, ...]) -> str:
    """One of the allowed values; the first where nothing is said."""
    value = body.text(name)
    if value is None:
        return allowed[0]
    if value not in allowed:
        raise invalid(f"'{name}' must be {' or '.join(map(repr, allowed))}, not {value[:40]!r}.", name)
    return value


async def _inputs(given: object, served: Served) -> list[list[int]]:
    """A string, an array of strings, an array of token ids, or an array of such arrays."""
    n_vocab = served.tokenizer.n_vocab
    if isinstance(given, str):
        return await served.prompts.raw([text(given, "input")])
    if not isinstance(given, list):
        raise wrong_type("input", "a string, an array of strings or an array of token ids", given)
    if not given:
        raise invalid("'input' must not be empty.", "input")
    if type(given[0]) is int:
        return [token_ids(given, n_vocab, "input")]
    if len(given) > limits.MAX_INPUTS:
        raise invalid(f"'input' may hold at most {limits.MAX_INPUTS} inputs.", "input")
    if isinstance(given[0], list):
        for index, item in enumerate(given):
            if not isinstance(item, list):
                raise wrong_type(f"input[{index}]", "an array of token ids", item)
        return [token_ids(item, n_vocab, f"input[{index}]") for index, item in enumerate(given)]
    return await served.prompts.raw([text(item, f"input[{index}]") for index, item in enumerate(given)])


def _encoded(vector: list[float], encoding: str) -> Any:
    """The numbers, or base64 of them as little-endian 32-bit floats."""
    if encoding == "float":
        return vector
    floats = array("f", vector)
    return base64.b64encode(floats.tobytes()).decode()  # every machine that this runs on is little-endian
