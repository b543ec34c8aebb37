"""/v1/embeddings."""

from __future__ import annotations

from typing import Any

from ds4.server import limits
from ds4.server.openapi.completions import texts
from ds4.server.openapi.operations import post
from ds4.server.openapi.sampling import MODEL
from ds4.server.openapi.shapes import (
    Schema,
    array,
    either,
    integer,
    maybe,
    number,
    obj,
    one_of,
    only,
    ref,
    string,
    whole,
)

SCHEMAS: dict[str, Schema] = {
    "EmbeddingsRequest": obj(
        {
            "model": MODEL,
            "input": texts(limits.MAX_INPUTS, "What to embed, as text or token ids."),
            "pooling": maybe(one_of("mean", "last", about="How an input's states become one. Default mean.")),
            "encoding_format": maybe(one_of("float", "base64", about="base64: of little-endian 32-bit floats.")),
            "dimensions": maybe(integer("As many as the model has: vectors are not cut.", 1)),
        },
        ["input"],
    ),
    "Embeddings": whole(
        {
            "object": only("list"),
            "data": array(
                whole(
                    {
                        "object": only("embedding"),
                        "index": integer("Of the input.", 0),
                        "embedding": either(array(number()), string(), about="Of length 1; as encoding_format says."),
                    }
                )
            ),
            "model": string(),
            "usage": whole({"prompt_tokens": integer("", 0), "total_tokens": integer("", 0)}),
        }
    ),
}

PATHS: dict[str, Any] = {
    "/v1/embeddings": {
        "post": post(
            "createEmbeddings",
            "Embed texts",
            "EmbeddingsRequest",
            ref("Embeddings"),
            tag="embeddings",
            about="The mean, or the last, of the model's final normalised states, brought to length 1.",
            examples={
                "text": {"input": "Hello", "pooling": "last"},
                "several": {"input": ["Hello", "world"], "encoding_format": "base64"},
            },
        )
    }
}
