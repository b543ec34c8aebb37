"""API keys: who is let in, what a refusal tells, and whose prompts share the cache."""

from __future__ import annotations

import inspect
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ds4.core.settings import load
from ds4.errors import SettingsError
from ds4.server import arguments
from ds4.server.job import Job
from ds4.server.ops import keys as keys_module
from ds4.server.ops.keys import ANYBODY, Keyring
from ds4.server.request import GenerationRequest
from ds4.server.schedule import oracle, tapes
from support.live_server import LiveServer
from support.oracles import standing_in

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
GUARDED = (
    ("GET", "/metrics"), ("GET", "/v1/stats"), ("GET", "/v1/models"), ("GET", "/v1/models/x"), ("POST", CHAT),
    ("POST", COMPLETIONS), ("POST", "/v1/messages"), ("POST", "/v1/messages/count_tokens"), ("POST", "/v1/responses"),
    ("GET", "/v1/responses/resp_1"), ("POST", "/tokenize"), ("POST", "/detokenize"), ("POST", "/apply-template"),
    ("GET", "/nothing"), ("GET", "//health"), ("OPTIONS", "/v1/models"), ("GET", "/health/../metrics"),
    ("POST", "/v1/embeddings"), ("POST", "/v1/responses/resp_1/cancel"), ("GET", "/openapi.json"), ("GET", "/uix"),
    ("GET", "/ui/../v1/stats"), ("GET", "/ui/a/b"), ("GET", "/ui"),
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(banks=2, keys=Keyring(("alpha-secret", "beta-secret"))) as live:
        yield live


def bearer(key: str) -> str:
    return f"Authorization: Bearer {key}\r\n"


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_everything_but_the_probes_and_the_page_asks_for_a_key(server: LiveServer, method: str, path: str) -> None:
    status, headers, raw = server.send(path, b"{}" if method == "POST" else b"", method)
    assert status == 401
    assert headers["www-authenticate"] == 'Bearer realm="ds4"'
    assert b"secret" not in raw


def test_probes_are_answered_without_a_key(server: LiveServer) -> None:
    for path in ("/health", "/ready", "/health/"):
        assert server.get(path)[0] == 200, path


def test_the_page_and_its_files_are_answered_without_a_key(server: LiveServer) -> None:
    for path in ("/", "/ui/app.js", "/ui/style.css", "/ui/app.js/"):
        assert server.get(path)[0] == 200, path
    assert server.get("/ui/nothing.js")[0] == 404


@pytest.mark.parametrize(
    "header",
    [
        bearer("alpha-secret"),
        bearer("beta-secret"),
        "authorization: bearer   alpha-secret  \r\n",
        "X-Api-Key: alpha-secret\r\n",
        "Authorization: Basic abc\r\nX-API-Key: beta-secret\r\n",
    ],
)
def test_either_header_opens(server: LiveServer, header: str) -> None:
    assert server.send("/v1/models", b"", "GET", header)[0] == 200


@pytest.mark.parametrize(
    "header",
    [
        bearer("alpha-secre"),
        bearer("alpha-secrets"),
        bearer("Alpha-secret"),
        bearer(""),
        "Authorization: alpha-secret\r\n",
        "Authorization: Basic alpha-secret\r\n",
        "X-Api-Key: \r\n",
        "Cookie: key=alpha-secret\r\n",
        bearer("x" * 5000),
        bearer("wrong") + "X-Api-Key: alpha-secret\r\n",
    ],
)
def test_what_is_no_key_does_not_open(server: LiveServer, header: str) -> None:
    assert server.send("/v1/models", b"", "GET", header)[0] == 401


def test_a_refusal_is_in_the_surfaces_own_shape(server: LiveServer) -> None:
    error = json.loads(server.send(CHAT, b"{}")[2])["error"]
    assert error["code"] == "invalid_api_key" and error["type"] == "invalid_request_error"
    refusal = json.loads(server.send("/v1/messages", b"{}")[2])
    assert refusal["type"] == "error" and refusal["error"]["type"] == "authentication_error"


def test_a_refusal_names_neither_the_key_that_was_shown_nor_ours(server: LiveServer) -> None:
    _, headers, raw = server.send(CHAT, b"{}", "POST", bearer("guessed-key"))
    told = raw.decode() + str(headers)
    assert "guessed-key" not in told and "alpha" not in told


def test_a_body_is_not_read_before_the_key(server: LiveServer) -> None:
    sock = server.connect()
    with sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert b" 401 " in sock.recv(4096)


def test_keys_are_compared_in_constant_time_with_all_of_them() -> None:
    source = inspect.getsource(Keyring.check)
    loop = source[source.index("for index, known") : source.index("if shown is None")]
    assert "hmac.compare_digest(" in loop
    assert "break" not in loop and "return" not in loop
    assert "==" not in inspect.getsource(keys_module._shown).replace('name == b"', "").replace('kind.lower() == b"', "")


def test_without_a_key_everything_is_open() -> None:
    assert not Keyring().guards
    assert Keyring().check({"path": "/metrics", "headers": []}) == ANYBODY


# ---- files ----------------------------------------------------------------------------------------------------------


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def shown(key: str) -> dict[str, Any]:
    return {"path": "/v1/models", "headers": [(b"authorization", f"Bearer {key}".encode())]}


def test_a_file_has_a_key_a_line_and_is_read_again(tmp_path: Path) -> None:
    file = written(tmp_path / "keys", "# people\none\n\n  two  \n")
    ring = Keyring(("given",), file)
    askers = [ring.check(shown(key)) for key in ("given", "one", "two")]
    assert len({asker.scope for asker in askers}) == len({asker.name for asker in askers}) == 3
    assert all(asker.scope and asker.name for asker in askers)
    written(file, "two\nthree\n")
    assert ring.reload()
    assert ring.check(shown("two")) == askers[2], "a key keeps its scope and name"
    assert ring.check(shown("three")).scope not in [asker.scope for asker in askers]
    assert Keyring(("two",)).check(shown("two")).name == askers[2].name, "a name is the same in every process"
    with pytest.raises(Exception, match="not one of"):
        ring.check(shown("one"))


def test_a_file_that_became_useless_leaves_the_keys_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("ds4.server"), "propagate", True)
    file = written(tmp_path / "keys", "one\n")
    ring = Keyring(file=file)
    for text in ("", "# none\n", "two words\n", "\x00\n"):
        written(file, text)
        assert not ring.reload()
        assert ring.check(shown("one")).scope == 1
    file.unlink()
    assert not ring.reload() and ring.check(shown("one")).scope == 1
    assert "stay as they were" in caplog.text and "two words" not in caplog.text


@pytest.mark.parametrize("text", ["", "# only remarks\n", "a key with spaces\n", "ключ\n", "x" * 5000])
def test_a_file_without_a_usable_key_stops_the_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Keyring(file=written(tmp_path / "keys", text))
    assert "spaces" not in str(caught.value) or "a key with spaces" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nobody"):
        Keyring(file=tmp_path / "nobody")


def test_a_file_that_others_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("ds4.server"), "propagate", True)
    Keyring(file=written(tmp_path / "keys", "one\n", 0o644))
    assert "chmod 600" in caplog.text
    caplog.clear()
    Keyring(file=written(tmp_path / "keys", "one\n"))
    assert not caplog.text


def test_configuration_shows_that_there_are_keys_and_not_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[server]\napi-key = ["from-the-file"]\n')
    env = {"HOME": os.fspath(tmp_path)}
    for argv, environment in (
        (["--api-key", "from-the-flag"], env),
        ([], {**env, "DS4_API_KEY": "from-the-variable"}),
        (["--config", os.fspath(config)], env),
    ):
        with pytest.raises(SystemExit):
            load(arguments.PROGRAM, [*argv, "--show-config"], env=environment)
        told = capsys.readouterr().out
        assert "from-the" not in told and "(hidden)" in told


def test_a_key_of_the_wrong_kind_is_refused_without_being_named(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[server]\napi-key = [987654321]\n")
    with pytest.raises(SettingsError) as caught:
        load(arguments.PROGRAM, ["--config", os.fspath(config)], env={"HOME": os.fspath(tmp_path)})
    assert "987654321" not in str(caught.value)


# ---- whose cache ----------------------------------------------------------------------------------------------------


def cached(server: LiveServer, key: str, prompt: str) -> int:
    status, _, raw = server.send(COMPLETIONS, {"prompt": prompt, "max_tokens": 2}, headers=bearer(key))
    assert status == 200, raw
    return int(json.loads(raw)["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.parametrize("side", ["python", "oracle"])
def test_a_key_continues_on_its_own_prompts_only(monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    """Whoever decides: the scheduler itself, or the oracle's tape."""
    monkeypatch.setenv("DS4_COMPONENT_SCHEDULE", side)
    monkeypatch.setattr(oracle, "oracle", standing_in(tapes.by_tape))
    with LiveServer(banks=3, keys=Keyring(("alpha", "beta"))) as live:
        prompt = "a secret beginning " * 10
        assert cached(live, "alpha", prompt) == 0
        assert cached(live, "beta", prompt) == 0, "another key's prompt tells nothing by its speed"
        last = live.service.metrics.last
        assert last is not None and (last.reuse, last.miss) == ("cold", "scope" if side == "python" else None)
        assert cached(live, "alpha", prompt) == len(prompt) - 1
        assert cached(live, "beta", prompt + "and more") >= len(prompt) - 1
        for turn in range(40):  # enough for the oracle's tape to begin anew, with banks that belong to somebody
            assert cached(live, ("alpha", "beta")[turn % 2], f"{turn:03}" * 10) == 0
        assert [bank.scope for bank in live.engine.scheduler.banks].count(0) == 0
        assert cached(live, "alpha", "039" * 10) == 0
        assert cached(live, "beta", "039" * 10) == 29


def test_a_shared_cache_is_shared() -> None:
    with LiveServer(banks=2, keys=Keyring(("alpha", "beta"), shared=True)) as live:
        prompt = "a common beginning " * 10
        assert cached(live, "alpha", prompt) == 0
        assert cached(live, "beta", prompt) == len(prompt) - 1


# ---- whose requests and responses -----------------------------------------------------------------------------------


def test_each_key_has_a_place_in_the_line_of_its_own_and_waves_share_one_account(server: LiveServer) -> None:
    """All of them come from one address."""
    seen: list[tuple[str, int, str, int]] = []
    submit = server.engine.submit

    def noting(request: GenerationRequest) -> Job:
        seen.append((request.client, request.scope, request.surface, request.nbytes))
        return submit(request)

    server.engine.submit = noting  # type: ignore[method-assign]
    try:
        for key in ("alpha-secret", "beta-secret"):
            for path, body in (
                (COMPLETIONS, {"prompt": "abc", "max_tokens": 1}),
                ("/v1/responses", {"input": "abc", "max_output_tokens": 1}),
                ("/v1/embeddings", {"input": ["abc"] * 9}),
            ):
                assert server.send(path, body, headers=bearer(key))[0] == 200
    finally:
        server.engine.submit = submit  # type: ignore[method-assign]
    assert [surface for _, _, surface, _ in seen] == 2 * ["completions", "responses", "embeddings", "embeddings"]
    assert len({(client, scope) for client, scope, _, _ in seen[:4]}) == 1
    assert seen[0][0] != seen[4][0] and seen[0][1] != seen[4][1]
    assert all(client.startswith("key-") and nbytes for client, _, _, nbytes in seen)
    last = server.service.metrics.last
    assert last is not None and last.surface == "embeddings" and last.prompt_tokens == 27 and last.finish == "length"


def _answers(server: LiveServer, key: str, id: str, item: str) -> list[tuple[str, int, bytes]]:
    """What a key hears of a response, in every way there is, deleting last."""
    asked = {"input": "more", "max_output_tokens": 1}
    ways: tuple[tuple[str, str, str, object], ...] = (
        ("get", "GET", f"/v1/responses/{id}", b""),
        ("items", "GET", f"/v1/responses/{id}/input_items", b""),
        ("cancel", "POST", f"/v1/responses/{id}/cancel", b"{}"),
        ("continue", "POST", "/v1/responses", {**asked, "previous_response_id": id}),
        ("count", "POST", "/v1/responses/input_tokens", {**asked, "previous_response_id": id}),
        ("refer", "POST", "/v1/responses", {**asked, "input": [{"type": "item_reference", "id": item}]}),
        ("delete", "DELETE", f"/v1/responses/{id}", b""),
    )
    heard = []
    for name, method, path, body in ways:
        status, _, raw = server.send(path, body, method, bearer(key))
        heard.append((name, status, raw.replace(id.encode(), b"ID").replace(item.encode(), b"ITEM")))
    return heard


@pytest.mark.parametrize("running", [False, True])
def test_another_keys_response_is_one_that_never_was(running: bool) -> None:
    with LiveServer(banks=2, keys=Keyring(("alpha", "beta"), shared=True)) as live:
        if running:
            live.gate.close()
        body = {"input": "a secret", "max_output_tokens": 4, "background": True}
        made = json.loads(live.send("/v1/responses", body, headers=bearer("alpha"))[2])
        id = made["id"]
        if not running:
            live.wait_for(lambda: live.idle)
        items = json.loads(live.send(f"/v1/responses/{id}/input_items", b"", "GET", bearer("alpha"))[2])
        item = items["data"][0]["id"]
        beta = _answers(live, "beta", id, item)
        assert beta == _answers(live, "beta", "resp_" + "0" * 32, "msg_" + "0" * 32)
        assert {status for _, status, _ in beta} == {400, 404}
        assert all(status == 404 for name, status, _ in beta if name in ("get", "items", "cancel", "delete"))
        live.gate.release()
        live.wait_for(lambda: live.idle)
        alpha = _answers(live, "alpha", id, item)
        assert [status for _, status, _ in alpha] == [200] * len(alpha), alpha
