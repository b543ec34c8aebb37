"""The Responses surface over the fake engine: streams by the automaton, what is kept, hang-ups, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from ds4.server.limits import Limits
from ds4.server.response_store import ResponseStore, StoreLimits
from ds4.server.surfaces import responses
from ds4.server.surfaces.responses_items import messages
from ds4.sys.descriptors import Status
from support.fake_native import error
from support.live_server import LiveServer, chunks, more, read_answer
from support.responses_automaton import check, parse

RESPONSES = "/v1/responses"


def client_of(live: LiveServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{live.port}/v1", api_key="x", max_retries=0, timeout=20)


def stream(live: LiveServer, body: dict[str, Any]) -> dict[str, Any]:
    status, headers, raw = live.send(RESPONSES, {**body, "stream": True})
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    return check(parse(raw))


def kept(live: LiveServer, id: str) -> dict[str, Any]:
    status, raw = live.get(f"{RESPONSES}/{id}")
    assert status == 200, raw
    found: dict[str, Any] = json.loads(raw)
    return found


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def newest(live: LiveServer) -> str:
    """The id of the response that was put last; waits for one."""
    store = live.service.responses
    query = "SELECT id FROM responses ORDER BY number DESC LIMIT 1"
    live.wait_for(lambda: store._thread.submit(lambda: store._db.execute(query).fetchone()).result() is not None)
    return str(store._thread.submit(lambda: store._db.execute(query).fetchone()).result()[0])


@pytest.mark.parametrize("streams", [False, True])
def test_a_response_is_kept_as_the_client_got_it(streams: bool) -> None:
    with LiveServer() as live:
        body = {"input": "abc", "instructions": "be", "max_output_tokens": 4, "metadata": {"a": "b"}, "unknown": 1}
        response = stream(live, body) if streams else live.post(RESPONSES, body)[1]
        assert response["status"] == "incomplete" and len(text_of(response)) == 4
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert response["metadata"] == {"a": "b"} and response["instructions"] == "be"
        prompt = len("system: be\nuser: abc\nassistant: ")
        assert response["usage"]["input_tokens"] == prompt and response["usage"]["output_tokens"] == 4
        assert kept(live, response["id"]) == response
        assert response["id"].startswith("resp_") and len(response["id"]) == 37


def test_a_conversation_goes_on_from_a_response_without_its_instructions() -> None:
    with LiveServer() as live:
        first = live.post(RESPONSES, {"input": "ab", "instructions": "be", "max_output_tokens": 3})[1]
        body = {"input": [{"role": "user", "content": "cd"}], "previous_response_id": first["id"]}
        second = stream(live, {**body, "max_output_tokens": 2})
        whole = f"user: ab\nassistant: {text_of(first)}\nuser: cd\nassistant: "
        assert second["usage"]["input_tokens"] == len(whole)
        assert second["previous_response_id"] == first["id"]
        count = live.post(f"{RESPONSES}/input_tokens", body)[1]
        assert count == {"object": "response.input_tokens", "input_tokens": len(whole)}
        items = json.loads(live.get(f"{RESPONSES}/{second['id']}/input_items")[1])
        assert [item["content"] for item in items["data"]] == ["cd"] and not items["has_more"]


def test_an_item_can_be_named_instead_of_sent() -> None:
    with LiveServer() as live:
        first = live.post(RESPONSES, {"input": "ab", "max_output_tokens": 3})[1]
        items = [
            {"role": "user", "content": "ab"},
            {"type": "item_reference", "id": first["output"][0]["id"]},
            {"role": "user", "content": "cd"},
        ]
        named = live.post(RESPONSES, {"input": items, "max_output_tokens": 1})[1]
        whole = f"user: ab\nassistant: {text_of(first)}\nuser: cd\nassistant: "
        assert named["usage"]["input_tokens"] == len(whole)
        status, answer = live.post(RESPONSES, {"input": [{"id": "msg_none"}]})
        assert status == 404 and answer["error"]["param"] == "input[0].id"


def test_an_item_whose_id_is_null_is_given_one() -> None:
    with LiveServer() as live:
        item = {"type": "message", "role": "user", "content": "ab", "id": None}
        made = live.post(RESPONSES, {"input": [item], "max_output_tokens": 1})[1]
        kept = json.loads(live.get(f"{RESPONSES}/{made['id']}/input_items")[1])
        assert kept["first_id"] == kept["data"][0]["id"] and kept["first_id"].startswith("msg_")


def test_what_is_not_to_be_kept_is_not_and_what_is_deleted_is_gone() -> None:
    with LiveServer() as live:
        response = stream(live, {"input": "a", "max_output_tokens": 1, "store": False})
        assert not response["store"] and live.get(f"{RESPONSES}/{response['id']}")[0] == 404
        client = client_of(live)
        response_id = client.responses.create(model="x", input="a", max_output_tokens=1).id
        assert client.responses.retrieve(response_id).id == response_id
        client.responses.delete(response_id)
        for call in (client.responses.retrieve, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                call(response_id)
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="x", input="a", previous_response_id=response_id)
        assert caught.value.code == "previous_response_not_found"


def test_the_official_client_streams_and_lists() -> None:
    with LiveServer() as live, client_of(live) as client:
        content = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
        said: Any = [{"role": "user", "content": content}]
        with client.responses.stream(model="x", input=said, max_output_tokens=9) as got:
            told = list(got)
        assert told[-1].type == "response.incomplete" and len(told[-1].response.output_text) == 9
        assert sum(event.type == "response.output_text.delta" for event in told) == 9
        many: Any = [{"role": "user", "content": str(n)} for n in range(30)]
        ended = client.responses.create(model="x", input=many, max_output_tokens=1)
        pages = client.responses.input_items.list(ended.id, limit=7, order="asc")
        assert [item.content for item in pages] == [str(n) for n in range(30)]  # type: ignore[union-attr]
        counted = client.responses.input_tokens.count(model="x", input="abc")
        assert counted.input_tokens == len("user: abc\nassistant: ")


def test_a_response_in_the_background_is_asked_for_and_cancelled() -> None:
    with LiveServer(banks=1) as live, client_of(live) as client:
        done = client.responses.create(model="x", input="a", max_output_tokens=3, background=True)
        assert done.status == "queued"
        live.wait_for(lambda: client.responses.retrieve(done.id).status == "incomplete")
        assert len(client.responses.retrieve(done.id).output_text) == 3
        live.gate.close()
        slow = client.responses.create(model="x", input="a", max_output_tokens=3000, background=True)
        live.gate.let(5)
        live.wait_for(lambda: len(client.responses.retrieve(slow.id).output_text) >= 2)
        assert client.responses.retrieve(slow.id).status == "in_progress"
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="x", input="b", previous_response_id=slow.id)
        assert caught.value.code == "previous_response_in_progress"
        cancelled = client.responses.cancel(slow.id)
        assert cancelled.status == "cancelled" and len(cancelled.output_text) >= 2
        live.gate.release()
        live.wait_for(lambda: live.idle)
        assert client.responses.cancel(slow.id).output_text == cancelled.output_text
        assert client.responses.retrieve(slow.id).status == "cancelled"
        foreground = client.responses.create(model="x", input="a", max_output_tokens=1)
        with pytest.raises(openai.BadRequestError, match="background"):
            client.responses.cancel(foreground.id)


@pytest.mark.parametrize("how", ["background", "whole", "stream"])
@pytest.mark.parametrize("where", ["take", "whole"])
def test_an_answer_that_goes_wrong_inside_the_server_has_failed_and_runs_no_more(
    how: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desks: list[responses.Desk] = []
    first, made = responses.Desk.__init__, responses.wire.responding

    def noted(desk: responses.Desk, service: Any) -> None:
        desks.append(desk)
        first(desk, service)

    def broken(*given: Any) -> Any:
        answer = made(*given)
        sound = getattr(answer, where)

        def breaks(*event: Any) -> bytes:
            if where == "take" or answer.ended:
                raise RuntimeError("nobody reckoned with this")
            told: bytes = sound(*event)
            return told

        setattr(answer, where, breaks)
        return answer

    monkeypatch.setattr(responses.Desk, "__init__", noted)
    monkeypatch.setattr(responses.wire, "responding", broken)
    with LiveServer(banks=1) as live:
        body = {"input": "a", "max_output_tokens": 30, "background": how == "background", "stream": how == "stream"}
        sock = live.open(RESPONSES, body)
        id = newest(live)
        live.wait_for(lambda: kept(live, id)["status"] == "failed")
        ended = kept(live, id)
        assert ended["error"]["code"] == "server_error" and ended["output"] == [] and ended["usage"] is None
        live.wait_for(lambda: not desks[0].live and live.idle)
        sock.close()
        assert live.post("/v1/completions", {"prompt": "a", "max_tokens": 2})[0] == 200


@pytest.mark.parametrize("streams", [False, True])
def test_a_hang_up_frees_the_bank_and_the_response_says_so(streams: bool) -> None:
    with LiveServer(banks=1) as live:
        live.gate.close()
        sock = live.open(RESPONSES, {"input": "abc", "max_output_tokens": 3000, "stream": streams})
        live.wait_for(lambda: len(live.session.log) >= 1)
        id = newest(live)
        live.gate.let(6)
        live.wait_for(lambda: len(kept(live, id)["output"]) == 1)
        sock.close()
        live.wait_for(lambda: not live.engine.scheduler.active, 1.0)
        live.gate.release()
        live.wait_for(lambda: live.idle)
        live.wait_for(lambda: kept(live, id)["status"] == "cancelled")
        ended = kept(live, id)
        assert ended["usage"] is None and ended["output"][0]["status"] == "incomplete"


def test_a_stream_that_another_client_deletes_ends_with_a_last_event() -> None:
    with LiveServer(banks=1) as live:
        live.gate.close()
        sock = live.open(RESPONSES, {"input": "abc", "max_output_tokens": 3000, "stream": True})
        live.gate.let(3)
        live.wait_for(lambda: len(live.session.log) >= 4)
        id = newest(live)
        assert json.loads(live.send(f"{RESPONSES}/{id}", b"", "DELETE")[2]) == {
            "id": id,
            "object": "response",
            "deleted": True,
        }
        _, _, raw = read_answer(sock)
        assert check(parse(raw))["status"] == "cancelled"
        live.gate.release()
        live.wait_for(lambda: live.idle)
        assert live.get(f"{RESPONSES}/{id}")[0] == 404


def test_an_engine_that_fails_is_told_before_and_after_the_start() -> None:
    with LiveServer() as live:
        live.session.fail_next = error(Status.INTERNAL, "the pool is gone")
        status, answer = live.post(RESPONSES, {"input": "abc", "max_output_tokens": 3})
        assert status == 500 and "the pool is gone" in answer["error"]["message"]
        assert kept(live, newest(live))["status"] == "failed"
        live.gate.close()
        sock = live.open(RESPONSES, {"input": "abc", "max_output_tokens": 100, "stream": True})
        live.gate.let(3)
        live.wait_for(lambda: len(live.session.log) >= 5)
        live.session.fail_next = error(Status.INTERNAL, "again")
        live.gate.release()
        _, _, raw = read_answer(sock)
        failed = check(parse(raw))
        assert failed["status"] == "failed" and "again" in failed["error"]["message"] and failed["output"]
        assert kept(live, failed["id"]) == failed
        live.wait_for(lambda: live.idle)


def test_a_silent_stream_gives_signs_of_life_that_are_events() -> None:
    with LiveServer(limits=Limits(keep_alive=0.1)) as live:
        live.gate.close()
        sock = live.open(RESPONSES, {"input": "abc", "max_output_tokens": 2, "stream": True})
        raw = b""
        while raw.count(b"event: response.in_progress\n") < 4:
            raw += more(sock, raw)
        live.gate.release()
        while b"response.incomplete" not in raw or not raw.endswith(b"0\r\n\r\n"):
            raw += more(sock, raw)
        sock.close()
        assert check(parse(b"".join(chunks(raw.partition(b"\r\n\r\n")[2]))))["status"] == "incomplete"


def test_responses_outlive_the_server_in_its_state_directory(tmp_path: Path) -> None:
    with LiveServer(store=ResponseStore(tmp_path)) as live:
        first = live.post(RESPONSES, {"input": "ab", "max_output_tokens": 3})[1]
    with LiveServer(store=ResponseStore(tmp_path)) as live:
        assert kept(live, first["id"]) == first
        body = {"input": "cd", "previous_response_id": first["id"], "max_output_tokens": 1}
        assert live.post(RESPONSES, body)[0] == 200


def test_a_response_that_cannot_be_kept_says_so() -> None:
    with LiveServer(store=ResponseStore(limits=StoreLimits(size=1500))) as live:
        response = stream(live, {"input": "abc", "max_output_tokens": 2000})
        assert response["store"] is False
        live.wait_for(lambda: live.idle)
        assert live.get(f"{RESPONSES}/{response['id']}")[0] == 404


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [{}]}, "input[0].type"),
        ({"input": [{"type": "novel"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": "a", "id": {}}]}, "input[0].id"),
        ({"input": [{"role": "robot", "content": "a"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input[0].call_id"),
        ({"input": "a", "text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ({"input": "a", "tool_choice": "required"}, "tool_choice"),
        ({"input": "a", "tool_choice": {"type": "function", "name": "f"}}, "tool_choice.name"),
        ({"input": "a", "tool_choice": 3}, "tool_choice"),
        ({"input": "a", "tools": [{"type": "function"}]}, "tools[0].name"),
        ({"input": "a", "tools": [{"type": "function", "name": "f"}] * 2}, "tools[1].name"),
        ({"input": "a", "tools": [{"type": "function", "name": "f"}]}, "tools"),
        ({"input": "a", "reasoning": {"effort": "extreme"}}, "reasoning.effort"),
        ({"input": "a", "reasoning": {"effort": "high"}}, "reasoning.effort"),
        ({"input": "a", "reasoning": {"summary": "long"}}, "reasoning.summary"),
        ({"input": "a", "conversation": "conv_1"}, "conversation"),
        ({"input": "a", "prompt": {"id": "p"}}, "prompt"),
        ({"input": "a", "background": True, "store": False}, "store"),
        ({"input": "a", "background": True, "stream": True}, "stream"),
        ({"input": "a", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "a", "top_logprobs": 21}, "top_logprobs"),
        ({"input": "a", "truncation": "some"}, "truncation"),
        ({"input": "a", "metadata": {"a": 1}}, "metadata"),
        ({"input": "a", "previous_response_id": "resp_none"}, "previous_response_id"),
        ({"input": "x" * 5000}, "input"),
        ({"input": "x" * 5000, "truncation": "auto"}, "input"),
    ],
)
def test_what_it_does_not_do_is_a_400_that_names_it(server: LiveServer, body: dict[str, Any], param: str) -> None:
    for streams in (False, True):
        status, answer = server.post(RESPONSES, {**body, "stream": body.get("stream", streams)})
        assert (status, answer["error"]["param"]) == (400, param), answer


def test_other_refusals_have_the_shape_of_the_surface(server: LiveServer) -> None:
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
    assert server.send(RESPONSES, b"", "GET", upgrade)[0] == 426
    assert server.get(RESPONSES)[0] == 405
    assert server.send(RESPONSES, b'{"input": "a", "user": "\\ud800"}')[0] == 400
    assert server.send(RESPONSES, b'{"input": "a", "client_metadata": {"x": "\\udc00"}}')[0] == 400
    response = server.post(RESPONSES, {"input": "a", "max_output_tokens": 1})[1]
    for query in ("limit=0", "limit=x", "order=up", "after=none"):
        assert server.get(f"{RESPONSES}/{response['id']}/input_items?{query}")[0] == 400
    assert server.get(f"{RESPONSES}/{response['id']}?stream=true")[0] == 400
    assert server.get(f"{RESPONSES}/{response['id']}/input_items?after=none")[0] == 400


def test_nulls_and_fields_that_ask_for_nothing_pass(server: LiveServer) -> None:
    names = """instructions max_output_tokens max_tool_calls metadata parallel_tool_calls previous_response_id prompt
    prompt_cache_key reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice
    tools top_logprobs top_p truncation user include background conversation""".split()
    assert server.post(RESPONSES, {"input": "a", "max_output_tokens": 1, **dict.fromkeys(names[2:])})[0] == 200
    body = {"input": "a", "max_output_tokens": 1, "truncation": "auto", "stream_options": {"include_obfuscation": True}}
    body |= {"include": ["reasoning.encrypted_content", "novel"], "tools": [{"type": "web_search"}], "temperature": 0}
    body |= {"reasoning": {"effort": "none", "summary": "none"}, "text": {"verbosity": "low"}, "tool_choice": "none"}
    status, response = server.post(RESPONSES, body)
    assert status == 200 and response["tools"] == [{"type": "web_search"}] and response["text"]["verbosity"] == "low"


def test_log_probabilities_come_with_the_text(server: LiveServer) -> None:
    body = {"input": "a", "max_output_tokens": 3, "top_logprobs": 2}
    response = stream(server, body)
    (part,) = response["output"][0]["content"]
    assert "".join(entry["token"] for entry in part["logprobs"]) == part["text"]
    assert all(len(entry["top_logprobs"]) <= 2 and entry["logprob"] <= 0 for entry in part["logprobs"])


def test_thousands_of_tool_pairs_are_a_conversation() -> None:
    items: list[dict[str, Any]] = []
    for n in range(4096):
        items.append({"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": f"c{n}", "output": str(n)})
    talk = messages(items, 0)
    assert [message["role"] for message in talk] == ["assistant", "tool"] * 4096
    assert talk[-1] == {"role": "tool", "tool_call_id": "c4095", "content": "4095"}


def test_calls_and_words_of_one_turn_are_one_message() -> None:
    def call(n: int) -> dict[str, Any]:
        return {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"}

    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "look"}]}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    result = {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "1"}]}
    talk = messages([thought, said, call(1), call(2), result, {"type": "web_search_call", "id": "ws"}, said, said], 0)
    assert [message["role"] for message in talk] == ["assistant", "tool", "assistant", "assistant"]
    assert (talk[0]["reasoning_content"], talk[0]["content"]) == ("hm", "look")
    assert [made["id"] for made in talk[0]["tool_calls"]] == ["c1", "c2"]


@pytest.fixture(scope="module")
def server() -> Any:
    with LiveServer() as live:
        yield live
