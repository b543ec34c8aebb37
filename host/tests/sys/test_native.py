"""The owners of native handles, over a tiny real model."""

from __future__ import annotations

import gc
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from ds4.errors import Cancelled, EngineError
from ds4.sys.descriptors import Backend, GgmlType, ModelDesc, Numeric, SamplerDesc, SessionDesc, Slot
from ds4.sys.native import NativeModel, NativeSession, Row
from support import tiny_model

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

DESC = SessionDesc(
    n_banks=3, n_ctx=64, max_rows=16, max_out=8, n_threads=1, numeric=Numeric.FLOAT, kv_type=GgmlType.F32
)


@pytest.fixture(scope="module")
def desc(tmp_path_factory: pytest.TempPathFactory) -> ModelDesc:
    return tiny_model.write(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model(desc: ModelDesc) -> Iterator[NativeModel]:
    opened = NativeModel.open(desc)
    yield opened
    opened.close()


@pytest.fixture
def session(model: NativeModel) -> Iterator[NativeSession]:
    opened = NativeSession(model, DESC)
    yield opened
    opened.close()


def feed(session: NativeSession, tokens: list[int], bank: int = 0) -> int:
    """Evaluates the tokens at the bank's end and returns what is drawn after them."""
    start = session.length(bank)
    rows = [Row(bank, start + i, token, output=i == len(tokens) - 1) for i, token in enumerate(tokens)]
    return session.wait(session.submit(rows)).tokens[-1]


def test_the_slots_are_those_of_the_plan(desc: ModelDesc, model: NativeModel) -> None:
    assert model.slots() == list(desc.slots)
    assert 0 < model.active_bytes <= sum(slot.nbytes for slot in desc.slots)


def test_a_plan_that_is_not_the_files_is_refused(desc: ModelDesc) -> None:
    slot = desc.slots[0]
    wrong = ModelDesc(desc.hparams, desc.shards, (_moved(slot, 64), *desc.slots[1:]))
    with pytest.raises(EngineError) as caught:
        NativeModel.open(wrong)
    assert caught.value.code in ("engine_mismatch", "engine_format")
    with pytest.raises(EngineError) as caught:
        NativeModel.check(ModelDesc(desc.hparams, desc.shards, desc.slots[1:]))
    assert caught.value.code in ("engine_argument", "engine_mismatch")
    with pytest.raises(EngineError) as caught:
        NativeModel.open(ModelDesc(desc.hparams, (desc.shards[0] + ".absent",), desc.slots))
    assert caught.value.code == "engine_io"


def _moved(slot: Slot, by: int) -> Slot:
    values = {name: getattr(slot, name) for name in slot.__dataclass_fields__}
    return Slot(**{**values, "offset": slot.offset + by})


def test_warming_reports_bytes_and_stops_on_request(model: NativeModel) -> None:
    seen: list[tuple[int, int]] = []
    model.warm(lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] > 0
    model.warm()
    with pytest.raises(Cancelled):
        model.warm(lambda done, total: True)


def test_an_exception_of_the_progress_callback_comes_out(model: NativeModel) -> None:
    def broken(done: int, total: int) -> bool:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        model.warm(broken)


def test_decoding_by_reference_to_the_step_before_equals_decoding_by_token(session: NativeSession) -> None:
    prompt = list(tiny_model.ids(5))
    first = feed(session, prompt)
    drawn = [first]
    for position in range(5, 12):
        drawn.append(session.wait(session.submit([Row(0, position, drawn[-1], output=True)])).tokens[0])
    rows = [Row(1, i, token, output=i == 4) for i, token in enumerate(prompt)]
    tickets = [session.submit(rows), session.submit([Row(1, 5, -1, 4, output=True)])]
    piped = [session.wait(tickets.pop(0)).tokens[4]]
    for position in range(6, 12):
        tickets.append(session.submit([Row(1, position, -1, 0, output=True)]))
        piped.append(session.wait(tickets.pop(0)).tokens[0])
    piped.append(session.wait(tickets.pop(0)).tokens[0])
    assert piped == drawn


def test_rows_without_output_draw_nothing(session: NativeSession) -> None:
    result = session.wait(session.submit([Row(0, 0, 1), Row(0, 1, 2, output=True), Row(1, 0, 3)]))
    assert [token >= 0 for token in result.tokens] == [False, True, False]
    assert result.elapsed_ns > 0
    with pytest.raises(EngineError, match="no output"):
        result.logprob(0)


def test_top_and_logits_agree(session: NativeSession) -> None:
    row = Row(0, 0, 1, output=True, logits=True, top=5)
    result = session.wait(session.submit([row]))
    logits = np.asarray(result.logits(0), dtype=np.float64)
    assert logits.shape == (tiny_model.HPARAMS.n_vocab,)
    reference = logits - np.log(np.exp(logits).sum())
    order = np.argsort(-reference, kind="stable")[:5]
    top = result.top(0)
    assert [token for token, _ in top] == order.tolist()
    assert np.allclose([value for _, value in top], reference[order], atol=1e-5)
    assert result.tokens[0] == order[0]
    assert abs(result.logprob(0) - reference[order[0]]) < 1e-5
    assert result.top(0, 2) == top[:2]


def test_a_result_that_native_has_reused_refuses_to_be_read(session: NativeSession) -> None:
    result = session.wait(session.submit([Row(0, 0, 1, output=True, top=1)]))
    session.wait(session.submit([Row(0, 1, 1, output=True, top=1)]))
    kept = result.top(0)
    session.wait(session.submit([Row(0, 2, 1, output=True, top=1)]))
    for read in (result.logprob, result.top, result.logits):
        with pytest.raises(EngineError, match="gone"):
            read(0)
    assert len(kept) == 1 and len(result.tokens) == 1


def test_logits_are_a_copy_that_outlives_the_session(model: NativeModel) -> None:
    session = NativeSession(model, DESC)
    logits = session.wait(session.submit([Row(0, 0, 1, logits=True)])).logits(0)
    before = logits.tolist()
    session.close()
    assert logits.tolist() == before


def test_two_steps_may_be_open_and_a_third_is_refused(session: NativeSession) -> None:
    tickets = [session.submit([Row(bank, 0, 1, output=True)]) for bank in (0, 1)]
    with pytest.raises(EngineError) as caught:
        session.submit([Row(2, 0, 1, output=True)])
    assert caught.value.code == "engine_busy"
    for ticket in tickets:
        session.wait(ticket)
    with pytest.raises(EngineError, match="not open"):
        session.wait(tickets[0])


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([Row(3, 0, 1)], "engine_argument"),
        ([Row(0, 1, 1)], "engine_argument"),
        ([Row(0, 0, 16)], "engine_argument"),
        ([Row(0, 0, -1, 0)], "engine_argument"),
        ([Row(0, 0, 2**31)], "engine_argument"),
        ([Row(0, 0, 1, output=True, top=65)], "engine_argument"),
        ([Row(0, i, 1) for i in range(17)], "engine_argument"),
        ([], "engine_argument"),
    ],
)
def test_rows_that_make_no_sense_are_refused_and_leave_the_banks_alone(
    session: NativeSession, rows: list[Row], code: str
) -> None:
    with pytest.raises(EngineError) as caught:
        session.submit(rows)
    assert caught.value.code == code
    assert session.length(0) == 0
    assert feed(session, [1, 2]) >= 0


def test_a_row_past_the_context_is_its_own_error(session: NativeSession) -> None:
    for _ in range(4):
        feed(session, [1] * 16)
    with pytest.raises(EngineError) as caught:
        session.submit([Row(0, 64, 1)])
    assert caught.value.code == "engine_context"


def test_truncate_copy_and_snapshot_give_the_same_continuation(session: NativeSession) -> None:
    prompt = list(tiny_model.ids(8))
    feed(session, prompt)
    with session_snapshot(session) as snapshot:
        expected = feed(session, [3])
        session.truncate(0, 8)
        assert feed(session, [3]) == expected
        session.copy(0, 1, 8)
        assert session.length(1) == 8
        assert feed(session, [3], bank=1) == expected
        assert session.restore(2, snapshot.value) == 8
        assert feed(session, [3], bank=2) == expected
        session.truncate(2, 0)
        assert session.restore(2, bytes(snapshot.value)) == 8
        assert feed(session, [3], bank=2) == expected


class session_snapshot:
    def __init__(self, session: NativeSession) -> None:
        self.value = session.snapshot(0)

    def __enter__(self) -> session_snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.value.close()
        self.value.close()


def test_a_view_of_a_snapshot_outlives_it(session: NativeSession) -> None:
    feed(session, [1, 2, 3])
    snapshot = session.snapshot(0)
    view, data = snapshot.view(), bytes(snapshot)
    assert len(snapshot) == len(data) and snapshot.length == 3
    snapshot.close()
    del snapshot
    gc.collect()
    assert bytes(view) == data
    assert view.readonly


def test_a_closed_snapshot_refuses_to_be_used(session: NativeSession) -> None:
    feed(session, [1])
    snapshot = session.snapshot(0)
    snapshot.close()
    uses: list[Callable[[], object]] = [snapshot.view, lambda: bytes(snapshot), lambda: session.restore(1, snapshot)]
    for use in uses:
        with pytest.raises(EngineError, match="closed"):
            use()


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:8], lambda b: b"", lambda b: _flipped(b, len(b) // 2)]
)
def test_a_damaged_snapshot_is_refused_before_the_bank_is_touched(session: NativeSession, damage: object) -> None:
    feed(session, [1, 2, 3])
    data = bytes(session.snapshot(0))
    assert callable(damage)
    with pytest.raises(EngineError) as caught:
        session.restore(0, damage(data))
    assert caught.value.code in ("engine_format", "engine_argument")
    assert session.length(0) == 3


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_mask_allows_only_what_it_says(session: NativeSession) -> None:
    session.set_mask(0, struct.pack("<I", 1 << 9))
    assert feed(session, [1, 2]) == 9
    session.set_mask(0, None)
    session.truncate(0, 0)
    free = feed(session, [1, 2])
    session.set_mask(0, struct.pack("<I", 0xFFFF & ~(1 << free)))
    session.truncate(0, 0)
    assert feed(session, [1, 2]) != free
    for wrong in (b"\xff", b"\0\0\0\0", b""):
        with pytest.raises(EngineError):
            session.set_mask(0, wrong)


def test_a_bias_moves_the_draw(session: NativeSession) -> None:
    session.set_sampler(0, SamplerDesc(bias=((5, 100.0),)))
    assert feed(session, [1, 2]) == 5
    with pytest.raises(EngineError):
        session.set_sampler(0, SamplerDesc(temperature=-1.0))
    with pytest.raises(EngineError):
        session.set_sampler(0, SamplerDesc(bias=((16, 1.0),)))


def test_everything_on_a_closed_session_is_a_typed_error(model: NativeModel) -> None:
    session = NativeSession(model, DESC)
    result = session.wait(session.submit([Row(0, 0, 1, output=True, top=1)]))
    session.close()
    session.close()
    session.cancel()
    uses: list[Callable[[], object]] = [
        lambda: session.submit([Row(0, 0, 1)]),
        lambda: session.wait(1),
        lambda: session.length(0),
        lambda: session.truncate(0, 0),
        lambda: session.copy(0, 1, 0),
        lambda: session.snapshot(0),
        lambda: session.restore(0, b""),
        lambda: session.set_sampler(0, SamplerDesc()),
        lambda: session.set_mask(0, None),
        lambda: result.top(0),
    ]
    for use in uses:
        with pytest.raises(EngineError, match="closed"):
            use()


def test_a_session_keeps_its_model_alive(desc: ModelDesc) -> None:
    opened = NativeModel.open(desc)
    session = NativeSession(opened, DESC)
    opened.close()
    opened.close()
    with pytest.raises(EngineError, match="closed"):
        opened.slots()
    with pytest.raises(EngineError, match="closed"):
        NativeSession(opened, DESC)
    del opened
    gc.collect()
    assert feed(session, [1, 2]) >= 0
    session.close()


def test_forgotten_handles_in_a_cycle_are_freed_in_the_right_order(desc: ModelDesc) -> None:
    for _ in range(3):
        opened = NativeModel.open(desc)
        session = NativeSession(opened, DESC)
        ring: list[object] = [opened, session, session.submit([Row(0, 0, 1)])]
        ring.append(ring)
        del opened, session, ring
        gc.collect()


def test_a_session_that_cannot_be_made_is_a_typed_error(model: NativeModel) -> None:
    for wrong in ({"n_banks": 0}, {"n_ctx": 0}, {"max_out": 1}, {"n_threads": 0}, {"kv_type": GgmlType.Q4_0}):
        values = {name: getattr(DESC, name) for name in DESC.__dataclass_fields__}
        with pytest.raises(EngineError):
            NativeSession(model, SessionDesc(**{**values, **wrong}))


def test_cancel_from_another_thread_leaves_the_bank_as_it_was(model: NativeModel) -> None:
    session = NativeSession(model, DESC)
    feed(session, [1, 2, 3])
    outcomes = set()
    for _ in range(50):
        ticket = session.submit([Row(0, 3 + i, 1, output=i == 15) for i in range(16)])
        thread = threading.Thread(target=session.cancel)
        thread.start()
        try:
            session.wait(ticket)
            outcomes.add("done")
            session.truncate(0, 3)
        except Cancelled:
            outcomes.add("cancelled")
        thread.join()
        assert session.length(0) == 3
    assert outcomes <= {"done", "cancelled"}
    assert feed(session, [4]) >= 0
    session.close()


def test_a_forked_child_may_end_without_touching_its_parents_handles(desc: ModelDesc) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from support import tiny_model\n"
        "from ds4.sys.native import *\n"
        "from ds4.sys.descriptors import *\n"
        "model = NativeModel.open(tiny_model.write(Path(sys.argv[1])))\n"
        "session = NativeSession(model, SessionDesc(1, 16, 8, 1, 2))\n"
        "session.wait(session.submit([Row(0, 0, 1, output=True)]))\n"
        "snapshot = session.snapshot(0)\n"
        "child = os.fork()\n"
        "if child:\n"
        "    done = os.waitpid(child, 0)[1]\n"
        "    assert session.wait(session.submit([Row(0, 1, 1, output=True)])).tokens[0] >= 0\n"
        "    sys.exit(os.waitstatus_to_exitcode(done))\n"
    )
    folder = Path(desc.shards[0]).parent / "fork"
    folder.mkdir()
    command = [sys.executable, "-c", code, str(folder)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    library = os.path.abspath(os.environ["DS4_LIBRARY"])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path, "DS4_LIBRARY": library}, timeout=60)
    assert done.returncode == 0


@pytest.mark.parametrize("backend", list(Backend))
def test_every_backend_runs_a_step(model: NativeModel, backend: Backend) -> None:
    session = NativeSession(model, SessionDesc(1, 32, 8, 1, 1, backend=backend))
    assert 0 <= feed(session, [1, 2, 3]) < tiny_model.HPARAMS.n_vocab
    session.close()
