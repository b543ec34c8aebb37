from __future__ import annotations

from collections.abc import Iterator

import pytest
from ds4.core.encoder_dsv4 import Call, Conversation, Turn, encode
from ds4.core.tapes import encoder as tapes
from ds4.errors import EncoderError
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import standing_in


@pytest.fixture(scope="module", autouse=True)
def answered_by_the_replacement() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tapes, "oracle", standing_in(tapes.by_tape))
        yield


TEXT = st.text(max_size=4)
JSON = st.none() | st.integers() | TEXT | st.lists(st.booleans(), max_size=2) | st.dictionaries(TEXT, TEXT, max_size=2)
CONTENT = st.none() | TEXT
CALLS = st.lists(st.builds(Call, TEXT, TEXT, TEXT | st.just('{"a": 1.50}')), max_size=2).map(tuple)
TURNS = st.one_of(
    st.builds(Turn, st.sampled_from(["user", "latest_reminder", "nobody"]), CONTENT),
    st.builds(Turn, st.just("tool"), CONTENT, id=TEXT),
    st.builds(Turn, st.just("assistant"), CONTENT, reasoning=TEXT, calls=CALLS, replay=CONTENT, open=st.booleans()),
    st.builds(
        Turn,
        st.sampled_from(["system", "developer"]),
        CONTENT,
        tools=st.lists(JSON, max_size=2).map(tuple),
        format=JSON,
    ),
)
INPUTS = st.builds(Conversation, st.lists(TURNS, max_size=4).map(tuple), st.booleans(), st.booleans(), st.booleans())


@given(INPUTS)
def test_what_is_written_is_read_back(conversation: Conversation) -> None:
    assert tapes.read_input(tapes.write_input(conversation)) == conversation
    tape = tapes.write_output(tapes.run(conversation))
    assert tapes.write_output(tapes.read_output(tape)) == tape


@given(INPUTS)
def test_the_encoder_that_asks_an_oracle_is_the_encoder(conversation: Conversation) -> None:
    try:
        expected = encode(conversation)
    except EncoderError as error:
        with pytest.raises(EncoderError) as caught:
            tapes.by_oracle(conversation)
        assert (caught.value.code, caught.value.turn) == (error.code, error.turn)
    else:
        assert tapes.by_oracle(conversation) == expected


HEAD = "encode 1 0 1\n"


@pytest.mark.parametrize(
    "tape",
    [
        "",
        "encode 1 0\n",
        "encode 1 0 2\n",
        "encode 1 0 1",
        "turn user text a\n",
        HEAD + HEAD,
        HEAD + "\n",
        HEAD + "id a\n",
    ]
    + [
        HEAD + f"turn {turn}\n"
        for turn in ("user text", "user none a", "user other -", "user text %FF", "user text a b")
    ]
    + [HEAD + f"turn user text a\n{line}\n" for line in ("id a", "reasoning a", "open", "tool 1", "format 1")]
    + [HEAD + f"turn tool text a\n{line}\n" for line in ("id", "id a b", "id a\nid b", "open")]
    + [
        HEAD + f"turn assistant text a\n{line}\n"
        for line in ("open\nreplay a", "call a b", "open x", "replay a\ncall a b c")
    ]
    + [
        HEAD + f"turn system text a\n{line}\n"
        for line in ("tool x", "format 1\ntool 1", "format 1\nformat 1", "tool 1%202")
    ],
)
def test_a_tape_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape.encode())


@pytest.mark.parametrize("tape", ["plain\n", "token a\n", "plain a\nerror encoder_role 0\n", "error encoder_role\n"])
def test_an_output_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_output(tape.encode())


def test_what_cannot_be_on_a_tape_is_a_typed_error() -> None:
    with pytest.raises(EncoderError) as caught:
        tapes.by_oracle(Conversation((Turn("system", "", tools=(object(),)),)))
    assert caught.value.code == "encoder_value"
