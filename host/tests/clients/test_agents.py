"""Coding agents live on the server: each says something, and each runs a command that the model asked for.

Their exit codes say little (an answer that is cut short is a success to most of them), so what counts is what the
server saw and what lies on the disk. What a command puts out is not in the command, so a result that the server was
sent has really been computed.
"""

from __future__ import annotations

import json
import platform
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import clients, embedded
from support.agents import AGENTS, WHOLE, Agent
from support.clients import Done
from support.recorded_server import Recorded
from support.recorder import Exchange
from support.script import Rule
from support.tool_model import dsml_call, hermes_call

pytestmark = [clients.needed, embedded.needs_engine]

GREETING = "Greet the reviewers."
TASK = "Write the proof into proof.txt."
GREETED = "Hello, reviewers."
WRITTEN = "The proof is written."
A, B = 1_000_003 + secrets.randbelow(10_000), 999_983
PROOF = f"proof-{A * B}"
COMMAND = f"echo proof-$(({A} * {B})) | tee proof.txt"


def greeting(agent: Agent) -> str:
    return f"{GREETING} ({agent.name})"


def task(agent: Agent) -> str:
    return f"{TASK} ({agent.name})"


def rules(call: Callable[[str, dict[str, str]], str]) -> list[Rule]:
    """The results of commands come first, for an agent may say again what it was asked."""
    made = [Rule(PROOF, WRITTEN, "It is done.")]
    for agent in (*AGENTS, WHOLE):
        # An agent whose tool knows no description does not mind.
        command = call(agent.shell, {"command": COMMAND, "description": "Write the proof"})
        made += [Rule(task(agent), command, "A command will do."), Rule(greeting(agent), GREETED, "Politely.")]
    return made


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> Agent:
    chosen: Agent = request.param
    if chosen.name.startswith("claude"):
        _needs_claude()
    return chosen


def _needs_claude() -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the package of Claude Code that is locked is for x86_64")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture(scope="module", params=["hermes", "deepseek"])
def scripted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    home = tmp_path_factory.mktemp(request.param)
    hermes = request.param == "hermes"
    with clients.hermes(home, rules(hermes_call)) if hermes else clients.deepseek(home, rules(dsml_call)) as server:
        yield server


def turn(agent: Agent, server: Recorded, folder: Path, prompt: str, tokens: int = 2000) -> tuple[Done, list[Exchange]]:
    """What an agent said at the end of a turn, and its requests, all of them for answers that it got, whole and by the
    rules."""
    before = len(server.exchanges())
    done = agent.run(folder, server.url, prompt, tokens)
    exchanges = [one for one in server.exchanges()[before:] if one.method == "POST"]
    for exchange in exchanges:
        clients.well_formed(exchange)
    assert exchanges and {one.path for one in exchanges} == {agent.path}, done
    clients.settled(server)
    return done, exchanges


def test_an_agent_talks(agent: Agent, scripted: Recorded, folder: Path) -> None:
    greeted, (first,) = turn(agent, scripted, folder, greeting(agent))
    assert first.streamed and agent.results(first) == []
    assert greeted.out.strip() == GREETED, greeted


def test_an_agent_runs_a_command_and_goes_on_where_it_was(agent: Agent, scripted: Recorded, folder: Path) -> None:
    _runs_a_command(agent, scripted, folder)


@pytest.mark.parametrize("scripted", ["hermes"], indirect=True)
def test_so_does_claude_code_with_all_of_its_prompt(scripted: Recorded, folder: Path) -> None:
    _needs_claude()
    _runs_a_command(WHOLE, scripted, folder)


@pytest.mark.parametrize("scripted", ["deepseek"], indirect=True)
def test_claude_code_understands_that_its_prompt_is_too_long(scripted: Recorded, folder: Path) -> None:
    """That model's context is half of the prompt."""
    _needs_claude()
    before = len(scripted.exchanges())
    done = WHOLE.run(folder, scripted.url, greeting(WHOLE), 64)
    refused = [one for one in scripted.exchanges()[before:] if one.method == "POST"]
    assert refused and {one.status for one in refused} == {400}
    assert "too long" in done.out, done
    clients.settled(scripted)


def _runs_a_command(agent: Agent, scripted: Recorded, folder: Path) -> None:
    written, (call, last) = turn(agent, scripted, folder, task(agent))
    assert agent.results(call) == []
    (result,) = agent.results(last)
    assert result.strip() == PROOF, "the server was told what the command put out"
    assert (folder / "proof.txt").read_text() == PROOF + "\n"
    assert written.out.strip() == WRITTEN, written

    asked_at_first, _ = tokens(call)
    asked, cached = tokens(last)
    assert asked_at_first - 1 <= cached < asked, "all of the first prompt is found again"


def tokens(exchange: Exchange) -> tuple[int, int]:
    """How long a request's prompt was, and how much of it was not computed, by the answer's own account."""
    events = [json.loads(line[6:]) for line in exchange.answer.splitlines() if line.startswith("data: {")]
    if exchange.path.endswith("/messages"):
        usage = events[0]["message"]["usage"] | events[-2].get("usage", {})
        cached = usage["cache_read_input_tokens"]
        return usage["input_tokens"] + cached + usage["cache_creation_input_tokens"], cached
    if exchange.path.endswith("/responses"):
        usage = events[-1]["response"]["usage"]
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]
    usage = events[-1]["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with clients.deepseek(tmp_path_factory.mktemp("mini"), None) as server:
        yield server


def test_an_agent_gets_along_with_a_real_model(agent: Agent, mini: Recorded, folder: Path) -> None:
    """What a miniature says to an agent's prompt is of no interest; that every request is answered by the rules is."""
    for prompt in (greeting(agent), task(agent)):
        turn(agent, mini, folder, prompt, 12)
