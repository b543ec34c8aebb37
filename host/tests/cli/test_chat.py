"""The chat at a terminal and in a pipe, over a fake engine whose answers never end by themselves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import environment, run
from support.fake_chat import write_model
from support.pseudo_terminal import PseudoTerminal

FAKE = "support.fake_chat"
CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "letters.gguf")


def terminal(model: Path, *argv: str) -> PseudoTerminal:
    command = [sys.executable, "-m", FAKE, "-m", str(model), *argv]
    return PseudoTerminal(command, environment(model.parent), model.parent)


@pytest.fixture
def chat(model: Path) -> Iterator[PseudoTerminal]:
    with terminal(model) as screen:
        screen.wait_for("Tiny .*context 128.*/help for help")
        screen.wait_for("ds4>")
        yield screen


def used(chat: PseudoTerminal) -> int:
    chat.send("/ctx\r")
    found = re.search(r"context 128, used (\d+)", chat.wait_for(r"used \d+"))
    assert found is not None
    chat.wait_for("ds4>")
    return int(found[1])


def test_ctrl_c_stops_the_answer_and_keeps_what_came_of_it(chat: PseudoTerminal) -> None:
    chat.send("abc\r")
    chat.wait_for(r"abc\s+[a-p]{5}")
    chat.send(CTRL_C)
    said = chat.wait_for(r"prefill 3 tok .* generated (\d+) tok")
    chat.wait_for("ds4>")
    generated = int(re.findall(r"generated (\d+) tok", said)[0])
    assert 5 <= generated < 100
    # The last token's state is computed only when something follows it.
    assert used(chat) in (3 + generated, 3 + generated - 1)
    # The next turn is answered on top of it, from where the session stands.
    chat.send("def\r")
    chat.wait_for(r"def\s+[a-p]{3}")
    chat.send(CTRL_C)
    assert int(re.findall(r"prefill (\d+) tok", chat.wait_for(r"prefill .* generated \d+ tok"))[0]) <= 4


def test_an_answer_stopped_before_its_first_text_is_taken_back(model: Path) -> None:
    with terminal(model, "--batch", "1") as chat:  # a prefill long enough to be stopped: one step a token
        chat.wait_for("ds4>")
        chat.send("abcdefghijklmnop" * 7 + "\r")
        time.sleep(0.7)
        chat.send(CTRL_C)
        chat.wait_for("generated 0 tok")
        chat.wait_for("ds4>")
        chat.send("a\r")
        # Only "a" is evaluated: the first message is no longer part of the conversation.
        chat.wait_for(r"a\s+[a-p]{3}")
        chat.send(CTRL_C)
        chat.wait_for(r"prefill 1 tok")


def test_ctrl_c_at_the_prompt_does_not_leave_and_ctrl_d_does(chat: PseudoTerminal) -> None:
    chat.send(CTRL_C)
    chat.wait_for("Ctrl-D or /quit leaves")
    chat.wait_for("ds4>")
    chat.send(CTRL_D)
    assert chat.end() == 0


@pytest.mark.parametrize("leave", ["/quit", "/exit"])
def test_a_command_leaves(chat: PseudoTerminal, leave: str) -> None:
    chat.send(leave + "\r")
    assert chat.end() == 0


def test_an_unknown_command_and_help_are_answered(chat: PseudoTerminal) -> None:
    chat.send("/bogus\r")
    chat.wait_for("unknown command /bogus; /help lists them")
    chat.wait_for("ds4>")
    chat.send("/help\r")
    chat.wait_for("Ctrl-C stops an answer and keeps what there is of it")


def test_clear_forgets_and_system_starts_anew(chat: PseudoTerminal) -> None:
    chat.send("abc\r")
    chat.wait_for(r"abc\s+[a-p]{5}")
    chat.send(CTRL_C)
    chat.wait_for("ds4>")
    chat.send("/clear\r")
    chat.wait_for("conversation forgotten")
    chat.wait_for("ds4>")
    chat.send("/system ijk\r")
    chat.wait_for("the conversation starts anew")
    chat.wait_for("ds4>")
    chat.send("d\r")
    chat.wait_for(r"d\s+[a-p]{3}")
    chat.send(CTRL_C)
    chat.wait_for("prefill 5 tok")  # p, ijk, d


def test_a_context_that_is_full_ends_the_answer_and_too_long_a_message_is_refused(chat: PseudoTerminal) -> None:
    chat.send("/ctx 32\r")
    chat.wait_for(r"context 32, used 0")
    chat.wait_for("ds4>")
    chat.send("abcd\r")
    chat.wait_for(r"generated 28 tok")
    chat.wait_for("ds4>")
    chat.send("a" * 40 + "\r")
    chat.wait_for(r"expected at most 32 tokens, found \d+")
    chat.wait_for("ds4>")
    chat.send("/ctx none\r")
    chat.wait_for("needs a number of tokens")


def test_read_sends_a_file_from_the_caller_s_folder(chat: PseudoTerminal, tmp_path: Path) -> None:
    (tmp_path / "message.txt").write_text("abcdef")
    chat.send("/read message.txt\r")
    chat.wait_for("prefill 6 tok")
    chat.wait_for("ds4>")
    chat.send("/read gone.txt\r")
    chat.wait_for("No such file or directory")


def test_messages_go_to_the_history_that_only_the_owner_reads(chat: PseudoTerminal, tmp_path: Path) -> None:
    chat.send("/ctx\r")
    chat.wait_for("used 0")
    file = tmp_path / ".ds4_history"
    assert file.read_text() == "/ctx\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_dumb_terminal_gets_plain_lines(model: Path) -> None:
    command = [sys.executable, "-m", FAKE, "-n", "3", "-m", str(model)]
    with PseudoTerminal(command, environment(model.parent), model.parent, term="dumb") as chat:
        chat.wait_for("ds4>")
        chat.send("abc\n")
        assert "\x1b" not in chat.wait_for("generated 3 tok")
        chat.wait_for("ds4>")
        chat.send(CTRL_D)
        assert chat.end() == 0


def test_a_pipe_is_a_prompt_and_figures_go_to_stderr(model: Path) -> None:
    done = run(FAKE, "-m", str(model), "-n", "5", "--temp", "0", home=model.parent, input="abc\n")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch("[a-p]{5}\n", done.stdout)
    assert re.fullmatch(r"prefill 3 tok [\d.]+ tok/s, generated 5 tok [\d.]+ tok/s\n", done.stderr)
    again = run(FAKE, "-m", str(model), "-n", "5", "-p", "abc", "-q", home=model.parent)
    assert (again.stdout, again.stderr) == (done.stdout, "")


def test_a_prompt_file_is_taken_as_it_is(model: Path) -> None:
    (model.parent / "prompt").write_text("abc")
    argv = ("-m", str(model), "-n", "5", "--temp", "0")
    from_file = run(FAKE, *argv, "--prompt-file", "prompt", home=model.parent)
    from_stdin = run(FAKE, *argv, "--prompt-file", "-", home=model.parent, input="abc")
    given = run(FAKE, *argv, "-p", "abc", home=model.parent)
    assert from_file.stdout == from_stdin.stdout == given.stdout != ""


def test_an_interactive_pipe_chats_line_by_line(model: Path) -> None:
    done = run(FAKE, "-i", "-q", "-n", "3", "-m", str(model), home=model.parent, input="a\n\n/bogus\nb\n")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch("([a-p]{3}\n){2}", done.stdout)
    assert "unknown command /bogus" in done.stderr


def test_a_prompt_longer_than_the_context_is_its_own_exit_code(model: Path) -> None:
    done = run(FAKE, "-m", str(model), "-c", "8", "-p", "abcdefghij", home=model.parent)
    assert done.returncode == 5
    assert "expected at most 8 tokens, found 10" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_stop_string_ends_the_answer_and_is_not_shown(model: Path) -> None:
    whole = run(FAKE, "-m", str(model), "-n", "20", "-p", "abc", "-q", home=model.parent).stdout
    stop = whole[6:8]
    done = run(FAKE, "-m", str(model), "-n", "20", "-p", "abc", "-q", "--stop", stop, home=model.parent)
    assert done.stdout == whole[: whole.index(stop)] + "\n"


def test_a_chat_needs_a_template_but_a_raw_prompt_does_not(tmp_path: Path) -> None:
    model = write_model(tmp_path / "base.gguf", template=None)
    done = run(FAKE, "-i", "-m", str(model), home=tmp_path)
    assert done.returncode == 1
    assert "carries no chat template" in done.stderr
    assert run(FAKE, "-m", str(model), "-p", "abc", "-n", "2", home=tmp_path).returncode == 0


def test_ctrl_c_in_a_one_shot_ends_it_with_130_and_leaves_the_text_whole(model: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", FAKE, "-m", str(model), "-p", "abc"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(model.parent),
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.read(3)
    os.kill(process.pid, signal.SIGINT)
    rest, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.fullmatch("[a-p]{3,120}\n", first + rest)
    assert "Traceback" not in said


def test_a_reader_that_leaves_in_the_middle_ends_it_quietly(model: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", FAKE, "-m", str(model), "-p", "abc"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(model.parent),
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    said = process.stderr.read().decode()
    assert process.wait(timeout=60) == 141
    assert "Traceback" not in said and "Exception ignored" not in said
