from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ds4.errors import RecordError
from ds4.kv import record, tapes
from ds4.kv.extensions import MARKS, Extensions, Tool
from ds4.kv.record import HEADER_FIELDS, Header, Reason, Record
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import standing_in

HEADER = Header(4, Reason.CONTINUED, 0, 0, 3, 1, 4096, 1_700_000_000, 1_700_000_600)
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
FILLED = st.binary(min_size=1, max_size=9).filter(lambda data: 0 not in data)
HEADERS = st.builds(
    Header, st.sampled_from([2, 4]), st.integers(0, 9), st.integers(0, 255).map(lambda bits: bits & MARKS),
    st.integers(0, 255), st.integers(1, 2**32 - 1), U32, U32, U64, U64,
)  # fmt: skip
EXTENSIONS = st.builds(
    Extensions,
    st.none() | st.binary(max_size=9),
    st.lists(st.builds(Tool, FILLED, FILLED), max_size=3).map(tuple),
    st.none() | st.binary(min_size=32, max_size=32),
)
RECORDS = st.builds(Record, HEADERS, st.binary(max_size=20), st.binary(max_size=20), EXTENSIONS)


@pytest.fixture(scope="module", autouse=True)
def answered_by_the_replacement() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tapes, "oracle", standing_in(tapes.by_tape))
        yield


def code(raw: bytes) -> tuple[str, str | None]:
    """The verdict on a file."""
    with pytest.raises(RecordError) as error:
        record.decode_python(raw)
    return error.value.code, error.value.subject


@given(RECORDS)
def test_a_record_that_was_written_is_read_back(given_record: Record) -> None:
    raw = record.encode_python(given_record)
    found = record.decode_python(raw)
    assert found == given_record and found.name == given_record.name
    assert raw[found.payload_offset :][: len(found.payload)] == given_record.payload
    assert b"".join(record.pieces(found)) == raw


@given(RECORDS)
def test_a_record_cut_anywhere_is_refused(given_record: Record) -> None:
    raw = record.encode_python(given_record)
    for cut in range(len(raw)):
        found, _ = code(raw[:cut])
        assert found in (
            "kvc_truncated",
            "kvc_identity",
            "kvc_title",
            "kvc_tool_count",
            "kvc_tool_magic",
            "kvc_trailing",
        )
        assert cut >= 52 or found == "kvc_truncated"


@given(RECORDS)
def test_bytes_behind_a_record_are_refused(given_record: Record) -> None:
    raw = record.encode_python(given_record) + b"\0"
    assert code(raw)[0] in ("kvc_trailing", "kvc_identity")


@given(RECORDS, st.data())
def test_a_record_with_one_byte_changed_is_a_record_or_an_error(given_record: Record, data: st.DataObject) -> None:
    raw = bytearray(record.encode_python(given_record))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        record.decode_python(raw)
    except RecordError as error:
        assert error.code.startswith("kvc_") and error.subject


@pytest.mark.parametrize("length", [5, 2**32, 2**63, 2**64 - 56, 2**64 - 1])
def test_a_payload_longer_than_the_file_is_refused_before_anything_is_summed(length: int) -> None:
    raw = bytearray(record.encode_python(Record(HEADER, b"text", b"load")))
    struct.pack_into("<Q", raw, 40, length)
    assert code(bytes(raw)) == ("kvc_truncated", "payload")


def test_a_published_record_of_300_megabytes_is_read_without_reading_its_payload(tmp_path: Path) -> None:
    text, payload = b"t" * 24_591, 301_947_764
    head = bytearray(record.encode_python(Record(replace(HEADER, reason=Reason.BANK_SHUTDOWN), text, b"")))
    struct.pack_into("<Q", head, 40, payload)
    path = tmp_path / "bank.kv"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(301_972_407)  # sparse: reading it all would cost its size in memory
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        found = record.decode_python(mapped)
        assert isinstance(found.payload, memoryview) and found.payload.nbytes == payload
        assert found.payload.obj is mapped and found.payload_offset == 24_643
        assert found.header.reason == Reason.BANK_SHUTDOWN
        found.payload.release()
        mapped.close()


def test_the_pieces_hold_the_payload_itself() -> None:
    payload = bytearray(b"payload")
    assert record.pieces(Record(HEADER, b"text", payload))[1] is payload


def test_a_record_is_named_by_its_text_and_a_titled_one_by_title_and_moment() -> None:
    plain = Record(HEADER, b"Hi", b"")
    assert plain.name == hashlib.sha1(b"Hi").hexdigest() + ".kv"
    titled = replace(plain, extensions=Extensions(title=b"plan"))
    assert titled.name == hashlib.sha1(b"plan" + struct.pack("<Q", 1_700_000_000)).hexdigest() + ".kv"
    assert replace(titled, text=b"longer").name == titled.name


def test_a_reason_from_a_later_version_is_unknown() -> None:
    raw = bytearray(record.encode_python(Record(HEADER, b"", b"")))
    raw[5] = 10
    assert record.decode_python(raw).header.reason == Reason.UNKNOWN


def test_one_more_hit_counts_and_stops_at_the_largest() -> None:
    assert HEADER.hit(9) == replace(HEADER, hits=2, used=9)
    assert replace(HEADER, hits=2**32 - 1).hit(9).hits == 2**32 - 1


@pytest.mark.parametrize(
    ("offset", "value", "verdict"),
    [
        (0, b"k", ("kvc_magic", "magic")),
        (3, b"\2", ("kvc_version", "version")),
        (4, b"\3", ("kvc_quant", "quant")),
        (6, b"\x80", ("kvc_extension", "extensions")),
        (8, b"\0", ("kvc_tokens", "tokens")),
        (20, b"\1", ("kvc_abi", "abi")),
        (23, b"\1", ("kvc_reserved", "reserved")),
        (48, b"\xff", ("kvc_truncated", "text")),
        (6, b"\1", ("kvc_truncated", "tool_map")),
        (6, b"\x08", ("kvc_truncated", "title")),
        (6, b"\x40", ("kvc_truncated", "identity")),
    ],
)
def test_a_header_that_lies_names_the_field(offset: int, value: bytes, verdict: tuple[str, str]) -> None:
    raw = bytearray(record.encode_python(Record(HEADER, b"text", b"load")))
    raw[offset : offset + 1] = value
    assert code(bytes(raw)) == verdict


@pytest.mark.parametrize(
    ("name", "most"), [(n, 255) for n in HEADER_FIELDS[:4]] + [(n, 2**32 - 1) for n in HEADER_FIELDS[4:7]]
)
def test_a_number_that_does_not_fit_its_field_is_named(name: str, most: int) -> None:
    for value in (-1, most + 1):
        with pytest.raises(RecordError) as error:
            record.encode_python(Record(replace(HEADER, **{name: value}), b"", b""))
        assert (error.value.code, error.value.subject) == ("kvc_range", name)


# ---- the sections ----


def sectioned(extensions: Extensions) -> bytes:
    return record.encode_python(Record(HEADER, b"", b"", extensions))


@pytest.mark.parametrize(
    ("extensions", "code"),
    [
        (Extensions(title=b"t" * 65537), "kvc_title"),
        (Extensions(tools=(Tool(b"", b"b"),)), "kvc_tool_id"),
        (Extensions(tools=(Tool(b"i" * 257, b"b"),)), "kvc_tool_id"),
        (Extensions(tools=(Tool(b"a\0", b"b"),)), "kvc_tool_id"),
        (Extensions(tools=(Tool(b"a", b""),)), "kvc_tool_body"),
        (Extensions(tools=(Tool(b"a", b"\0"),)), "kvc_tool_body"),
        (Extensions(tools=(Tool(b"a", b"b"),) * 400_001), "kvc_tool_count"),
        (Extensions(identity=b"short"), "kvc_identity"),
    ],
)
def test_a_section_that_no_reader_would_take_is_not_written(extensions: Extensions, code: str) -> None:
    with pytest.raises(RecordError) as error:
        sectioned(extensions)
    assert error.value.code == code


def test_the_longest_sections_are_taken() -> None:
    extensions = Extensions(b"t" * 65536, (Tool(b"i" * 256, b"b" * 100_000),), bytes(32))
    assert record.decode_python(sectioned(extensions)).extensions == extensions


def test_a_map_of_no_entries_is_no_section() -> None:
    assert sectioned(Extensions(tools=())) == sectioned(Extensions())


@pytest.mark.parametrize("count", [0, 2, 400_001, 2**32 - 1])
def test_a_count_that_the_bytes_cannot_hold_is_refused_at_once(count: int) -> None:
    raw = bytearray(sectioned(Extensions(tools=(Tool(b"a", b"b"),))))
    struct.pack_into("<I", raw, 56, count)
    assert code(bytes(raw)) == ("kvc_tool_count", "tool_map")


@pytest.mark.parametrize(("field", "verdict"), [(60, "kvc_tool_id"), (64, "kvc_tool_body")])
@pytest.mark.parametrize("length", [0, 2**29 + 1, 2**32 - 1])
def test_a_length_out_of_range_is_named(field: int, verdict: str, length: int) -> None:
    raw = bytearray(sectioned(Extensions(tools=(Tool(b"a", b"b"),))))
    struct.pack_into("<I", raw, field, length)
    assert code(bytes(raw)) == (verdict, "tool_map")


# ---- on tapes, and answered by an oracle ----


@given(RECORDS)
def test_requests_and_results_are_read_back_from_their_tapes(given_record: Record) -> None:
    raw = record.encode_python(given_record)
    for request in (tapes.Encode(given_record), tapes.Decode(raw)):
        assert tapes.read_input(tapes.write_input(request)) == request
        result = tapes.run(request)
        assert tapes.read_output(tapes.write_output(result)) == result


@given(RECORDS)
def test_the_oracles_answers_are_those_of_the_functions(given_record: Record) -> None:
    raw = tapes.encode_by_oracle(given_record)
    assert raw == record.encode_python(given_record)
    assert tapes.decode_by_oracle(raw) == given_record
    with pytest.raises(RecordError) as error:
        tapes.decode_by_oracle(raw[:51])
    assert (error.value.code, error.value.subject) == ("kvc_truncated", "header")


HEAD = b"encode 4 2 0 0 3 1 4096 1 2\n"


@pytest.mark.parametrize(
    "tape",
    [b"", b"decode", b"decode 1\n", b"read\n", b"encode\n", HEAD, HEAD + b"text t\n", HEAD + b"payload p\ntext t\n",
     b"encode 4 2 0 0 3 1 4096 1\ntext t\npayload p\n", b"encode -4 2 0 0 3 1 4096 1 2\ntext t\npayload p\n",
     HEAD + b"text t\npayload p\ntitle\n", HEAD + b"text t\npayload p\ntool a\n", HEAD + b"text t\npayload p\nmore\n",
     HEAD + b"text t\npayload p\ntitle a\ntitle b\n", HEAD + b"text t\npayload p\ntool a b\ntitle c\n",
     HEAD + b"text t\npayload p\nidentity a\ntool a b\n", HEAD + b"text t\npayload p\nidentity a\nidentity a\n",
     HEAD + b"text %zz\npayload p\n", HEAD + b"text t\npayload p\n\n"],
)  # fmt: skip
def test_bytes_that_are_no_tape_are_refused(tape: bytes) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape)
