from __future__ import annotations

import ctypes.util
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ds4.errors import EngineError
from ds4.sys import bridge, descriptors
from ds4.sys.descriptors import Dsv4, HParams, SamplerDesc, SessionDesc, Slot

needs_engine = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    bridge.load.cache_clear()
    yield
    bridge.load.cache_clear()


def test_a_missing_library_is_an_error_that_says_where_it_looked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DS4_LIBRARY", str(tmp_path / "absent.so"))
    with pytest.raises(EngineError, match=r"absent\.so") as caught:
        bridge.load()
    assert caught.value.code == "engine_missing"
    assert "DS4_LIBRARY" in str(caught.value)


def test_without_a_setting_the_package_and_the_tree_above_it_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DS4_LIBRARY", raising=False)
    places = [str(path) for path in bridge.candidates()]
    assert places[0].endswith(f"ds4/sys/lib/{bridge.LIBRARY}")
    assert any(place.endswith(f"/native/{bridge.LIBRARY}") for place in places[1:])


def test_a_file_that_is_no_library_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("not ELF")
    monkeypatch.setenv("DS4_LIBRARY", str(path))
    with pytest.raises(EngineError) as caught:
        bridge.load()
    assert caught.value.code == "engine_missing"


def test_a_library_of_somebody_elses_is_an_error() -> None:
    name = ctypes.util.find_library("m")
    assert name is not None
    with pytest.raises(EngineError, match="not a ds4 engine") as caught:
        bridge.open_library(Path(name))
    assert caught.value.code == "engine_abi"


def layout(ffi: Any) -> str:
    lines = []
    for name in ffi.list_types()[0]:
        kind = ffi.typeof(name)
        if kind.kind == "struct":
            try:
                size = ffi.sizeof(kind)
            except Exception:
                continue
            lines.append(" ".join([name, str(size), *(f"{field}:{entry.offset}" for field, entry in kind.fields)]))
    return "\n".join(lines)


def test_the_declarations_agree_with_themselves_and_every_difference_is_named() -> None:
    ffi = bridge._declarations()
    table = layout(ffi)
    bridge.check_layout(ffi, table)
    for wrong in (
        table.replace("ds4_row 24", "ds4_row 32"),
        table.replace("token_from:12", "token_from:16"),
        table.replace("token_from:12", "token_of:12"),
        "\n".join(line for line in table.split("\n") if not line.startswith("ds4_row ")),
    ):
        assert wrong != table
        with pytest.raises(EngineError, match="ds4_row") as caught:
            bridge.check_layout(ffi, wrong)
        assert caught.value.code == "engine_abi"
    with pytest.raises(EngineError, match="ds4_extra"):
        bridge.check_layout(ffi, table + "\nds4_extra 4 a:0")


def test_the_descriptors_mirror_the_header() -> None:
    ffi = bridge._declarations()
    for constant in ("ABI_VERSION", "MAX_DIMS", "MAX_TOP", "STEPS_IN_FLIGHT"):
        assert getattr(descriptors, constant) == ffi.integer_const(f"DS4_{constant}")
    enums = {
        "ds4_status": descriptors.Status,
        "ds4_family": descriptors.Family,
        "ds4_type": descriptors.GgmlType,
        "ds4_backend_kind": descriptors.Backend,
        "ds4_numeric": descriptors.Numeric,
        "ds4_rope_kind": descriptors.RopeKind,
        "ds4_rope_scaling": descriptors.RopeScaling,
        "ds4_role": descriptors.Role,
        "ds4_row_flags": descriptors.RowFlags,
        "ds4_session_flags": descriptors.SessionFlags,
        "ds4_rounding": descriptors.Rounding,
    }
    for name, enum in enums.items():
        assert sorted(ffi.typeof(name).elements) == sorted(member.value for member in enum), name
    renamed = {
        "ds4_slot": {"n_dims", "reserved", "bytes"},
        "ds4_sampler": {"bias_ids", "bias_values", "n_bias", "reserved"},
        "ds4_dsv4": {"n_ratios", "n_clamps"},
    }
    added = {"ds4_slot": {"nbytes"}, "ds4_sampler": {"bias"}}
    for name, kind in {
        "ds4_slot": Slot,
        "ds4_hparams": HParams,
        "ds4_dsv4": Dsv4,
        "ds4_session_desc": SessionDesc,
        "ds4_sampler": SamplerDesc,
    }.items():
        ffi.sizeof(name)
        fields = {field for field, _ in ffi.typeof(name).fields} - renamed.get(name, set())
        assert fields == {field.name for field in dataclasses.fields(kind)} - added.get(name, set()), name


@needs_engine
def test_the_engine_speaks_this_hosts_abi() -> None:
    found = bridge.load()
    assert bridge.load() is found
    assert found.path == Path(os.environ["DS4_LIBRARY"]).absolute()
