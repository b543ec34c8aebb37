"""POST /tokenize, /detokenize and /apply-template: what the server makes of a prompt, without generating."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from ds4.core.chat import ChatRequest
from ds4.server.errors import invalid
from ds4.server.request import Body, token_ids, wrong_type
from ds4.server.service import Served, Service
from ds4.server.surfaces.chat_request import read_chat
from ds4.server.surfaces.generation import model_and_body
from ds4.server.surfaces.reading import aside
from ds4.server.surfaces.rendering import dump


class Tokenize:
    """{"content" or "prompt": text} or {"messages": [...]} -> {"tokens": [...], "count": n, "max_model_len": n}.

    add_special (false) puts BOS in front where the model wants it; parse_special (true) reads markup as such;
    with_pieces (false) gives [{"id": n, "piece": text}] instead, bytes where a token is no text by itself.
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served, body = await model_and_body(self.service, req)
        tokenizer = served.tokenizer
        add, parse = body.boolean("add_special"), body.boolean("parse_special", True)
        pieces = body.boolean("with_pieces")
        if body.get("messages") is not None:
            _, ids = await served.prompts.chat(await _chat(body, served))
        else:
            content = body.text("content")
            if content is None:
                content = body.text("prompt")
            if content is None:
                raise invalid("'content' is required: the text to tokenize.", "content", "missing_field")
            ids = await served.prompts.run(lambda: tokenizer.encode(content, special=parse))
            ids = tokenizer.with_bos(ids) if add else ids
        tokens: list[Any] = [{"id": i, "piece": _piece(tokenizer.token_bytes(i))} for i in ids] if pieces else ids
        resp.data = dump({"tokens": tokens, "count": len(ids), "max_model_len": served.context})


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)


class Detokenize:
    """{"tokens": [ids]} -> {"content": text, "prompt": text}, under both of the names in use."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served, body = await model_and_body(self.service, req)
        tokens = body.get("tokens")
        if not isinstance(tokens, list):
            raise wrong_type("tokens", "an array of token ids", tokens)
        ids = token_ids(tokens, served.tokenizer.n_vocab, "tokens")
        text = await served.prompts.run(served.tokenizer.decode, ids)
        resp.data = dump({"content": text, "prompt": text})


class ApplyTemplate:
    """{"messages": [...]} -> {"prompt": text}: the conversation as the model's dialect of chat writes it. Takes what
    chat completions take: tools, thinking and the rest."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served, body = await model_and_body(self.service, req)
        prompt = await served.prompts.render(await _chat(body, served))
        resp.data = dump({"prompt": prompt})


async def _chat(body: Body, served: Served) -> ChatRequest:
    opens = body.boolean("add_generation_prompt", True)
    thinks = served.prompts.dialect().thinks
    return await aside(lambda: read_chat(body, generation_prompt=opens, thinks=thinks), body, served)
