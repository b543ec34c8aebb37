"""Responses that outlive their request: what `previous_response_id`, retrieving and deleting work on.

A database in the state directory, or in memory without one; the same statements either way. Every change is one
transaction in a write-ahead log, so a process that is killed at any moment leaves the last whole state. One thread owns
the connection: the event loop never waits for a disk.

Bounds: responses, bytes and age since last use. Beyond them the least recently used go first; continuing a response
uses all that it builds on.

Each response has an owner, the name of the key that made it; to others it is not there. What was made without a key, or
by a layout that knew none, is there for whoever has its id.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ds4.errors import SettingsError
from ds4.server.errors import ApiError, shed

log = logging.getLogger("ds4.server")

T = TypeVar("T")
Item = dict[str, Any]

FILE = "responses.sqlite3"
_VERSION = 2
_SCHEMA = """
CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL DEFAULT '',
    previous TEXT,
    running INTEGER NOT NULL,
    touched REAL NOT NULL,
    taken INTEGER NOT NULL,
    size INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX responses_touched ON responses (touched, number);
CREATE TABLE items (
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    produced INTEGER NOT NULL,
    id TEXT,
    body TEXT NOT NULL,
    PRIMARY KEY (response, position)
) WITHOUT ROWID;
CREATE INDEX items_id ON items (id);
"""
_SINCE = {1: "ALTER TABLE responses ADD COLUMN owner TEXT NOT NULL DEFAULT ''"}
"""What makes the next layout of one."""
_INTERRUPTED = {"code": "server_error", "message": "The server ended before this response did."}


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """count: responses; size: bytes of JSON; ttl: seconds since a response was made or built upon."""

    count: int = 4096
    size: int = 256 << 20
    ttl: float = 30 * 86400.0


@dataclass(slots=True)
class Stored:
    """body: the response without its output; input: the items of its own request; output: the items it made; owner: as
    ds4.server.ops.keys names whoever asked for it, empty without keys."""

    id: str
    previous: str | None
    body: dict[str, Any]
    input: list[Item] = field(default_factory=list)
    output: list[Item] = field(default_factory=list)
    owner: str = ""

    @property
    def running(self) -> bool:
        return self.body.get("status") in ("queued", "in_progress")

    @property
    def response(self) -> dict[str, Any]:
        return {**self.body, "output": self.output}


class Missing(Exception):
    """A response that is not, or no longer, stored."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id


class ResponseStore:
    """directory: where the file is; None: nothing is kept beyond the process. Its methods belong to the event loop."""

    def __init__(
        self, directory: Path | None = None, limits: StoreLimits | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._limits, self._clock = limits or StoreLimits(), clock
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ds4-store")
        try:
            self._db: sqlite3.Connection = self._thread.submit(self._open, directory).result()
        except BaseException:
            self._thread.shutdown()
            raise

    # ---- what the surface does -------------------------------------------------------------------------------------

    async def put(self, stored: Stored) -> bool:
        """Keeps a response in its present state, in place of an earlier one; its input stays what it was first. False:
        it is larger than all bounds."""
        return await self._run(lambda: self._put(stored))

    async def get(self, id: str, owner: str = "") -> Stored:
        """Raises Missing, here and below also for what is another owner's."""
        return await self._run(lambda: self._get(id, owner))

    async def delete(self, id: str, owner: str = "") -> None:
        """Raises Missing."""
        await self._run(lambda: self._delete(id, owner))

    async def conversation(self, id: str, owner: str = "") -> list[Item]:
        """All items up to a response's last, from the beginning of its conversation. Raises Missing, also for one that
        it builds on."""
        return await self._run(lambda: self._conversation(id, owner))

    async def find(self, ids: Iterable[str], owner: str = "") -> dict[str, Item]:
        """Items by their ids, as they were last; those that are not there are left out."""
        wanted = list(ids)
        return await self._run(lambda: self._find(wanted, owner))

    def close(self) -> None:
        """Waits for what is being written; what comes later is refused."""
        self._closed = True
        self._thread.submit(lambda: self._db.close()).result()
        self._thread.shutdown()

    async def _run(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise shed("stopping")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            log.error("the response store failed: %s", error)
            raise ApiError(500, f"The response store failed: {error}.", code="response_store") from error

    # ---- on the store's thread -------------------------------------------------------------------------------------

    def _open(self, directory: Path | None) -> sqlite3.Connection:
        if directory is None:
            return self._prepared(sqlite3.connect(":memory:", isolation_level=None))
        path = directory / FILE
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            db = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        except (OSError, sqlite3.Error) as error:
            why = getattr(error, "strerror", None) or error
            if directory.exists() and not directory.is_dir():
                why = "that is no folder"
            raise SettingsError(f"cannot keep responses: {why}", subject=f"--state-dir {directory}") from None
        try:
            return self._prepared(db, str(path))
        except sqlite3.Error as error:
            db.close()
            raise SettingsError(_why(error), subject=str(path)) from None
        except SettingsError:
            db.close()
            raise

    def _prepared(self, db: sqlite3.Connection, subject: str = "responses") -> sqlite3.Connection:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")  # two servers on one directory would prune each other's
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, *_SINCE, _VERSION):
            raise SettingsError(
                "was written by another version of this program",
                subject=subject,
                expected=f"layout {_VERSION}",
                found=f"layout {version}",
            )
        self._db = db
        if version == 0:
            with self._change():
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
        elif version < _VERSION:
            with self._change():
                for old in range(version, _VERSION):
                    db.execute(_SINCE[old])
                db.execute(f"PRAGMA user_version = {_VERSION}")
        with self._change():
            self._end_interrupted()
            self._prune()
        return db

    def _change(self) -> AbstractContextManager[None]:
        return _Transaction(self._db)

    def _end_interrupted(self) -> None:
        """What was running when the last process ended will not go on."""
        rows = self._db.execute("SELECT number, body FROM responses WHERE running").fetchall()
        for number, body in rows:
            ended = {**json.loads(body), "status": "failed", "error": _INTERRUPTED}
            self._db.execute("UPDATE responses SET running = 0, body = ? WHERE number = ?", (_dump(ended), number))

    def _put(self, stored: Stored) -> bool:
        body, made = _dump(stored.body), list(map(_dump, stored.output))
        with self._change():
            known = self._db.execute("SELECT number, taken FROM responses WHERE id = ?", (stored.id,)).fetchone()
            number, taken = known or self._insert(stored)
            self._db.execute(
                "UPDATE responses SET running = ?, touched = ?, size = ?, body = ? WHERE number = ?",
                (stored.running, self._clock(), taken + sum(map(_size, [body, *made])), body, number),
            )
            self._db.execute("DELETE FROM items WHERE response = ? AND produced", (number,))
            self._add(number, 1, len(stored.input), stored.output, made)
            self._prune()
            return self._number(stored.id, stored.owner) is not None

    def _insert(self, stored: Stored) -> tuple[int, int]:
        """A new row, and what never changes of it: the input, which may be large. Its number, and the input's bytes."""
        texts = list(map(_dump, stored.input))
        taken = sum(map(_size, texts))
        number = self._db.execute(
            "INSERT INTO responses (id, owner, previous, running, touched, taken, size, body) "
            "VALUES (?, ?, ?, 0, 0, ?, 0, '')",
            (stored.id, stored.owner, stored.previous, taken),
        ).lastrowid
        assert number is not None
        self._add(number, 0, 0, stored.input, texts)
        return number, taken

    def _add(self, number: int, produced: int, first: int, items: list[Item], texts: list[str]) -> None:
        rows = [
            (number, first + at, produced, item.get("id"), text)
            for at, (item, text) in enumerate(zip(items, texts, strict=True))
        ]
        self._db.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", rows)

    def _prune(self) -> None:
        self._db.execute("DELETE FROM responses WHERE touched < ?", (self._clock() - self._limits.ttl,))
        count, size = self._db.execute("SELECT count(*), coalesce(sum(size), 0) FROM responses").fetchone()
        if count <= self._limits.count and size <= self._limits.size:
            return
        oldest = self._db.execute("SELECT number, size FROM responses ORDER BY touched, number").fetchall()
        for number, freed in oldest:
            if count <= self._limits.count and size <= self._limits.size:
                return
            self._db.execute("DELETE FROM responses WHERE number = ?", (number,))
            count, size = count - 1, size - freed

    def _number(self, id: str, owner: str) -> int | None:
        row = self._db.execute(
            "SELECT number FROM responses WHERE id = ? AND owner IN ('', ?) AND touched >= ?",
            (id, owner, self._clock() - self._limits.ttl),
        ).fetchone()
        return None if row is None else int(row[0])

    def _get(self, id: str, owner: str) -> Stored:
        if (number := self._number(id, owner)) is None:
            raise Missing(id)
        previous, body, owner = self._db.execute(
            "SELECT previous, body, owner FROM responses WHERE number = ?", (number,)
        ).fetchone()
        rows = self._db.execute("SELECT produced, body FROM items WHERE response = ? ORDER BY position", (number,))
        stored = Stored(id, previous, json.loads(body), owner=owner)
        for produced, text in rows:
            (stored.output if produced else stored.input).append(json.loads(text))
        return stored

    def _delete(self, id: str, owner: str) -> None:
        with self._change():
            if self._number(id, owner) is None:
                raise Missing(id)
            self._db.execute("DELETE FROM responses WHERE id = ?", (id,))

    def _conversation(self, id: str, owner: str) -> list[Item]:
        numbers: list[int] = []
        at: str | None = id
        with self._change():
            while at is not None:
                if (number := self._number(at, owner)) is None:
                    raise Missing(at)
                numbers.append(number)
                (at,) = self._db.execute("SELECT previous FROM responses WHERE number = ?", (number,)).fetchone()
            now = self._clock()
            self._db.executemany("UPDATE responses SET touched = ? WHERE number = ?", [(now, n) for n in numbers])
        items: list[Item] = []
        for number in reversed(numbers):
            rows = self._db.execute("SELECT body FROM items WHERE response = ? ORDER BY position", (number,))
            items += [json.loads(body) for (body,) in rows]
        return items

    def _find(self, ids: list[str], owner: str) -> dict[str, Item]:
        found = {}
        for id in ids:
            row = self._db.execute(
                "SELECT items.body FROM items JOIN responses ON number = response "
                "WHERE items.id = ? AND owner IN ('', ?) AND touched >= ? ORDER BY number DESC LIMIT 1",
                (id, owner, self._clock() - self._limits.ttl),
            ).fetchone()
            if row is not None:
                found[id] = json.loads(row[0])
        return found


class _Transaction(AbstractContextManager[None]):
    """All or nothing."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        try:
            if error is None:
                self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:  # some failures, as of a full disk, have rolled it back already
                self._db.execute("ROLLBACK")


def _why(error: sqlite3.Error) -> str:
    """Why a store cannot be opened."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "is in use by another server"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return f"is no store of responses that can be read: {error}"
    return f"cannot keep responses: {error}"  # a full disk, one that fails, or permissions


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
