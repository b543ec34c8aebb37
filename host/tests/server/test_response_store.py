"""The store of responses: what it keeps, what it lets go first, and what a killed process leaves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ds4.errors import SettingsError
from ds4.server.errors import ApiError
from ds4.server.response_store import FILE, Missing, ResponseStore, Stored, StoreLimits

HOST = Path(__file__).parents[2]
run = asyncio.run


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def stored(name: str, previous: str | None = None, status: str = "completed", text: str = "") -> Stored:
    item = {"type": "message", "role": "user", "id": f"in_{name}", "text": text}
    made = {"type": "message", "role": "assistant", "id": f"out_{name}"}
    return Stored(name, previous, {"id": name, "status": status, "background": False}, [item], [made])


def ids(items: list[dict[str, Any]]) -> list[str]:
    return [item["id"] for item in items]


def has(store: ResponseStore, name: str) -> bool:
    try:
        run(store.get(name))
    except Missing:
        return False
    return True


@pytest.fixture(params=["file", "memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    stores = []

    def opens(clock: Callable[[], float] = time.time, **limits: Any) -> ResponseStore:
        directory = tmp_path / "state" if request.param == "file" else None
        stores.append(ResponseStore(directory, StoreLimits(**limits), clock))
        return stores[-1]

    yield opens
    for store in stores:
        store.close()


def test_a_response_comes_back_as_it_was_put_and_last_put(opened: Any) -> None:
    store = opened()
    begun = stored("a", status="in_progress", text="é😀")
    begun.output.clear()
    run(store.put(begun))
    assert run(store.get("a")) == begun and begun.running
    run(store.put(stored("a", text="é😀")))
    back = run(store.get("a"))
    assert back == stored("a", text="é😀") and not back.running
    assert back.response["output"] == back.output


def test_a_conversation_is_all_that_its_responses_took_and_made(opened: Any) -> None:
    store = opened()
    for name, previous in (("a", None), ("b", "a"), ("c", "b"), ("other", "a")):
        run(store.put(stored(name, previous)))
    assert ids(run(store.conversation("c"))) == ["in_a", "out_a", "in_b", "out_b", "in_c", "out_c"]


def test_what_is_deleted_is_missing_by_its_name(opened: Any) -> None:
    store = opened()
    run(store.put(stored("a")))
    run(store.put(stored("b", "a")))
    run(store.delete("a"))
    with pytest.raises(Missing) as caught:
        run(store.conversation("b"))
    assert caught.value.id == "a"
    for method in (store.get, store.delete, store.conversation):
        with pytest.raises(Missing):
            run(method("a"))
    assert run(store.find(["in_a", "out_b"])) == {"out_b": stored("b").output[0]}


def test_an_item_is_found_as_it_was_last(opened: Any) -> None:
    store = opened()
    run(store.put(stored("a", text="1")))
    again = stored("b", text="2")
    again.input[0]["id"] = "in_a"
    run(store.put(again))
    assert run(store.find(["in_a", "nothing"])) == {"in_a": again.input[0]}


def test_beyond_the_count_the_least_used_goes_first(opened: Any) -> None:
    clock = Clock()
    store = opened(clock, count=3)
    for name, previous in (("a", None), ("b", "a"), ("c", None)):
        clock.now += 1
        run(store.put(stored(name, previous)))
    clock.now += 1
    run(store.conversation("b"))  # builds on a, which is used with it
    run(store.put(stored("d")))
    assert [has(store, name) for name in "abcd"] == [True, True, False, True]


def test_beyond_the_bytes_the_oldest_goes_and_what_is_too_large_is_not_kept(opened: Any) -> None:
    store = opened(size=2000)
    assert run(store.put(stored("a", text="x" * 1000)))
    assert run(store.put(stored("b", text="x" * 1000)))
    assert not has(store, "a") and has(store, "b")
    assert not run(store.put(stored("c", text="x" * 3000)))
    assert not has(store, "c")


def test_a_response_ends_with_its_time_unless_it_is_built_upon(opened: Any) -> None:
    clock = Clock()
    store = opened(clock, ttl=10)
    run(store.put(stored("a")))
    run(store.put(stored("b")))
    clock.now += 8
    run(store.conversation("a"))
    clock.now += 8
    assert has(store, "a") and not has(store, "b")
    assert run(store.find(["in_a", "in_b"])).keys() == {"in_a"}


def test_it_outlives_the_process_and_what_ran_has_failed(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path)
    run(store.put(stored("a")))
    run(store.put(stored("b", "a", status="in_progress")))
    store.close()
    again = ResponseStore(tmp_path)
    assert run(again.get("a")) == stored("a")
    ended = run(again.get("b"))
    assert ended.body["status"] == "failed" and ended.body["error"]["code"] == "server_error"
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0, "conversations are nobody else's"
    again.close()


def test_two_servers_do_not_share_a_directory(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path)
    with pytest.raises(SettingsError, match="in use by another server"):
        ResponseStore(tmp_path)
    store.close()
    ResponseStore(tmp_path).close()


def test_a_file_that_is_none_of_ours_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(SettingsError, match=FILE):
        ResponseStore(tmp_path)
    (tmp_path / FILE).unlink()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(SettingsError, match=r"expected layout 2, found layout 7"):
        ResponseStore(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SettingsError, match="cannot keep responses"):
        ResponseStore(file)


_FIRST_LAYOUT = """
CREATE TABLE responses (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, previous TEXT, running INTEGER NOT NULL,
    touched REAL NOT NULL, taken INTEGER NOT NULL, size INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX responses_touched ON responses (touched, number);
CREATE TABLE items (response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    position INTEGER NOT NULL, produced INTEGER NOT NULL, id TEXT, body TEXT NOT NULL,
    PRIMARY KEY (response, position)) WITHOUT ROWID;
CREATE INDEX items_id ON items (id);
INSERT INTO responses VALUES (1, 'old', NULL, 0, 4e9, 20, 60, '{"id": "old", "status": "completed"}');
INSERT INTO items VALUES (1, 0, 0, 'asked', '{"id": "asked"}'), (1, 1, 1, 'made', '{"id": "made"}');
PRAGMA user_version = 1;
"""


def test_a_file_of_the_layout_that_knew_no_owners_goes_on(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as db:
        db.executescript(_FIRST_LAYOUT)
    db.close()
    for _ in range(2):  # the second time it is of the present layout
        store = ResponseStore(tmp_path)
        old = run(store.get("old", "anybody"))
        assert (old.owner, old.input, old.output) == ("", [{"id": "asked"}], [{"id": "made"}])
        assert run(store.put(replace(stored("new", "old"), owner="one")))
        assert [item["id"] for item in run(store.conversation("new", "one"))][:2] == ["asked", "made"]
        with pytest.raises(Missing):
            run(store.conversation("new", "two"))
        store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)


def test_what_one_owner_keeps_is_not_there_for_another() -> None:
    store = ResponseStore()
    run(store.put(replace(stored("a"), owner="one")))
    (item,) = run(store.get("a", "one")).input
    for owner in ("two", ""):
        for call in (store.get, store.delete, store.conversation):
            with pytest.raises(Missing):
                run(call("a", owner))
        assert run(store.find([item["id"]], owner)) == {}
    assert run(store.find([item["id"]], "one")) == {item["id"]: item}
    run(store.put(replace(stored("b", "a"), owner="two")))  # by whatever way: it leads to nothing of another's
    with pytest.raises(Missing):
        run(store.conversation("b", "two"))
    run(store.delete("a", "one"))
    store.close()


def test_a_store_that_is_closed_takes_nothing(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path)
    store.close()
    with pytest.raises(ApiError, match="shutting down"):
        run(store.put(stored("a")))


def test_a_store_that_fails_is_an_error_of_the_server(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path)
    store._thread.submit(store._db.execute, "DROP TABLE items").result()
    with pytest.raises(ApiError, match="response store failed") as caught:
        run(store.put(stored("a")))
    assert caught.value.status == 500
    store.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from ds4.server.response_store import ResponseStore, Stored
store = ResponseStore(Path(sys.argv[1]))
async def main():
    previous = None
    for n in range(100000):
        name = f"r{n}"
        for status in ("in_progress", "completed"):
            await store.put(Stored(name, previous, {"status": status}, [{"id": f"i{n}", "text": "x" * 500}], []))
        previous = name
        print(name, flush=True)
asyncio.run(main())
"""


def test_a_kill_at_any_moment_leaves_all_that_was_acknowledged(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HOST), *sys.path])}
    for kills in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / str(kills))], stdout=subprocess.PIPE, text=True, env=env
        ) as process:
            assert process.stdout is not None
            acknowledged = [process.stdout.readline().strip() for _ in range(5 + 17 * kills)]
            process.send_signal(signal.SIGKILL)
        store = ResponseStore(tmp_path / str(kills))
        assert ids(run(store.conversation(acknowledged[-1]))) == [f"i{n}" for n in range(len(acknowledged))]
        store.close()
        with contextlib.closing(sqlite3.connect(tmp_path / str(kills) / FILE)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def filled(store: ResponseStore, pages: int) -> None:
    """The disk has room for so many pages and no more."""
    store._thread.submit(store._db.execute, f"PRAGMA max_page_count = {pages}").result()


def test_a_full_disk_loses_nothing_that_is_kept_and_is_over_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = ResponseStore(tmp_path)
    run(store.put(stored("before")))
    filled(store, 1)  # SQLite takes what there is already
    for _ in range(3):
        with pytest.raises(ApiError, match="full") as caught:
            run(store.put(stored("lost", text="x" * 100_000)))
        assert (caught.value.status, caught.value.code) == (500, "response_store")
        assert has(store, "before") and not has(store, "lost")
    filled(store, 1 << 20)
    run(store.put(stored("after", "before", text="x" * 100_000)))
    assert ids(run(store.conversation("after")))[0] == "in_before"
    store.close()


def test_a_commit_that_fails_is_undone(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path)

    def violate() -> None:
        with store._change():
            store._db.execute("PRAGMA defer_foreign_keys = ON")
            store._db.execute("INSERT INTO items VALUES (12345, 0, 0, 'orphan', '{}')")

    with pytest.raises(sqlite3.IntegrityError):
        store._thread.submit(violate).result()
    run(store.put(stored("a")))
    assert has(store, "a")
    store.close()
