"""Where a package's files lie: the indexes that pip is configured to use, asked by the simple repository API.

pip's configuration is read as pip does: its files (machine, then user, then environment), the sections [global] and
[download], then the variables PIP_*. An index answers in JSON (PEP 691) or HTML (PEP 503).
"""

from __future__ import annotations

import base64
import configparser
import html.parser
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from ds4.cli.models.http import PASSING, Passing, Web
from ds4.errors import DownloadError

PUBLIC_INDEX = "https://pypi.org/simple"  # pip's own default
_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_LARGEST_PAGE = 64 << 20
_KEYS = ("index-url", "extra-index-url", "cert")


@dataclass(frozen=True)
class Registry:
    """indexes: URLs without credentials, in the order in which they are asked."""

    indexes: tuple[str, ...]
    web: Web


@dataclass(frozen=True)
class Found:
    url: str
    sha256: str | None


def configured(env: Mapping[str, str] | None = None) -> Registry:
    """The registry that pip would use."""
    env = os.environ if env is None else env
    values: dict[str, str] = {}
    for file in _files(env):
        values.update(_read(file))
    for key in _KEYS:
        found = env.get("PIP_" + key.upper().replace("-", "_"))
        if found:
            values[key] = found
    urls = [values.get("index-url", PUBLIC_INDEX), *values.get("extra-index-url", "").split()]
    plain: list[str] = []
    credentials: dict[str, str] = {}
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            continue  # folders, which hold no model
        host = parts.netloc.rpartition("@")[2]
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            credentials[host] = "Basic " + base64.b64encode(pair.encode()).decode()
        plain.append(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")))
    return Registry(tuple(plain), Web(credentials, values.get("cert")))


def locate(registry: Registry, project: str, file: str, sha256: str) -> Found:
    """Where a file of a project lies. Raises DownloadError if no index has it, or one has another of that name."""
    name = re.sub(r"[-_.]+", "-", project).lower()
    said: list[str] = []
    for index in registry.indexes:
        try:
            files = dict(_files_of(registry.web, f"{index}/{name}/"))
        except (DownloadError, Passing) as error:
            said.append(str(error))
            continue
        if file not in files:
            said.append(f"{index} has no such file")
            continue
        found = files[file]
        if found.sha256 not in (None, sha256):
            raise DownloadError("the index has another file of that name", subject=file, expected=sha256,
                                found=found.sha256)  # fmt: skip
        return found
    told = "; ".join(said) or "there is none"
    raise DownloadError(f"no index that pip is configured for has it: {told}", subject=file)


def _files_of(web: Web, page: str) -> Iterator[tuple[str, Found]]:
    try:
        with web.open(page, {"Accept": _ACCEPT}) as response:
            base, kind = response.geturl(), response.headers.get_content_type()
            data = response.read(_LARGEST_PAGE + 1)
    except PASSING as error:
        raise Passing(str(error)) from None
    if len(data) > _LARGEST_PAGE:
        raise DownloadError("is too large for a page of an index", subject=page)
    try:
        if kind == _JSON or kind.endswith("+json"):
            for entry in json.loads(data)["files"]:
                yield str(entry["filename"]), Found(urljoin(base, entry["url"]), entry.get("hashes", {}).get("sha256"))
            return
        links = _Links()
        links.feed(data.decode("utf-8"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DownloadError("is no page of a simple index (PEP 503, PEP 691)", subject=page) from None
    for target, text in links.found:
        url, fragment = urldefrag(urljoin(base, target))
        hash_ = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment)
        yield text.strip(), Found(url, hash_[1] if hash_ else None)


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._href: str | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self._href, self._text = dict(attrs).get("href"), ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._href is not None:
            self.found.append((self._href, self._text))
            self._href = None


def _files(env: Mapping[str, str]) -> list[Path]:
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(env.get("HOME") or "/nonexistent")
    shared = [Path(folder) for folder in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep) if folder]
    files = [folder / "pip" / "pip.conf" for folder in reversed(shared)]
    files += [Path("/etc/pip.conf"), home / ".pip" / "pip.conf"]
    files += [Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf", Path(sys.prefix) / "pip.conf"]
    return files + ([Path(named)] if named else [])


def _read(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(file, encoding="utf-8")
    except (configparser.Error, UnicodeError) as error:
        raise DownloadError(f"cannot read pip's configuration: {error}", subject=str(file)) from None
    values: dict[str, str] = {}
    for section in ("global", "download"):
        if parser.has_section(section):
            values.update({key.replace("_", "-"): value for key, value in parser.items(section)})
    return {key: value for key, value in values.items() if key in _KEYS}
