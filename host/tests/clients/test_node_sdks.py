"""The official clients for Node, and Vercel's AI SDK, against the server: what they make of its answers.

Behind a script all that they report is known beforehand. Behind real weights the protocol is what counts; ds4-mini
does whole tool rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import clients, embedded
from support.recorded_server import Recorded
from support.script import Rule
from support.tool_model import dsml_call, hermes_call

pytestmark = [clients.needed, embedded.needs_engine]

HELLO = "Hello, wörld! 👋 How are you?"
THOUGHT = "The user greets me; I greet back."
SUNNY = "It is 21 degrees and sunny in Lisbon."
PERSON = {"name": "Ada", "age": 36}
CITY = {"city": "Lisbon"}


def rules(call: Callable[[str, dict[str, str]], str]) -> list[Rule]:
    return [
        Rule('"temperature"', SUNNY),
        Rule("weather in Lisbon", call("get_weather", CITY), "I shall ask."),
        Rule("Describe a person", '{"name": "Ada", "age": 36}', "Ada."),
        Rule("Hello!", HELLO, THOUGHT),
    ]


OPENAI = (
    *("chat_text", "chat_text_streamed", "chat_tools", "chat_tools_streamed"),
    *("responses_text", "responses_text_streamed", "responses_tools", "responses_tools_streamed", "models", "refused"),
)
ANTHROPIC = ("text", "text_streamed", "tools", "tools_streamed", "runner", "count", "refused")
AI = tuple(
    f"{surface}_{case}"
    for surface in ("chat", "messages")
    for case in ("text", "text_streamed", "tools", "tools_streamed")
)
STRUCTURED = {
    "openai": tuple(f"{s}_structured{how}" for s in ("chat", "responses") for how in ("", "_streamed")),
    "anthropic": ("structured", "structured_streamed"),
    "ai": tuple(f"{s}_structured{how}" for s in ("chat", "messages") for how in ("", "_streamed")),
}
CASES = {"openai": OPENAI, "anthropic": ANTHROPIC, "ai": AI}


class Found(NamedTuple):
    """What each script found on a server. thinks: whether the model reasons by itself."""

    server: Recorded
    thinks: bool
    results: dict[str, dict[str, Any]]

    def of(self, script: str, case: str) -> Any:
        outcome = self.results[script][case]
        assert "result" in outcome, outcome["error"]
        return outcome["result"]


def found(
    server: Recorded, folder: Path, thinks: bool, wanted: Callable[[str], bool] = lambda case: True, tokens: int = 200
) -> Found:
    """All scripts run at once, as clients do."""
    clients.lay_out(Path(__file__).parent, folder)

    def one(script: str) -> dict[str, Any]:
        cases = (*CASES[script], *STRUCTURED[script])
        return clients.run_script(script, folder, server.url, tokens, [case for case in cases if wanted(case)])

    with ThreadPoolExecutor(len(CASES)) as pool:
        return Found(server, thinks, dict(zip(CASES, pool.map(one, CASES), strict=True)))


@pytest.fixture(scope="module", params=["hermes", "deepseek"])
def scripted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "hermes":
        made = clients.hermes(folder, rules(hermes_call))
    else:
        made = clients.deepseek(folder, rules(dsml_call))
    with made as server:
        yield found(server, folder, request.param == "deepseek")


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("mini")
    with clients.deepseek(folder, None, "--numeric", "float", "-c", "2048") as server:
        yield found(server, folder, True, lambda case: "structured" not in case)


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("smollm2")
    with clients.smollm2(folder) as server:
        yield found(server, folder, False, lambda case: "text" in case, tokens=12)


def both(*cases: str) -> list[str]:
    return [case + how for case in cases for how in ("", "_streamed")]


# ---- the script's answers, to the letter ----


@pytest.mark.parametrize("case", both("chat_text"))
def test_openai_reads_a_chat(scripted: Found, case: str) -> None:
    said = scripted.of("openai", case)
    assert (said["text"], said["finish"]) == (HELLO, "stop")
    assert said["reasoning"] == (THOUGHT if scripted.thinks else "")
    assert said["id"].startswith("chatcmpl-")


def test_openai_reads_a_chat_piece_by_piece(scripted: Found) -> None:
    said, whole = scripted.of("openai", "chat_text_streamed"), scripted.of("openai", "chat_text")
    assert "".join(said["pieces"]) == HELLO and "👋" in "".join(said["pieces"])
    assert len(said["pieces"]) > 5, "it comes as it is generated"
    assert said["roles"] == ["assistant"] and said["ids"] == [said["id"]]
    assert said["last"] == 0 and said["tokens"] == whole["tokens"], "usage comes last, in a chunk without choices"


@pytest.mark.parametrize("case", both("chat_tools"))
def test_openai_runs_a_tool_in_a_chat(scripted: Found, case: str) -> None:
    said = scripted.of("openai", case)
    assert said["calls"] == [CITY] and said["text"] == SUNNY
    assert said["roles"] == ["system", "user", "assistant", "tool", "assistant"]
    (call,) = said["ids"]
    assert call.startswith("call_") and said["answered"] == [call]


@pytest.mark.parametrize("case", both("responses_text"))
def test_openai_reads_a_response(scripted: Found, case: str) -> None:
    said = scripted.of("openai", case)
    assert (said["text"], said["status"]) == (HELLO, "completed")
    assert said["items"] == (["reasoning", "message"] if scripted.thinks else ["message"])
    assert said["id"].startswith("resp_")


def test_openai_reads_the_events_of_a_response_in_their_order(scripted: Found) -> None:
    said = scripted.of("openai", "responses_text_streamed")
    assert said["numbered"] and said["tokens"] == scripted.of("openai", "responses_text")["tokens"]
    message = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
    assert said["types"][:2] == ["response.created", "response.in_progress"]
    assert said["types"][-7:] == [*message, "response.completed"]
    assert (len(said["types"]) > 9) == scripted.thinks, "what is between is the reasoning item"


@pytest.mark.parametrize("case", both("responses_tools"))
def test_openai_runs_a_tool_in_a_response(scripted: Found, case: str) -> None:
    said = scripted.of("openai", case)
    assert said["calls"] == [CITY] and said["text"] == SUNNY
    assert said["first"]["items"][-1] == "function_call" and said["first"]["text"] == ""
    assert said["continued"] == SUNNY, "the same by the first response's id"


@pytest.mark.parametrize("case", both("text"))
def test_anthropic_reads_a_message(scripted: Found, case: str) -> None:
    said = scripted.of("anthropic", case)
    assert (said["text"], said["finish"]) == (HELLO, "end_turn")
    assert said["id"].startswith("msg_")
    assert said["blocks"][-1] == "text" and said["tokens"] == scripted.of("anthropic", "text")["tokens"]


def test_anthropic_reads_the_events_of_a_message_in_their_order(scripted: Found) -> None:
    said = scripted.of("anthropic", "text_streamed")
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert said["types"] == ["message_start", *block * len(said["blocks"]), "message_delta", "message_stop"]


@pytest.mark.parametrize("case", both("tools"))
def test_anthropic_runs_a_tool(scripted: Found, case: str) -> None:
    said = scripted.of("anthropic", case)
    assert said["calls"] == [CITY] and said["text"] == SUNNY
    assert said["first"]["finish"] == "tool_use" and said["first"]["blocks"][-1] == "tool_use"
    assert said["ids"][0].startswith("toolu_")


def test_anthropics_runner_goes_through_a_tool_round(scripted: Found) -> None:
    said = scripted.of("anthropic", "runner")
    assert (said["calls"], said["text"], said["finish"]) == ([CITY], SUNNY, "end_turn")


def test_anthropic_counts_what_a_request_would_take(scripted: Found) -> None:
    counted, used = scripted.of("anthropic", "count")
    assert counted == used > 0


@pytest.mark.parametrize("surface", ["chat", "messages"])
@pytest.mark.parametrize("how", ["text", "text_streamed"])
def test_the_ai_sdk_reads_an_answer(scripted: Found, surface: str, how: str) -> None:
    said = scripted.of("ai", f"{surface}_{how}")
    assert (said["text"], said["finish"]) == (HELLO, "stop")
    assert said["tokens"] == scripted.of("ai", f"{surface}_text")["tokens"] > 0
    if surface == "chat":
        assert said["reasoning"] == (THOUGHT if scripted.thinks else "")


@pytest.mark.parametrize("surface", ["chat", "messages"])
def test_the_ai_sdk_reads_a_stream_in_its_order(scripted: Found, surface: str) -> None:
    types = scripted.of("ai", f"{surface}_text_streamed")["types"]
    text = ["text-start", "text-delta", "text-end"]
    at = types.index("text-start")
    assert types[:2] == ["start", "start-step"] and types[at:] == [*text, "finish-step", "finish"]


@pytest.mark.parametrize("surface", ["chat", "messages"])
@pytest.mark.parametrize("how", ["tools", "tools_streamed"])
def test_the_ai_sdk_runs_a_tool(scripted: Found, surface: str, how: str) -> None:
    said = scripted.of("ai", f"{surface}_{how}")
    assert (said["calls"], said["text"]) == ([CITY], SUNNY)
    assert said["steps"] == ["tool-calls", "stop"]


@pytest.mark.parametrize(("script", "case"), [(script, case) for script in STRUCTURED for case in STRUCTURED[script]])
def test_an_answer_by_a_schema_is_read_as_an_object(scripted: Found, script: str, case: str) -> None:
    assert scripted.of(script, case) == PERSON


def test_refusals_are_the_clients_own_errors(scripted: Found) -> None:
    assert scripted.of("openai", "refused") == {"kind": "BadRequestError", "status": 400, "param": "messages"}
    refused = scripted.of("anthropic", "refused")
    assert refused == {"kind": "BadRequestError", "status": 400, "type": "invalid_request_error"}


def test_what_the_server_sent_was_whole_and_by_the_rules(scripted: Found) -> None:
    exchanges = scripted.server.exchanges()
    refused = [one for one in exchanges if one.status == 400]
    assert len(refused) == 2
    for exchange in exchanges:
        if exchange not in refused:
            clients.well_formed(exchange)
    clients.settled(scripted.server)


# ---- real weights ----


@pytest.mark.parametrize(
    ("script", "case"),
    [(script, case) for script in CASES for case in CASES[script] if "tools" in case or case == "runner"],
)
def test_ds4_mini_does_a_whole_tool_round(mini: Found, script: str, case: str) -> None:
    said = mini.of(script, case)
    assert said["calls"] == [CITY]
    assert "Lisbon" in said["text"] and "21" in said["text"]


@pytest.mark.parametrize("script", list(CASES))
def test_ds4_mini_and_its_clients_agree_on_what_was_said(mini: Found, script: str) -> None:
    for case in CASES[script]:
        if case.endswith("text"):
            whole, streamed = mini.of(script, case), mini.of(script, case + "_streamed")
            assert whole["text"] == streamed["text"] != ""
            assert whole["tokens"] == streamed["tokens"] > 0


@pytest.mark.parametrize("script", list(CASES))
def test_smollm2_talks_to_every_client_until_its_budget_is_used(smollm2: Found, script: str) -> None:
    for case in CASES[script]:
        if case.endswith("text"):
            whole, streamed = smollm2.of(script, case), smollm2.of(script, case + "_streamed")
            assert whole["text"] == streamed["text"] != ""
            assert whole["finish" if "finish" in whole else "status"] in ("length", "max_tokens", "incomplete")


@pytest.mark.parametrize("model", ["mini", "smollm2"])
def test_real_answers_are_by_the_rules_too(request: pytest.FixtureRequest, model: str) -> None:
    server = request.getfixturevalue(model).server
    exchanges = [one for one in server.exchanges() if one.status != 400]
    assert exchanges
    for exchange in exchanges:
        clients.well_formed(exchange)
    clients.settled(server)
