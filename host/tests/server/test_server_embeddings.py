"""Embeddings over HTTP: pooling whatever the steps, batches, encodings, refusals, hang-ups, and OpenAI's own client."""

from __future__ import annotations

import base64
import contextlib
import math
import struct
from array import array
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from ds4.core import bind, catalog, inventory
from ds4.core.tokenizer import Tokenizer
from ds4.errors import SettingsError
from ds4.server.limits import Limits
from ds4.server.schedule.admission import QueueLimits
from ds4.sys.descriptors import Numeric, SessionDesc, Status
from ds4.sys.native import NativeModel, NativeSession, Row
from support.fake_native import TINY, error
from support.live_server import LiveServer
from support.mini_server import serve

EMBEDDINGS = "/v1/embeddings"
WIDTH = TINY.d_model


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(banks=2, context=512, rows=16) as live:
        yield live


@pytest.fixture(scope="module")
def mini() -> Iterator[str]:
    yield from serve("float")


def unit(values: list[float]) -> list[float]:
    norm = math.sqrt(math.fsum(x * x for x in values))
    return [x / norm for x in values]


def expected(text: str, kind: str = "mean") -> list[float]:
    """What the fake engine's states come to: a token in column position % width."""
    sums = [0.0] * WIDTH
    for position, byte in enumerate(text.encode()):
        if kind == "mean" or position == len(text.encode()) - 1:
            sums[position % WIDTH] += byte
    return unit(sums)


def vectors(server: LiveServer, **body: Any) -> list[list[float]]:
    status, answer = server.post(EMBEDDINGS, body)
    assert status == 200, answer
    assert [one["index"] for one in answer["data"]] == list(range(len(answer["data"])))
    return [one["embedding"] for one in answer["data"]]


@pytest.mark.parametrize("text", ["x", "hello there", "a long text " * 30])
def test_the_mean_of_all_states_is_of_length_one(server: LiveServer, text: str) -> None:
    (found,) = vectors(server, input=text)
    assert found == pytest.approx(expected(text), abs=1e-12)
    assert math.fsum(x * x for x in found) == pytest.approx(1)


def test_the_last_state_is_taken_on_request(server: LiveServer) -> None:
    text = "word " * 40
    assert vectors(server, input=text, pooling="last")[0] == pytest.approx(expected(text, "last"))
    assert vectors(server, input=text, pooling=None)[0] == pytest.approx(expected(text))


def test_inputs_are_strings_and_tokens_alone_and_in_arrays(server: LiveServer) -> None:
    for given in ("abc", ["abc"], [97, 98, 99], [[97, 98, 99]]):
        assert vectors(server, input=given) == [pytest.approx(expected("abc"))]
    assert vectors(server, input=["abc", "de"]) == [pytest.approx(expected("abc")), pytest.approx(expected("de"))]


def test_many_inputs_neither_fill_the_queue_nor_lose_their_order() -> None:
    with LiveServer(banks=2, rows=32, limits=Limits(queue=QueueLimits(max_queue=8))) as live:
        texts = [f"text number {number}" * (1 + number % 5) for number in range(60)]
        assert vectors(live, input=texts) == [pytest.approx(expected(text)) for text in texts]
        live.wait_for(lambda: live.idle)


def test_nothing_is_taken_from_a_bank_and_answers_go_on_beside(server: LiveServer) -> None:
    text = "the same prompt for both of them, long enough to be shared by banks"
    plain = {"prompt": text, "max_tokens": 60, "ignore_eos": True}
    alone = server.post("/v1/completions", plain)[1]["choices"][0]["text"]
    assert vectors(server, input=text)[0] == pytest.approx(expected(text))
    with contextlib.closing(server.open("/v1/completions", plain | {"max_tokens": 400})):
        server.wait_for(lambda: bool(server.engine.scheduler.active))
        for _ in range(5):
            assert vectors(server, input=text)[0] == pytest.approx(expected(text))
    assert server.post("/v1/completions", plain)[1]["choices"][0]["text"] == alone


def test_base64_is_the_same_numbers_in_single_precision(server: LiveServer) -> None:
    (plain,), (coded,) = vectors(server, input="abc"), vectors(server, input="abc", encoding_format="base64")
    raw = base64.b64decode(coded)  # type: ignore[arg-type]
    assert struct.unpack(f"<{WIDTH}f", raw) == pytest.approx(plain, abs=1e-7)


def test_usage_counts_prompt_tokens(server: LiveServer) -> None:
    _, answer = server.post(EMBEDDINGS, {"input": ["abc", "de"], "model": "whatever"})
    assert answer["object"] == "list" and answer["model"] == "fake"
    assert answer["usage"] == {"prompt_tokens": 5, "total_tokens": 5}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": 7}, "input"),
        ({"input": {"a": 1}}, "input"),
        ({"input": ["a", 7]}, "input[1]"),
        ({"input": [[1], "a"]}, "input[1]"),
        ({"input": [1, 999]}, "input"),
        ({"input": [1, True]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "x" * 512}, "input"),
        ({"input": "a", "dimensions": 8}, "dimensions"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "pooling": "max"}, "pooling"),
        ({"input": "a", "pooling": 1}, "pooling"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(server: LiveServer, body: dict[str, Any], param: str) -> None:
    status, answer = server.post(EMBEDDINGS, body)
    assert status == 400 and answer["error"]["param"] == param, answer


def test_dimensions_may_be_those_of_the_model(server: LiveServer) -> None:
    assert len(vectors(server, input="a", dimensions=WIDTH)[0]) == WIDTH


def test_a_hang_up_frees_the_banks_and_leaves_the_rest_unread(server: LiveServer) -> None:
    server.gate.close()
    try:
        sock = server.open(EMBEDDINGS, {"input": ["z" * 300] * 100})
        server.wait_for(lambda: len(server.engine.scheduler.active) == 2)
        sock.close()
        server.wait_for(lambda: not server.engine.scheduler.active and not server.engine.scheduler.queue)
    finally:
        server.gate.release()
    server.wait_for(lambda: server.idle)
    assert vectors(server, input="abc")[0] == pytest.approx(expected("abc"))


def test_a_step_that_fails_fails_its_inputs_alone(server: LiveServer) -> None:
    server.session.fail_next = error(Status.INTERNAL, "planted")
    assert server.post(EMBEDDINGS, {"input": "abc"})[0] == 500
    assert vectors(server, input="abc")[0] == pytest.approx(expected("abc"))


def test_openais_client_reads_them(server: LiveServer) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="x", max_retries=0)
    answer = client.embeddings.create(model="fake", input=["abc", "de"])  # asks for base64 and decodes it
    assert [one.embedding for one in answer.data] == [
        pytest.approx(expected("abc"), abs=1e-6),
        pytest.approx(expected("de"), abs=1e-6),
    ]
    assert answer.usage.total_tokens == 5
    plain = client.embeddings.create(model="fake", input="abc", encoding_format="float")
    assert plain.data[0].embedding == pytest.approx(expected("abc"))


def test_a_real_models_vectors_are_its_engines(mini: str) -> None:
    texts = ["The cat sat on the mat.", "Water boils at a hundred degrees. " * 30]
    client = openai.OpenAI(base_url=mini, api_key="x", max_retries=0)
    mean = client.embeddings.create(model="m", input=texts, encoding_format="float")
    last = client.embeddings.create(model="m", input=texts, encoding_format="float", extra_body={"pooling": "last"})
    try:
        files = inventory.load(catalog.embedded_path("ds4-mini"))
    except SettingsError as missing:
        pytest.skip(str(missing))
    tokenizer = Tokenizer.from_metadata(files.metadata)
    native = NativeModel.open(bind.plan(files).desc())
    session = NativeSession(native, SessionDesc(1, 2048, 64, 1, 2, numeric=Numeric.FLOAT))
    for index, text in enumerate(texts):
        ids = tokenizer.with_bos(tokenizer.encode(text))
        sums = [array("d", bytes(8 * session.d_model)) for _ in range(2)]
        session.truncate(0, 0)
        for at in range(0, len(ids), 64):
            end = min(len(ids), at + 64)
            ticket = session.submit_embed([Row(0, p, ids[p]) for p in range(at, end)])
            session.wait(ticket)
            session.embed(ticket, 0, end - at, sums[0])
            if end == len(ids):
                session.embed(ticket, end - at - 1, 1, sums[1])
        assert mean.data[index].embedding == unit(list(sums[0]))  # to the bit: other steps, the same sums
        assert last.data[index].embedding == unit(list(sums[1]))
    session.close()
    native.close()
