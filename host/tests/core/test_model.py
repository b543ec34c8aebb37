"""The public door over a real model: SmolLM2 answers as its publisher's own code does, and every way out is clean."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ds4.core.memory_plan import MemoryPlanError
from ds4.core.model import Model
from ds4.errors import Cancelled, EngineError, ModelFileError
from ds4.sys.descriptors import GgmlType, Numeric
from support import embedded
from support.embedded import needs_engine, needs_model

pytestmark = [needs_model, needs_engine]

# Greedy ids of Hugging Face transformers in fp32 over the dequantised weights, for a chat prompt (see goldens/).
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = [504, 3575, 282, 4649, 314, 7042, 30, 2]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model.open(embedded.path(), threads=1, warm=False) as opened:
        yield opened


def test_a_chat_is_answered_as_the_reference_does(model: Model) -> None:
    with model.session(256, numeric=Numeric.FLOAT, kv_type=GgmlType.F32) as session:
        generation = session.generate(QUESTION, max_tokens=20, logprobs=2)
        events = list(generation)
        assert generation.tokens == ANSWER
        assert generation.text == "".join(event.text for event in events) == "The capital of France is Paris."
        assert (generation.finish_reason, generation.prompt_tokens, generation.cached_tokens) == ("stop", 37, 0)
        assert all(event.token == event.top[0][0] and event.logprob == event.top[0][1] for event in events)
        assert generation.prefill_s > 0 and generation.decode_s > 0
        # The step that was computed past the end has left no trace, and the next turn goes on from here.
        assert len(session) == 37 + 7 == session.engine.call(session.native.length, 0)
        reply = {"role": "assistant", "content": generation.text}
        follow = session.generate([*QUESTION, reply, {"role": "user", "content": "And of Italy?"}], max_tokens=12)
        assert "Rome" in follow.run()
        assert follow.cached_tokens == 44


def test_a_snapshot_continues_bit_by_bit(model: Model) -> None:
    with model.session(128, numeric=Numeric.FLOAT) as session:
        session.sync(QUESTION)
        saved, tokens = bytes(session.snapshot()), session.tokens
        first = session.generate([*tokens, 504], max_tokens=3, logprobs=3)
        events = list(first)
    with model.session(64, numeric=Numeric.FLOAT) as other:
        other.restore(saved, tokens)
        again = other.generate([*tokens, 504], max_tokens=3, logprobs=3)
        assert list(again) == events
        assert again.cached_tokens == len(tokens)


def test_a_stop_string_over_several_tokens_is_cut_out(model: Model) -> None:
    with model.session(128, numeric=Numeric.FLOAT, kv_type=GgmlType.F32) as session:
        generation = session.generate(QUESTION, stop=["tal of Fra"])
        assert (generation.run(), generation.finish_reason) == ("The capi", "stop")


def test_identity_and_template_come_with_the_model(model: Model) -> None:
    assert model.identity.architecture == "llama"
    assert model.dialect is not None
    assert model.tokenizer.n_vocab == model.plan.hparams.n_vocab


def test_a_session_that_no_memory_could_hold_is_refused(model: Model) -> None:
    with pytest.raises(MemoryPlanError):
        model.session(1 << 30)


def test_loading_tells_its_progress_and_can_be_stopped() -> None:
    seen: list[tuple[int, int]] = []
    with Model.open(embedded.path(), threads=1, progress=lambda done, total: seen.append((done, total))) as opened:
        assert seen[-1][0] == seen[-1][1] >= opened.plan.weight_bytes // 2
    with pytest.raises(Cancelled):
        Model.open(embedded.path(), threads=1, progress=lambda done, total: True)


def test_a_file_that_is_no_model_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(ModelFileError):
        Model.open(path)
    with pytest.raises(ModelFileError):
        Model.open(tmp_path / "absent.gguf")


def test_closing_the_model_closes_its_sessions() -> None:
    opened = Model.open(embedded.path(), threads=1, warm=False)
    session = opened.session(64)
    generation = session.generate([1, 2, 3])
    next(generation)
    opened.close()
    opened.close()
    session.close()
    assert session.native.closed and generation.done
    with pytest.raises(EngineError, match="closed"):
        session.generate([1, 2, 3]).run()
    with pytest.raises(EngineError, match="closed"):
        opened.session(64)


def program(body: str) -> list[str]:
    start = "import os\nfrom ds4.core.model import Model\nm = Model.open(os.environ['M'], threads=1, warm=False)\n"
    return [sys.executable, "-c", start + "s = m.session(512)\n" + textwrap.dedent(body)]


def environment() -> dict[str, str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    library = os.path.abspath(os.environ["DS4_LIBRARY"])
    return {**os.environ, "PYTHONPATH": path, "M": str(embedded.path().absolute()), "DS4_LIBRARY": library}


def test_a_program_may_end_in_the_middle_of_an_answer() -> None:
    done = subprocess.run(program("g = s.generate([1, 2, 3])\nnext(g)"), env=environment(), timeout=60)
    assert done.returncode == 0


def test_ctrl_c_stops_the_answer_and_keeps_it_and_the_session_goes_on() -> None:
    body = """
        g = s.generate("Once upon a time", ignore_eos=True)
        try:
            for event in g:
                if len(g.tokens) == 3:
                    print("running", flush=True)
        except KeyboardInterrupt:
            g.close()  # the signal may have come while this loop's body ran
            assert g.finish_reason == "cancelled" and len(g.tokens) >= 3 and g.text
            assert s.engine.call(s.native.length, 0) == len(s) >= g.prompt_tokens
            assert s.generate("Once upon a time", max_tokens=2).run()
            print("kept", flush=True)
    """
    process = subprocess.Popen(program(body), env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "kept\n"
    assert process.wait(60) == 0
