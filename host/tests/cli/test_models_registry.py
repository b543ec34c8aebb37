"""Packages from where pip is configured to look: its settings, both forms of the simple API, wheels made a model."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from ds4.cli.models import get as getting
from ds4.cli.models import registry, sources
from ds4.cli.models.get import WORK, Order, get
from ds4.cli.models.known import KNOWN, Known, Terms, Wheel
from ds4.cli.models.registry import PUBLIC_INDEX, configured, locate
from ds4.errors import DownloadError, ModelFileError, SettingsError
from support.faulty_server import Served, Server, serving
from support.gguf_writer import GgufWriter


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def only_this_index(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.base}/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_CERT", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def quiet(folder: Path, **more: object) -> Order:
    return Order(folder, quiet=True, sleep=lambda seconds: None, **more)  # type: ignore[arg-type]


def model(tmp_path: Path) -> bytes:
    writer = GgufWriter()
    writer.string("general.architecture", "llama").string("general.name", "x" * 3000)
    writer.write(tmp_path / "made.gguf")
    return (tmp_path / "made.gguf").read_bytes()


def wheel(members: dict[str, bytes]) -> bytes:
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Shop:
    """A model in two wheels with terms in a third, on an index of this machine."""

    def __init__(self, server: Server, content: bytes, html: bool = False) -> None:
        self.server, self.content = server, content
        half = len(content) // 2
        parts = (content[:half], content[half:])
        wheels = tuple(self._offer(f"tiny-part{i}", {f"p{i}/data": part}, html) for i, part in enumerate(parts))
        page = b"<html><head><title>no</title></head><body><h1>Terms</h1><p>Be  kind.<script>no</script></body></html>"
        terms = Terms("Tiny Terms", self._offer("tiny", {"t/TERMS.html": page}, html))
        self.known = Known("tiny", "a tiny model", "Tiny Terms", sha256(content), len(content), wheels, terms)

    def _offer(self, project: str, members: dict[str, bytes], html: bool) -> Wheel:
        file, data = f"{project.replace('-', '_')}-1-py3-none-any.whl", wheel(members)
        self.server.paths[f"/files/{file}"] = Served(data)
        self.server.paths[f"/simple/{project}/"] = page(file, sha256(data), html)
        return Wheel(project, file, sha256(data), len(data), tuple(members))


def page(file: str, digest: str, html: bool) -> Served:
    if html:
        text = f"<!DOCTYPE html><body><a href='../../files/{file}#sha256={digest}' data-yanked=''>{file}</a></body>"
        return Served(text.encode(), kind="text/html")
    entry = {"filename": file, "url": f"../../files/{file}", "hashes": {"sha256": digest}}
    data = json.dumps({"meta": {"api-version": "1.1"}, "name": "x", "files": [entry]}).encode()
    return Served(data, kind="application/vnd.pypi.simple.v1+json")


def offer(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "find", lambda name: shop.known if name == "tiny" else None)


@pytest.mark.parametrize("html", [False, True])
def test_a_model_is_joined_from_its_wheels_and_keeps_its_terms(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, html: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(server, model(tmp_path), html)
    offer(shop, monkeypatch)
    folder = tmp_path / "models"
    assert get("tiny", quiet(folder, accept=True)) == [(folder / "tiny.gguf", shop.known.sha256)]
    assert (folder / "tiny.gguf").read_bytes() == shop.content
    assert (folder / "tiny.terms.txt").read_text() == "Terms\n\nBe kind.\n"
    assert (folder / "tiny.gguf.sha256").read_text() == f"{shop.known.sha256}  tiny.gguf\n"
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.gguf", "tiny.gguf.sha256", "tiny.terms.txt"]
    assert "Be kind." in capsys.readouterr().err


def test_terms_are_never_accepted_in_silence(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(Shop(server, model(tmp_path)), monkeypatch)
    with pytest.raises(SettingsError, match="Tiny Terms must be accepted"):
        get("tiny", quiet(tmp_path / "models"))
    assert "Be kind." in capsys.readouterr().err
    assert not [path for path, _ in server.asked if "part" in path]


@pytest.mark.parametrize(
    ("typed", "accepted"), [("yes\n", True), ("YES\n", True), ("y\n", False), ("\n", False), ("", False)]
)
def test_only_a_typed_yes_accepts_the_terms(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, accepted: bool
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return typed

    offer(Shop(server, model(tmp_path)), monkeypatch)
    monkeypatch.setattr("sys.stdin", Terminal())
    if accepted:
        assert get("tiny", quiet(tmp_path / "models"))[0][0].exists()
    else:
        with pytest.raises(SettingsError, match="not accepted"):
            get("tiny", quiet(tmp_path / "models"))
        assert not (tmp_path / "models" / "tiny.gguf").exists()


def test_a_wheel_that_is_there_already_is_not_fetched_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(server, model(tmp_path))
    offer(shop, monkeypatch)
    second = f"/files/{shop.known.wheels[1].file}"
    served = server.paths.pop(second)
    with pytest.raises(DownloadError, match="answered 404"):
        get("tiny", quiet(tmp_path / "models", accept=True))
    server.paths[second] = served
    server.asked.clear()
    assert get("tiny", quiet(tmp_path / "models", accept=True))
    assert [path for path, _ in server.asked if path.startswith("/files/")] == [second]


def test_a_wheel_with_other_contents_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(server, model(tmp_path))
    offer(shop, monkeypatch)
    served = server.paths[f"/files/{shop.known.wheels[0].file}"]
    served.body = served.body[:-1] + b"?"
    with pytest.raises(DownloadError, match="SHA-256 differs") as caught:
        get("tiny", quiet(tmp_path / "models", accept=True))
    assert caught.value.expected == shop.known.wheels[0].sha256
    assert not (tmp_path / "models" / "tiny.gguf").exists()


def test_an_index_that_tells_of_another_hash_is_not_believed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(server, model(tmp_path))
    offer(shop, monkeypatch)
    server.paths["/simple/tiny/"] = page(shop.known.terms.wheel.file if shop.known.terms else "", "0" * 64, False)
    with pytest.raises(DownloadError, match="another file of that name"):
        get("tiny", quiet(tmp_path / "models", accept=True))


def test_what_is_joined_must_be_a_model(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(Shop(server, b"GGUF but no more"), monkeypatch)
    with pytest.raises(ModelFileError):
        get("tiny", quiet(tmp_path / "models", accept=True))
    assert not (tmp_path / "models" / "tiny.gguf").exists()


def test_a_file_of_that_name_is_kept_unless_forced(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(server, model(tmp_path))
    offer(shop, monkeypatch)
    target = tmp_path / "models" / "tiny.gguf"
    target.parent.mkdir()
    target.write_bytes(b"mine")
    with pytest.raises(SettingsError, match="is there already"):
        get("tiny", quiet(target.parent, accept=True))
    assert target.read_bytes() == b"mine"
    get("tiny", quiet(target.parent, accept=True, force=True))
    assert target.read_bytes() == shop.content


def test_another_index_is_asked_when_the_first_has_it_not(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"file:///nowhere {server.base}/more/")
    server.paths["/more/a-b/"] = page("x.whl", "1" * 64, True)
    assert locate(configured(), "A_b", "x.whl", "1" * 64).url == f"{server.base}/files/x.whl"
    with pytest.raises(DownloadError, match="no index that pip is configured for has it"):
        locate(configured(), "a-b", "y.whl", "1" * 64)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"files": 3}', b'{"files": [{}]}'])
def test_a_page_that_is_none_is_told(server: Server, body: bytes) -> None:
    server.paths["/simple/p/"] = Served(body, kind="application/vnd.pypi.simple.v1+json")
    with pytest.raises(DownloadError, match="no page of a simple index"):
        locate(configured(), "p", "x.whl", "1" * 64)


def test_pips_files_and_variables_decide_in_pips_order(tmp_path: Path) -> None:
    user = tmp_path / ".config" / "pip" / "pip.conf"
    user.parent.mkdir(parents=True)
    user.write_text("[global]\nindex_url = https://a.example/simple/\ncert = /x.pem\n[install]\nindex-url = no\n")
    env = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "none")}
    found = configured(env)
    assert (found.indexes, found.web.certificates) == (("https://a.example/simple",), "/x.pem")
    named = tmp_path / "named.conf"
    named.write_text("[download]\nindex-url = https://u:p%40ss@b.example:8443/s\n[global]\nindex-url = https://no/\n")
    found = configured({**env, "PIP_CONFIG_FILE": str(named)})
    assert found.indexes == ("https://b.example:8443/s",)
    assert found.web.credentials == {"b.example:8443": "Basic dTpwQHNz"}
    assert configured({**env, "PIP_INDEX_URL": "https://c.example"}).indexes == ("https://c.example",)
    assert configured({"PIP_CONFIG_FILE": "/dev/null"}).indexes == (PUBLIC_INDEX,)
    named.write_text("no section\n")
    with pytest.raises(DownloadError, match="pip's configuration"):
        configured({**env, "PIP_CONFIG_FILE": str(named)})


def test_every_known_model_is_pinned_down_to_its_bytes() -> None:
    for known in KNOWN:
        wheels = [*known.wheels, *([known.terms.wheel] if known.terms else [])]
        assert all(len(one.sha256) == 64 and one.nbytes > 0 and one.members for one in wheels)
        assert len(known.sha256) == 64
        assert sources.is_model_name(known.name + ".gguf")
        assert ("Apache" in known.licence) == (known.terms is None)
    assert registry.PUBLIC_INDEX.startswith("https://")
    assert getting.WORK == WORK
