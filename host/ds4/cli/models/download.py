"""One file over HTTP, whole or not at all: resumed where it was cut off, hashed as it comes, named by whoever asked.

Beside the bytes so far (`NAME.part`) lies `NAME.part.json`: what they are part of, so that the next run goes on only
with the same thing. A server that has another file by now, or that knows no ranges, sends all of it again.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from ds4.cli.models.http import PASSING, Passing, Web
from ds4.errors import DownloadError

_BLOCK = 1 << 18
_SPARE = 64 << 20  # bytes of disk left alone
_ATTEMPTS = 6  # in a row, none of which came further than those before
_LONGEST_WAIT_S = 30.0

Report = Callable[[int, int | None], None]
"""Called with the bytes that are there and the bytes that there will be, None where the server does not say."""


@dataclass(frozen=True)
class Wanted:
    """What is asked for. nbytes, sha256: where they are known. magic: what the file starts with, so that a page that
    says something else is refused at its first bytes."""

    url: str
    nbytes: int | None = None
    sha256: str | None = None
    magic: bytes = b""


def fetch(web: Web, wanted: Wanted, part: Path, report: Report, *, sleep: Callable[[float], None] = time.sleep) -> str:
    """Fetches into `part` and returns its SHA-256. The bytes stay there when it is interrupted or gives up.

    Raises DownloadError: another process is at it, no space, not there, too many failures, wrong length, wrong hash;
    after the last two the bytes are gone.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    with _locked(part) as file:
        transfer = _Transfer(web, wanted, part, file, report)
        failures, most = 0, transfer.size
        while True:
            try:
                transfer.attempt()
                break
            except Passing as error:
                failures = 1 if transfer.size > most else failures + 1
                most = max(most, transfer.size)
                if failures >= _ATTEMPTS:
                    raise DownloadError(
                        f"gave up after {_ATTEMPTS} attempts: {error}; what is there is kept, and the same command "
                        "goes on from it",
                        subject=wanted.url,
                    ) from None
                sleep(error.after if error.after is not None else min(2.0 ** (failures - 1), _LONGEST_WAIT_S))
        return transfer.finish()


def state(part: Path) -> Path:
    """The file beside a part that says what it is part of."""
    return part.with_name(part.name + ".json")


def discard(part: Path) -> None:
    """Forgets a part."""
    part.unlink(missing_ok=True)
    state(part).unlink(missing_ok=True)


class _Transfer:
    """The bytes so far, and their hash. size: how many there are."""

    def __init__(self, web: Web, wanted: Wanted, part: Path, file: FileIO, report: Report) -> None:
        self._web, self._wanted, self._part, self._file, self._report = web, wanted, part, file, report
        self._validator, self._total = self._remembered()
        self._hash = hashlib.sha256()
        self.size = 0
        while block := file.read(_BLOCK):
            self._hash.update(block)
            self.size += len(block)

    def attempt(self) -> None:
        """One request. Returns when every byte is there."""
        if self._validator is None and self._wanted.sha256 is None:
            self._restart()  # nothing would tell whether the rest belongs to what is here
        if self.size and self.size in (self._total, self._wanted.nbytes):
            return
        headers = {"Accept-Encoding": "identity"}
        if self.size:
            headers["Range"] = f"bytes={self.size}-"
            if self._validator is not None:
                headers["If-Range"] = self._validator
        with self._web.open(self._wanted.url, headers) as response:
            if response.status == 416:
                self._past_the_end(response)
                return
            self._begin(response)
            self._receive(response)

    def finish(self) -> str:
        """Makes the bytes last, and checks them."""
        os.fsync(self._file.fileno())
        found, wanted = self._hash.hexdigest(), self._wanted
        if wanted.nbytes is not None and self.size != wanted.nbytes:
            self._refuse("wrong length", wanted.nbytes, self.size)
        if wanted.sha256 is not None and found != wanted.sha256:
            self._refuse("wrong contents: its SHA-256 differs", wanted.sha256, found)
        return found

    def _begin(self, response: http.client.HTTPResponse) -> None:
        """Takes in what the server says of the file, and starts over where that is another than before."""
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise DownloadError("it comes compressed", subject=self._wanted.url, expected="identity", found=encoding)
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        if response.status == 206:
            start, total = _content_range(response.headers.get("Content-Range"))
            if start != self.size or (None not in (total, self._total) and total != self._total):
                self._restart()
                raise Passing("the server sent another range than the one asked for")
        elif response.status == 200:
            self._restart()
        else:
            raise DownloadError("no file", subject=self._wanted.url, expected="200 or 206", found=response.status)
        if None not in (total, self._wanted.nbytes) and total != self._wanted.nbytes:
            self._refuse("wrong length", self._wanted.nbytes, total)
        self._total = total if total is not None else self._wanted.nbytes
        self._check_space()
        etag = response.headers.get("ETag")
        strong = etag if etag and not etag.startswith("W/") else None  # a weak one says nothing of single bytes
        self._validator = strong or response.headers.get("Last-Modified")
        about = {"url": self._wanted.url, "validator": self._validator, "total": self._total}
        state(self._part).write_text(json.dumps(about), encoding="utf-8")

    def _receive(self, response: http.client.HTTPResponse) -> None:
        self._report(self.size, self._total)
        while True:
            try:
                block = response.read1(_BLOCK)
            except PASSING as error:
                raise Passing(str(error) or type(error).__name__) from None
            if not block:
                break
            if self._total is not None and self.size + len(block) > self._total:
                self._refuse("wrong length", self._total, "more")
            magic = self._wanted.magic[self.size : self.size + len(block)]
            if not block.startswith(magic):
                self._refuse("wrong contents", f"a file that starts with {self._wanted.magic!r}", repr(block[:16]))
            self._keep(block)
            self._hash.update(block)
            self.size += len(block)
            self._report(self.size, self._total)
        if self._total is not None and self.size < self._total:
            raise Passing(f"the connection ended after {self.size} of {self._total} bytes")

    def _keep(self, block: bytes) -> None:
        left = memoryview(block)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            said = f"cannot be written: {error.strerror}; what is there is kept, and the same command goes on from it"
            raise DownloadError(said, subject=str(self._part)) from None

    def _past_the_end(self, response: http.client.HTTPResponse) -> None:
        """The server has nothing from here on: all is there, or the file is another by now."""
        said = re.fullmatch(r"bytes \*/(\d+)", response.headers.get("Content-Range", ""))
        if said is None or int(said[1]) != self.size or self._total not in (None, self.size):
            self._restart()
            raise Passing("the server has another file than before")
        self._total = self.size

    def _restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._hash = hashlib.sha256()
        self.size, self._validator, self._total = 0, None, None

    def _refuse(self, what: str, expected: object, found: object) -> None:
        self._restart()
        discard(self._part)
        raise DownloadError(what, subject=self._wanted.url, expected=expected, found=found)

    def _check_space(self) -> None:
        if self._total is not None:
            check_space(self._part.parent, self._total - self.size)

    def _remembered(self) -> tuple[str | None, int | None]:
        """The validator and the length of what the part is part of; nothing if that is something else."""
        try:
            about = json.loads(state(self._part).read_text(encoding="utf-8"))
            validator, total = about["validator"], about["total"]
            known = about["url"] == self._wanted.url
        except (OSError, ValueError, KeyError, TypeError):
            return None, None
        if not known or not isinstance(validator, str | None) or not isinstance(total, int | None):
            return None, None
        return validator, total


def check_space(folder: Path, needed: int) -> None:
    """Raises DownloadError unless the folder's disk has that many bytes, and some to spare."""
    free = shutil.disk_usage(folder).free
    if needed + _SPARE > free:
        raise DownloadError("not enough space on the disk", subject=str(folder), expected=f"{needed + _SPARE} bytes",
                            found=f"{free} bytes")  # fmt: skip


def _content_range(text: str | None) -> tuple[int, int | None]:
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", text or "")
    if found is None:
        return -1, None
    return int(found[1]), None if found[3] == "*" else int(found[3])


@contextmanager
def _locked(part: Path) -> Iterator[FileIO]:
    """The part, for this process alone. Without a buffer, whose rest would be written once more after a failure."""
    with part.open("a+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DownloadError("another process is fetching it", subject=str(part)) from None
        file.seek(0)
        yield file
