"""What answers about the server itself: models, state, figures, the page, this document."""

from __future__ import annotations

from typing import Any

from ds4.server.openapi.operations import get, in_path, json_answer, post
from ds4.server.openapi.shapes import (
    Schema,
    array,
    integer,
    mapping,
    maybe,
    number,
    obj,
    one_of,
    only,
    ref,
    string,
    whole,
)

_STATE = one_of("ok", "loading", "stopping", "failed")
_COUNT = integer("", 0)

SCHEMAS: dict[str, Schema] = {
    "Model": obj(
        {
            "id": string("What requests call it."),
            "object": only("model"),
            "created": integer("Seconds since 1970."),
            "owned_by": string(),
            "type": only("model"),
            "display_name": string(),
            "created_at": string("The same time as RFC 3339 has it.", format="date-time"),
            "lifecycle": string(),
            "context_length": integer("Tokens of prompt and answer.", 1),
            "max_model_len": integer("The same.", 1),
            "supported_parameters": array(
                string(), "Of a loaded model: fields of chat and completions that count for it."
            ),
        },
        ["id", "object", "created", "owned_by", "type", "display_name", "created_at", "context_length"],
        "A model, as OpenAI's clients and Anthropic's read it, with further facts of its file.",
    ),
    "Models": whole(
        {
            "object": only("list"),
            "data": array(ref("Model")),
            "has_more": {"const": False},
            "first_id": maybe(string()),
            "last_id": maybe(string()),
        }
    ),
    "ModelName": obj({"model": string("The model's id.")}, ["model"]),
    "ModelDone": whole({"success": {"const": True}, "model": ref("Model")}),
    "State": whole(
        {"status": _STATE, "progress": number("Of loading.", 0, 1)}, "What the server can do.", optional=("progress",)
    ),
    "Stats": obj(
        {
            "model": maybe(string("Which one is loaded.")),
            "queue": maybe(obj({"running": _COUNT, "waiting": _COUNT}, ["running", "waiting"], "Answers.")),
            "banks": maybe(mapping(about="How many are in which state, and what each holds.")),
        },
        ["model", "queue", "banks"],
        "State and counts since the start, in sections.",
    ),
}

_PLAIN = {"schema": string()}
_HEADERS = {
    "content-security-policy": {"description": "What the page may do.", "schema": string()},
    "cache-control": {"description": "Ask again.", "schema": string()},
}


def _state(name: str, summary: str, about: str) -> dict[str, Any]:
    answer = json_answer("It can.", ref("State"))
    told = json_answer("It cannot, yet or any more; Retry-After says when to ask again.", ref("State"))
    return get(name, summary, answer, tag="server", about=about, open_to_all=True, other={"503": told})


PATHS: dict[str, Any] = {
    "/v1/models": {
        "get": get("listModels", "The models", json_answer("All of them.", ref("Models")), tag="models"),
    },
    "/v1/models/load": {
        "post": post(
            "loadModel",
            "Load a model, of several",
            "ModelName",
            ref("ModelDone"),
            tag="models",
            about="Answers once it is loaded. A server of one model (--models-max 1) has nothing to load.",
            examples={},
        )
    },
    "/v1/models/unload": {
        "post": post(
            "unloadModel",
            "Unload a model, of several",
            "ModelName",
            ref("ModelDone"),
            tag="models",
            about="409 while it answers or loads.",
            examples={},
            more=(409,),
        )
    },
    "/v1/models/{name}": {
        "get": get(
            "getModel",
            "One model",
            json_answer("The model.", ref("Model")),
            tag="models",
            about="The name may have slashes in it.",
            parameters=(in_path("name", "The model's id.", "org/model"),),
            more=(404,),
        )
    },
    "/health": {"get": _state("health", "Whether the process lives", "For whoever restarts it.")},
    "/ready": {"get": _state("ready", "Whether requests are served", "For whoever sends them.")},
    "/metrics": {
        "get": get(
            "metrics",
            "Counters and histograms",
            {"description": "In Prometheus' text format.", "content": {"text/plain": _PLAIN}},
            tag="server",
        )
    },
    "/v1/stats": {"get": get("stats", "State and figures", json_answer("Now.", ref("Stats")), tag="server")},
    "/openapi.json": {
        "get": get(
            "openapi",
            "This document",
            json_answer(
                "An OpenAPI 3.1 document.", obj({"openapi": string(), "paths": mapping()}, ["openapi", "paths"])
            ),
            tag="server",
        )
    },
    "/": {
        "get": get(
            "page",
            "A page to chat and look at the server",
            {"description": "HTML.", "content": {"text/html": _PLAIN}, "headers": _HEADERS},
            tag="server",
            open_to_all=True,
        )
    },
    "/ui/{name}": {
        "get": get(
            "pageFile",
            "A file of the page",
            {
                "description": "HTML, script or style.",
                "content": dict.fromkeys(("text/html", "text/javascript", "text/css"), _PLAIN),
                "headers": _HEADERS,
            },
            tag="server",
            parameters=(in_path("name", "The file's name.", "index.html"),),
            more=(404,),
        )
    },
}
