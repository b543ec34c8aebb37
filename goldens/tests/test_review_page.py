"""The page as a server and a program: whom it answers, what it refuses, files of --static, the status of --list."""

from __future__ import annotations

import html
import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from goldens.review import app, main
from goldens.tests.checkout import CASE, leave, leave_some, make, the_one
from parity import goldens, pending


class Page:
    """A client of one running review."""

    def __init__(self, root: Path, port: int) -> None:
        self.root, self.port = root, port
        self.host = f"127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True)
        given = {"Host": self.host, **{key.replace("_", "-"): value for key, value in headers.items()}}
        if body:
            given |= {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(body.encode()))}
        for key, value in given.items():
            connection.putheader(key, value)
        connection.endheaders(body.encode() if body else None)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, text

    def get(self, path: str = "/", **headers: str) -> str:
        return self.ask("GET", path, **headers)[2]

    def token(self, identity: str) -> str:
        found = re.search(r'name="token" value="([^"]+)"', self.get(f"/p/{identity}"))
        assert found is not None
        return found[1]

    def decide(
        self, verb: str, identity: str, *, origin: str | None = None, **form: str
    ) -> tuple[int, dict[str, str], str]:
        form = {"token": self.token(identity), "name": "Ada", "reason": "the contract says so", **form}
        origin = f"http://{self.host}" if origin is None else origin
        return self.ask("POST", f"/p/{identity}/{verb}", urlencode(form), **({"Origin": origin} if origin else {}))


@contextmanager
def running(root: Path) -> Iterator[Page]:
    server = app.listen(root, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Page(root, server.server_port)
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with running(make(tmp_path)) as page:
        yield page


def goldens_of(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (root / "goldens").rglob("*") if path.is_file()}


# ---- whom it answers ----


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""])
def test_a_host_that_is_another_is_refused(page: Page, host: str) -> None:
    leave(page.root)
    status, _, text = page.ask("GET", "/", Host=host.format(port=page.port))
    assert status == 403 and "answers to its own name only" in text
    assert CASE not in text


def test_it_listens_on_loopback_only(page: Page) -> None:
    server = app.listen(page.root, 0)
    assert server.server_address[0] == "127.0.0.1"
    server.server_close()


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
@pytest.mark.parametrize("verb", ["accept", "reject"])
def test_a_decision_from_another_page_is_refused(page: Page, origin: str, verb: str) -> None:
    leave(page.root)
    before = goldens_of(page.root)
    status, _, text = page.decide(verb, the_one(page.root).id, origin=origin.format(port=page.port))
    assert status == 403 and "comes from another page" in text
    assert goldens_of(page.root) == before and the_one(page.root)


@pytest.mark.parametrize("token", ["", "x", "\xff"])
def test_a_decision_without_the_token_of_this_process_is_refused(page: Page, token: str) -> None:
    leave(page.root)
    before = goldens_of(page.root)
    for verb in ("accept", "reject"):
        status, _, text = page.decide(verb, the_one(page.root).id, token=token)
        assert status == 403 and "another run of the review" in text
    assert goldens_of(page.root) == before and the_one(page.root)


def test_a_token_of_another_process_is_refused(page: Page, tmp_path: Path) -> None:
    leave(page.root)
    identity = the_one(page.root).id
    with running(page.root) as other:
        token = other.token(identity)
    assert page.decide("accept", identity, token=token)[0] == 403


def test_a_form_that_is_too_long_is_refused_before_it_is_read(page: Page) -> None:
    leave(page.root)
    status, _, text = page.decide("accept", the_one(page.root).id, reason="x" * (app.FORM + 1))
    assert status == 403 and "too long" in text


def test_a_get_decides_nothing(page: Page) -> None:
    leave(page.root)
    assert page.ask("GET", f"/p/{the_one(page.root).id}/accept")[0] == 405
    assert the_one(page.root)


def test_every_answer_forbids_what_the_page_does_not_need(page: Page) -> None:
    leave(page.root)
    for path in ("/", f"/p/{the_one(page.root).id}", "/review.css", "/review.js", "/nothing", "/p/none"):
        _, headers, _ = page.ask("GET", path)
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_assets_are_two_and_nothing_else_is_read(page: Page) -> None:
    assert "text/css" in page.ask("GET", "/review.css")[1]["content-type"]
    assert "text/javascript" in page.ask("GET", "/review.js")[1]["content-type"]
    for path in ("/app.py", "/..%2f..%2fgoldens%2fmanifest.toml", "/templates/base.html", "/favicon.ico"):
        assert page.ask("GET", path)[0] == 404


# ---- what it shows ----


def test_nothing_pending_says_so_and_how_results_come(page: Page) -> None:
    text = page.get()
    assert "Nothing pending" in text and "./dev gate" in text and "./dev test" in text


def test_the_list_is_in_order_and_narrows_to_a_component(page: Page) -> None:
    leave_some(page.root)
    names = re.findall(r'<li data-component="([^"]+)"', page.get())
    assert names == ["logits", "cli (text)", "stops"]
    assert re.findall(r'<li data-component="([^"]+)"', page.get("/?component=stops")) == ["stops"]


def test_what_a_result_says_never_becomes_markup(page: Page) -> None:
    evil = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
    leave(page.root, case=evil, component=evil, kind="text", expected=None, found=evil, command=evil, why=evil)
    for path in ("/", f"/p/{the_one(page.root).id}"):
        text = page.get(path)
        assert "<script>alert" not in text and "<img" not in text
        assert html.escape("<script>alert(1)</script>") in text


def test_files_that_are_no_pendings_are_told_on_the_page(page: Page) -> None:
    leave(page.root)
    (page.root / ".dev/pending/broken.json").write_text("{")
    assert ".dev/pending/broken.json" in page.get()


def test_a_result_that_is_gone_is_a_page_that_says_so(page: Page) -> None:
    status, _, text = page.ask("GET", "/p/0123456789abcdef")
    assert status == 404 and "Nothing waits here" in text


def test_a_manifest_that_cannot_be_read_is_an_error_that_is_shown(page: Page) -> None:
    leave(page.root)
    (page.root / "goldens/manifest.toml").write_text('[[golden]]\nfolder = "x"\n')
    status, _, text = page.ask("GET", "/")
    assert status == 500 and "an entry without" in html.unescape(text)


# ---- decisions ----


def test_accepting_writes_and_leads_to_the_next_result(page: Page) -> None:
    leave_some(page.root)
    waiting, _ = goldens.open_pendings(page.root)
    by_component = {one.component: one.id for one, _ in waiting}
    status, headers, _ = page.decide("accept", by_component["logits"])
    assert (status, headers["location"]) == (303, f"/p/{by_component['cli (text)']}")
    assert "Accepted" in page.get(headers["location"]) and "1 of 3 decided" in page.get()
    status, headers, _ = page.decide("reject", by_component["stops"], component="stops")
    assert (status, headers["location"]) == (303, "/")
    status, headers, _ = page.decide("accept", by_component["cli (text)"])
    assert headers["location"] == "/"
    text = page.get()
    assert "All decided" in text and "git add goldens" in text
    assert pending.collect(page.root).pendings == []


def test_the_name_is_remembered_by_the_next_run(page: Page) -> None:
    leave_some(page.root)
    identity = next(one.id for one, _ in goldens.open_pendings(page.root)[0] if one.component == "stops")
    page.decide("accept", identity, name="Ada Lovelace")
    with running(page.root) as later:
        identity = goldens.open_pendings(page.root)[0][0][0].id
        assert 'value="Ada Lovelace"' in later.get(f"/p/{identity}")


@pytest.mark.parametrize(("field", "value"), [("reason", " "), ("reason", "ok"), ("name", "")])
def test_a_decision_without_reason_or_name_comes_back_as_it_was_typed(page: Page, field: str, value: str) -> None:
    leave(page.root)
    before = goldens_of(page.root)
    form = {"name": "Grace", "reason": "because it is <right>", field: value}
    status, _, text = page.decide("accept", the_one(page.root).id, **form)
    assert status == 422 and 'role="alert"' in text and "data-open" in text
    assert field == "reason" or html.escape("because it is <right>") in text
    assert field == "name" or 'value="Grace"' in text
    assert goldens_of(page.root) == before


def test_a_golden_that_changed_meanwhile_refuses_with_a_conflict(page: Page) -> None:
    leave(page.root)
    one = the_one(page.root)
    token = page.token(one.id)
    goldens.accept(one, "Bob", "was here first", page.root)
    leave(page.root, found=b"third\n")
    identity = the_one(page.root).id
    assert "Stale" in page.get(f"/p/{identity}")
    status, _, text = page.decide("accept", identity, token=token)
    assert status == 409 and "the golden changed since" in html.unescape(text)


def test_a_decision_that_is_sent_twice_counts_once(page: Page) -> None:
    leave(page.root)
    identity = the_one(page.root).id
    token = page.token(identity)
    form = urlencode({"token": token, "name": "Ada", "reason": "the contract says so"})
    origin = {"Origin": f"http://{page.host}"}
    assert page.ask("POST", f"/p/{identity}/accept", form, **origin)[0] == 303
    assert page.ask("POST", f"/p/{identity}/accept", form, **origin)[0] == 404
    assert (page.root / "goldens/CHANGES.md").read_text().count("## ") == 1


# ---- the program ----


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("TEST_UNDECLARED_OUTPUTS_DIR", raising=False)
    return make(tmp_path)


def test_the_list_ends_with_1_if_something_waits(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--list"]) == 0
    assert capsys.readouterr().out == "nothing pending\n"
    leave_some(root)
    assert main.main(["--list"]) == 1
    assert "3 pending" in capsys.readouterr().out
    (root / "goldens/manifest.toml").write_text("no toml")
    assert main.main(["--list"]) == 2
    assert capsys.readouterr().err.startswith("review: ")


def test_a_broken_file_alone_is_something_that_waits(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / ".dev/pending").mkdir(parents=True)
    (root / ".dev/pending/x.json").write_text("{}")
    assert main.main(["--list", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["broken"][0]["source"] == ".dev/pending/x.json"


def test_the_list_as_json_has_all_that_a_script_asks_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(root)
    assert main.main(["--list", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["pending"]
    assert row["golden"] == "goldens/stops/splits.jsonl" and row["case"] == CASE and row["bytes"] > 0
    assert row["command"] == "./dev gate stops" and row["stale"] is None and row["kind"] == "tape"


def test_static_pages_carry_all_they_need_and_decide_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_some(root)
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert main.main(["--static", "site"]) == 0
    files = sorted(path.name for path in (tmp_path / "site").iterdir())
    waiting, _ = goldens.open_pendings(root)
    assert files == sorted(["index.html", *(f"{one.id}.html" for one, _ in waiting)])
    for path in (tmp_path / "site").iterdir():
        text = path.read_text()
        assert '<form method="post"' not in text and "token" not in text.split("</script>")[1]
        assert not re.search(r'(src|href)="(https?:)?/', text), "a file leads nowhere else"
        for link in re.findall(r'href="([^"#][^"]*)"', text):
            assert link == "data:," or (tmp_path / "site" / link).is_file()
