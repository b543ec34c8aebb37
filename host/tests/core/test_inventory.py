"""One inventory from one file or many shards, and a named error for every way in which a set does not fit together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ds4.core import bind, gguf, inventory
from ds4.core.inventory import ShardName, shard_name
from ds4.errors import ModelFileError
from support.gguf_writer import TYPE_Q8_0, U16, GgufWriter, ShardSet, tiny_llama, tiny_shards


def test_a_single_file_is_an_inventory_of_one_shard(tmp_path: Path) -> None:
    found = inventory.load(tiny_llama().write(tmp_path / "tiny.gguf"))
    assert len(found.shards) == 1
    assert list(found.tensors)[:2] == ["token_embd.weight", "blk.0.attn_norm.weight"]
    assert found.metadata.string("general.name") == "Tiny"
    assert found.aliased == []


def test_shards_merge_in_order_and_every_tensor_knows_its_file(tmp_path: Path) -> None:
    path = tiny_shards().write(tmp_path)
    whole = inventory.load(tiny_llama().write(tmp_path / "whole.gguf"))
    found = inventory.load(path)

    assert found.path == path
    assert list(found.tensors) == list(whole.tensors)
    assert [t.shard for t in found.tensors.values()] == [0] * 5 + [1] * 9 + [2] * 6
    assert found.file_bytes == sum(p.stat().st_size for p in tmp_path.glob("m-*.gguf"))
    plan = bind.plan(found)
    assert [Path(p).name for p in plan.desc().shards] == [f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    assert {slot.shard for slot in plan.slots} == {0, 1, 2}


def test_shards_are_found_beside_a_link_to_the_first(tmp_path: Path) -> None:
    """A download cache keeps blobs in one folder and links with the shards' names in another."""
    blobs, links = tmp_path / "blobs", tmp_path / "links"
    blobs.mkdir()
    links.mkdir()
    tiny_shards().write(blobs)
    for blob in list(blobs.iterdir()):
        hashed = blob.rename(blobs / f"{hash(blob.name):x}")
        (links / blob.name).symlink_to(hashed)
    assert len(inventory.load(links / "m-00001-of-00003.gguf").shards) == 3


def _drop_key(index: int, key: str) -> Callable[[ShardSet], object]:
    return lambda s: s.writers[index].without(key)


def _set_key(index: int, key: str, value: int) -> Callable[[ShardSet], object]:
    return lambda s: s.writers[index].without(key).number(key, U16, value)


# change, code, subject, expected, found
BROKEN: dict[str, tuple[Callable[[ShardSet], object], str, str, str, str]] = {
    "a missing middle shard": (
        lambda s: s.skip.add(1),
        "split_missing",
        "m-00002-of-00003.gguf",
        "3 shards",
        "no m-00002-of-00003.gguf",
    ),
    "two missing shards": (
        lambda s: s.skip.update({1, 2}),
        "split_missing",
        "m-00002-of-00003.gguf",
        "3 shards",
        "and 1 more",
    ),
    "a shard of another count": (_set_key(1, "split.count", 4), "split_count", "split.count", "3", "4"),
    "a shard in another's place": (_set_key(2, "split.no", 1), "split_number", "split.no", "2", "1"),
    "a first shard that says it is not": (_set_key(0, "split.no", 2), "split_number", "split.no", "0", "2"),
    "a first shard without a count": (_drop_key(0, "split.count"), "metadata_missing", "split.count", "u32", "nothing"),
    "a shard without a number": (_drop_key(1, "split.no"), "metadata_missing", "split.no", "u32", "nothing"),
    "a tensor that no shard has": (
        lambda s: s.writers[2].drop("output_norm.weight"),
        "split_tensors",
        "split.tensors.count",
        "20",
        "19",
    ),
    "a shard that counts otherwise": (
        _set_key(1, "split.tensors.count", 19),
        "split_tensors",
        "split.tensors.count",
        "19",
        "20",
    ),
    "a tensor in two shards": (
        lambda s: s.writers[1].tensor("token_embd.weight", (32, 16), TYPE_Q8_0),
        "split_duplicate",
        "token_embd.weight",
        "one shard",
        "m-00001-of-00003.gguf and m-00002-of-00003.gguf",
    ),
    "a shard that is cut": (
        lambda s: setattr(s.writers[2], "cut", 1),
        "gguf_tensor_past_end",
        "output_norm.weight",
        "an end within",
        "bytes",
    ),
    "a shard that is no gguf": (
        lambda s: setattr(s.writers[1], "magic", b"XXXX"),
        "gguf_magic",
        "magic",
        "b'GGUF'",
        "XXXX",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_set_that_does_not_fit_together_names_the_shard_or_key(name: str, tmp_path: Path) -> None:
    change, code, subject, expected, found = BROKEN[name]
    made = tiny_shards()
    change(made)
    with pytest.raises(ModelFileError) as caught:
        inventory.load(made.write(tmp_path))
    assert (caught.value.code, caught.value.subject) == (code, subject)
    assert expected in str(caught.value.expected)
    assert found in str(caught.value.found)


def test_an_error_in_a_later_shard_names_that_shard(tmp_path: Path) -> None:
    made = tiny_shards()
    made.writers[2].cut = 1
    with pytest.raises(ModelFileError, match=r"m-00003-of-00003\.gguf"):
        inventory.load(made.write(tmp_path))


def test_pointing_at_a_later_shard_names_the_first(tmp_path: Path) -> None:
    tiny_shards().write(tmp_path)
    with pytest.raises(ModelFileError) as caught:
        inventory.load(tmp_path / "m-00002-of-00003.gguf")
    assert (caught.value.code, caught.value.expected) == ("split_first", "m-00001-of-00003.gguf")
    assert caught.value.found == "shard 2 of 3"


def test_a_renamed_shard_says_what_it_must_be_called(tmp_path: Path) -> None:
    made = tiny_shards()
    with pytest.raises(ModelFileError) as caught:
        inventory.load(made.writers[0].write(tmp_path / "model.gguf"))
    assert (caught.value.code, caught.value.subject) == ("split_name", "model.gguf")
    assert caught.value.expected == "NAME-00001-of-00003.gguf"


def test_a_set_of_one_needs_no_split_keys(tmp_path: Path) -> None:
    found = inventory.load(tiny_llama().write(tmp_path / "m-00001-of-00001.gguf"))
    assert len(found.shards) == 1


def test_a_wild_shard_count_ends_at_the_first_missing_file(tmp_path: Path) -> None:
    writer = tiny_llama().number("split.no", U16, 0).number("split.count", U16, 65535)
    with pytest.raises(ModelFileError) as caught:
        inventory.load(writer.write(tmp_path / "m-00001-of-65535.gguf"))
    assert (caught.value.code, caught.value.subject) == ("split_missing", "m-00002-of-65535.gguf")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("m-00001-of-00003.gguf", ShardName("m", 1, 3)),
        ("a-00001-of-00002-00002-of-00002.gguf", ShardName("a-00001-of-00002", 2, 2)),
        ("m.gguf", None),
        ("m-0001-of-0003.gguf", None),
        ("m-00000-of-00003.gguf", None),
        ("m-00004-of-00003.gguf", None),
        ("m-00001-of-00003.gguf.part", None),
        ("-00001-of-00003.gguf", None),
        ("m-٠٠٠٠١-of-00003.gguf", None),
    ],
)
def test_a_shard_is_known_by_its_name(name: str, parts: ShardName | None) -> None:
    assert shard_name(name) == parts
    if parts is not None:
        assert parts.sibling(parts.number) == name


def _aliases(*ranges: tuple[int, int]) -> list[tuple[tuple[str, ...], int, int]]:
    """Groups among F32 tensors at (offset, elements), as (names, offset in the data section, bytes)."""
    writer = GgufWriter()
    for index, (offset, elements) in enumerate(ranges):
        writer.tensor(f"t{index}", (elements,), offset=offset)
    data = bytes(max(offset + 4 * elements for offset, elements in ranges))
    file = gguf.parse(writer.build() + data, Path("x.gguf"))
    return [(a.names, a.offset - file.data_offset, a.nbytes) for a in inventory.merge((file,)).aliased]


def test_tensors_that_share_bytes_are_reported_and_legal() -> None:
    assert _aliases((0, 8), (32, 8)) == []
    assert _aliases((0, 8), (0, 8)) == [(("t0", "t1"), 0, 32)]
    assert _aliases((0, 16), (32, 16), (96, 8)) == [(("t0", "t1"), 0, 96)]
    assert _aliases((0, 64), (32, 8), (96, 8), (256, 8), (256, 8)) == [
        (("t0", "t1", "t2"), 0, 256),
        (("t3", "t4"), 256, 32),
    ]


def test_tensors_of_different_shards_never_alias(tmp_path: Path) -> None:
    found = inventory.load(tiny_shards().write(tmp_path))
    assert found.aliased == []


def test_many_tensors_at_one_place_are_one_group(tmp_path: Path) -> None:
    writer = GgufWriter()
    for index in range(2000):
        writer.tensor(f"t{index}", (8,), offset=0, data=b"")
    path = tmp_path / "x.gguf"
    path.write_bytes(writer.build() + bytes(64))
    (group,) = inventory.load(path).aliased
    assert len(group.names) == 2000
