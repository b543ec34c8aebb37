"""Answers over HTTP: shapes, streams, stops, choices, usage, log-probabilities, the prompt cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.live_server import EOS, LiveServer, letters, text_of

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(banks=4) as live:
        yield live


def chat(content: str = "hi", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 10, **more}


def alphabet(start: int, count: int) -> str:
    """What the fake model writes after `start` tokens."""
    return "".join(chr(letters([0] * (start + i))) for i in range(count))


def test_a_chat_answer_has_openais_shape(server: LiveServer) -> None:
    status, answer = server.post(CHAT, chat())
    assert status == 200
    prompt = len("user: hi\nassistant: ")
    assert answer["object"] == "chat.completion" and answer["model"] == "fake"
    assert answer["id"].startswith("chatcmpl-") and len(answer["id"]) == 41
    assert answer["system_fingerprint"] == "ds4-test"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": alphabet(prompt, 10), "refusal": None},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert answer["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": 10,
        "total_tokens": prompt + 10,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_a_stream_says_the_same_as_the_buffered_answer(server: LiveServer) -> None:
    _, answer = server.post(CHAT, chat("stream me"))
    events = server.events(CHAT, chat("stream me"))
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text_of(events) == answer["choices"][0]["message"]["content"]
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert events[-1] == "[DONE]"
    assert {event["id"] for event in events[:-1]} == {events[0]["id"]}
    assert all("usage" not in event for event in events[:-1])


def test_usage_comes_in_a_chunk_of_its_own_when_asked_for(server: LiveServer) -> None:
    events = server.events(CHAT, chat("usage", stream_options={"include_usage": True}))
    assert all(event["usage"] is None for event in events[:-2])
    assert events[-2]["choices"] == [] and events[-2]["usage"]["completion_tokens"] == 10


def test_completions_take_text_ids_and_arrays_of_both(server: LiveServer) -> None:
    for prompt, count in (("abc", 1), (["abc", "de"], 2), ([97, 98, 99], 1), ([[97, 98, 99], [1]], 2)):
        status, answer = server.post(COMPLETIONS, {"prompt": prompt, "max_tokens": 3})
        assert status == 200 and len(answer["choices"]) == count
        assert answer["choices"][0]["text"] == alphabet(3, 3)
    assert answer["choices"][1]["text"] == alphabet(1, 3)
    assert answer["usage"]["prompt_tokens"] == 4
    assert answer["object"] == "text_completion"
    events = server.events(COMPLETIONS, {"prompt": ["abc", "de"], "max_tokens": 3})
    assert text_of(events, 0) == alphabet(3, 3) and text_of(events, 1) == alphabet(2, 3)


def test_choices_of_one_request_come_with_their_index(server: LiveServer) -> None:
    body = chat("several", n=3)
    _, answer = server.post(CHAT, body)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 30
    assert answer["usage"]["prompt_tokens"] == len("user: several\nassistant: ")
    events = server.events(CHAT, body)
    assert {text_of(events, index) for index in range(3)} == {answer["choices"][0]["message"]["content"]}


def test_more_choices_than_banks_take_turns(server: LiveServer) -> None:
    _, answer = server.post(CHAT, chat("crowd", n=8))
    assert len({choice["message"]["content"] for choice in answer["choices"]}) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stop", ["defg", ["zzz", "efgh"], ["e"]])
def test_a_stop_string_ends_the_answer_and_is_never_shown(server: LiveServer, stop: Any, stream: bool) -> None:
    body = {"prompt": "x" * 26, "max_tokens": 100, "stop": stop}
    if stream:
        events = server.events(COMPLETIONS, body)
        text, reason = text_of(events), events[-2]["choices"][0]["finish_reason"]
    else:
        _, answer = server.post(COMPLETIONS, body)
        text, reason = answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]
    assert reason == "stop"
    assert text == ("abc" if stop == "defg" else "abcd")


def test_text_held_back_for_a_stop_string_is_shown_when_the_answer_ends_by_length(server: LiveServer) -> None:
    _, answer = server.post(COMPLETIONS, {"prompt": "x" * 26, "max_tokens": 3, "stop": "bcdefg"})
    assert answer["choices"][0]["text"] == "abc"
    assert answer["choices"][0]["finish_reason"] == "length"


def test_an_end_token_ends_the_answer_unless_it_is_to_be_ignored() -> None:
    def rule(tokens: Any) -> int:
        return EOS if len(tokens) == 8 else letters(tokens)

    with LiveServer(rule=rule) as live:
        _, answer = live.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 9})
        assert answer["choices"][0]["text"] == alphabet(3, 5)
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] == 6
        _, answer = live.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 9, "ignore_eos": True})
        assert answer["choices"][0]["text"] == alphabet(3, 5) + "\0" + alphabet(9, 3)


def test_half_a_character_is_never_sent() -> None:
    text = "año→日本🙂" * 3
    raw = text.encode()

    def rule(tokens: Any) -> int:
        return raw[len(tokens) - 3] if len(tokens) - 3 < len(raw) else EOS

    with LiveServer(rule=rule) as live:
        events = live.events(COMPLETIONS, {"prompt": "abc"})
        assert text_of(events) == text
        assert all("\ufffd" not in event["choices"][0]["text"] for event in events[:-1])
        _, answer = live.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 3})
        assert answer["choices"][0]["text"] == "añ"


def test_the_rest_of_the_context_is_the_limit_where_none_is_given(server: LiveServer) -> None:
    _, answer = server.post(COMPLETIONS, {"prompt": [97] * 4000, "cache_prompt": False})
    assert answer["usage"]["completion_tokens"] == 96
    assert answer["choices"][0]["finish_reason"] == "length"
    _, answer = server.post(COMPLETIONS, {"prompt": [97] * 4090, "max_tokens": 10**30})
    assert answer["usage"]["completion_tokens"] == 6


def test_chat_log_probabilities_name_tokens_and_alternatives(server: LiveServer) -> None:
    _, answer = server.post(CHAT, chat("logs", logprobs=True, top_logprobs=2, max_tokens=3))
    entries = answer["choices"][0]["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == answer["choices"][0]["message"]["content"]
    assert [len(entry["top_logprobs"]) for entry in entries] == [2, 2, 2]
    assert entries[0]["bytes"] == list(entries[0]["token"].encode())
    assert entries[0]["logprob"] == entries[0]["top_logprobs"][0]["logprob"] == -0.5
    events = server.events(CHAT, chat("logs", logprobs=True, max_tokens=3))
    streamed = [entry for event in events[1:-2] for entry in event["choices"][0]["logprobs"]["content"]]
    assert [entry["token"] for entry in streamed] == [entry["token"] for entry in entries]
    assert streamed[0]["top_logprobs"] == []


def test_completion_log_probabilities_have_the_legacy_shape(server: LiveServer) -> None:
    _, answer = server.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 3, "logprobs": 2})
    logprobs = answer["choices"][0]["logprobs"]
    assert logprobs["tokens"] == list(answer["choices"][0]["text"])
    assert logprobs["token_logprobs"] == [-0.5] * 3
    assert logprobs["text_offset"] == [0, 1, 2]
    assert logprobs["top_logprobs"][0] == {"e": -1.5, "d": -0.5}
    _, answer = server.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 3, "logprobs": 0})
    assert answer["choices"][0]["logprobs"]["top_logprobs"] == [{}] * 3


def test_the_next_turn_finds_its_history_in_a_bank(server: LiveServer) -> None:
    first = chat("remember " + "x" * 50)
    _, answer = server.post(CHAT, first)
    said = answer["choices"][0]["message"]
    turn = {**first, "messages": [*first["messages"], said, {"role": "user", "content": "and now"}]}
    _, again = server.post(CHAT, turn)
    cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= answer["usage"]["prompt_tokens"]
    _, cold = server.post(CHAT, {**turn, "cache_prompt": False})
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert cold["choices"] == again["choices"]


def test_sampling_reaches_the_engine_and_choices_get_seeds_of_their_own(server: LiveServer) -> None:
    body = chat("sample", temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, seed=11, logit_bias={"5": -3}, n=2)
    server.session.samplers.clear()
    server.post(CHAT, body)
    samplers = list(server.session.samplers.values())
    assert {sampler.temperature for sampler in samplers} == {0.5}
    assert {(s.top_k, s.bias, s.output_from) for s in samplers} == {(7, ((5, -3.0),), len("user: sample\nassistant: "))}
    assert len({sampler.seed for sampler in samplers}) == 2 and 11 in {sampler.seed for sampler in samplers}


def test_content_may_be_parts_and_developer_is_a_system(server: LiveServer) -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "kind"}]},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "b"},
    ]
    status, answer = server.post("/apply-template", {"messages": messages})
    assert status == 200
    assert answer["prompt"] == "system: be kind\nuser: a\nassistant: \nuser: b\nassistant: "


def test_unknown_fields_and_nulls_are_ignored(server: LiveServer) -> None:
    body = chat("x", store=True, metadata={"a": 1}, temperature=None, stop=None, n=None, logit_bias=None, model="any")
    assert server.post(CHAT, body)[0] == 200


def test_models_are_listed_and_found_by_id(server: LiveServer) -> None:
    status, raw = server.get("/v1/models")
    listed = json.loads(raw)
    assert status == 200 and listed["object"] == "list"
    assert listed["data"][0]["id"] == "fake" and listed["data"][0]["context_length"] == 4096
    assert json.loads(server.get("/v1/models/fake")[1])["id"] == "fake"
    status, raw = server.get("/v1/models/other")
    assert status == 404 and json.loads(raw)["error"]["code"] == "model_not_found"


def test_tokens_go_there_and_back(server: LiveServer) -> None:
    _, answer = server.post("/tokenize", {"content": "héy"})
    assert answer == {"tokens": list("héy".encode()), "count": 4, "max_model_len": 4096}
    _, back = server.post("/detokenize", {"tokens": answer["tokens"]})
    assert back["content"] == "héy"
    _, pieces = server.post("/tokenize", {"content": "é", "with_pieces": True})
    assert pieces["tokens"] == [{"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]
    _, chat_ids = server.post("/tokenize", {"messages": [{"role": "user", "content": "x"}]})
    assert bytes(chat_ids["tokens"]) == b"user: x\nassistant: "


def test_health_and_metrics_tell_of_the_engine(server: LiveServer) -> None:
    assert server.get("/health") == (200, b'{"status": "ok"}')
    before = server.metric("ds4_generation_tokens_total")
    server.post(CHAT, chat("count me", max_tokens=7))
    assert server.metric("ds4_generation_tokens_total") == before + 7
    assert server.metric("ds4_requests_running") == 0
    assert server.metric("ds4_time_to_first_token_seconds_count") > 0
    assert server.metric("ds4_inter_token_seconds_count") > 0
    assert server.metric('ds4_http_responses_total{route="/v1/chat/completions",status="200"}') > 0


def test_before_the_model_is_loaded_the_server_lives_is_not_ready_and_sends_requests_away() -> None:
    with LiveServer(load=False) as live:
        status, raw = live.get("/health")
        assert status == 200 and json.loads(raw) == {"status": "loading", "progress": 0.0}
        status, headers, raw = live.send("/ready", b"", "GET")
        assert status == 503 and headers["retry-after"] == "1" and json.loads(raw)["status"] == "loading"
        status, headers, raw = live.send(CHAT, chat())
        assert status == 503 and headers["retry-after"] == "5"
        assert json.loads(raw)["error"]["code"] == "loading"
        live.load_model()
        assert live.get("/ready") == (200, b'{"status": "ok"}')
        assert live.post(CHAT, chat())[0] == 200
