"""One option, four sources, one winner; and errors that say where the bad value stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from ds4.core import options
from ds4.core.settings import (
    Option,
    Program,
    Settings,
    boolean,
    choice,
    integer,
    integers,
    load,
    number,
    path,
    size,
    text,
    texts,
)
from ds4.errors import SettingsError

PORT: Option[int] = Option("port", integer(0, 65535), 8000, "Port.", "Net")
NAMES: Option[tuple[str, ...]] = Option("allow-host", texts(), (), "Hosts.", "Net")
QUIET: Option[bool] = Option("quiet", boolean(), False, "Quiet.", "Net", ("-q",))
BUDGET: Option[int] = Option("budget", size(), 0, "Bytes.", "Net")
PROMPT: Option[str | None] = Option("prompt", text(), None, "Prompt.", "Net", ("-p",), flag_only=True)
IDS: Option[tuple[int, ...] | None] = Option("ids", integers(0), None, "Ids.", "Net")
LOG: Option[Path | None] = Option("log", path(), None, "Log.", "Net")
PROGRAM = Program(
    "ds4-x", "server", "A test.", ("ds4-x",), (PORT, NAMES, QUIET, BUDGET, PROMPT, IDS, LOG, *options.SHARED)
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "ds4").mkdir()
    return tmp_path


def run(*argv: str, home: Path | None = None, **env: str) -> Settings:
    return load(PROGRAM, argv, env={**env, "XDG_CONFIG_HOME": str(home) if home else "/nowhere"})


def refusal(*argv: str, home: Path | None = None, **env: str) -> str:
    with pytest.raises(SettingsError) as caught:
        run(*argv, home=home, **env)
    return str(caught.value)


def test_a_flag_beats_a_variable_beats_the_table_beats_the_top_level_beats_the_default(home: Path) -> None:
    config = home / "ds4" / "config.toml"
    assert run(home=home)[options.CTX] is None
    config.write_text("ctx = 1\n")
    assert run(home=home)[options.CTX] == 1
    config.write_text("ctx = 1\n[server]\nctx = 2\n")
    assert run(home=home)[options.CTX] == 2
    assert run(home=home, DS4_CTX="3")[options.CTX] == 3
    settings = run("-c", "4", home=home, DS4_CTX="3")
    assert settings[options.CTX] == 4
    assert settings.source(options.CTX) == "-c"


def test_each_value_names_its_source(home: Path) -> None:
    config = home / "ds4" / "config.toml"
    config.write_text("kv = 'f32'\n[server]\nport = 1\n")
    settings = run("--budget", "1K", home=home, DS4_TOP_K="3")
    assert settings.source(options.KV) == str(config)
    assert settings.source(PORT) == f"{config} [server]"
    assert settings.source(options.TOP_K) == "DS4_TOP_K"
    assert settings.source(BUDGET) == "--budget"
    assert not settings.given(options.SEED)


def test_an_empty_variable_counts_as_unset() -> None:
    assert run(DS4_PORT="")[PORT] == 8000


def test_a_bad_value_is_refused_with_its_source_and_what_was_expected(home: Path) -> None:
    assert (
        refusal("--port", "70000") == "--port: cannot use this value (expected an integer in 0..65535, found '70000')"
    )
    assert refusal(DS4_TEMP="hot") == "DS4_TEMP: cannot use this value (expected a number in 0..100, found 'hot')"
    config = home / "ds4" / "config.toml"
    config.write_text("[server]\nport = 'x'\n")
    assert refusal(home=home) == (
        f"{config} [server] port: cannot use this value (expected an integer in 0..65535, found 'x')"
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "", "1e999"])
def test_a_temperature_that_is_no_number_in_range_is_refused(value: str) -> None:
    assert "expected a number in 0..100" in refusal("--temp", value)


def test_a_boolean_in_toml_is_not_an_integer(home: Path) -> None:
    (home / "ds4" / "config.toml").write_text("ctx = true\n")
    assert "found True" in refusal(home=home)


def test_an_unknown_key_is_an_error_with_a_guess(home: Path) -> None:
    config = home / "ds4" / "config.toml"
    config.write_text("thread = 3\n")
    assert refusal(home=home) == f"{config}: unknown key 'thread'; did you mean threads?"
    config.write_text("[server]\nprot = 3\n")
    assert refusal(home=home) == f"{config} [server]: unknown key 'prot'; did you mean port?"


def test_a_program_s_own_key_at_the_top_level_is_sent_to_its_table(home: Path) -> None:
    (home / "ds4" / "config.toml").write_text("port = 3\n")
    assert "belongs in this program's own table" in refusal(home=home)


def test_another_program_s_table_is_left_to_it(home: Path) -> None:
    (home / "ds4" / "config.toml").write_text("[cli]\nwhatever = 3\n")
    assert run(home=home)[PORT] == 8000


def test_underscores_do_for_dashes_in_toml(home: Path) -> None:
    (home / "ds4" / "config.toml").write_text("top_k = 3\n[server]\nallow_host = ['a', 'b']\n")
    settings = run(home=home)
    assert (settings[options.TOP_K], settings[NAMES]) == (3, ("a", "b"))
    (home / "ds4" / "config.toml").write_text("top_k = 3\ntop-k = 4\n")
    assert "top-k stands there twice" in refusal(home=home)


def test_an_action_of_one_run_cannot_be_configured(home: Path) -> None:
    assert run(DS4_PROMPT="x")[PROMPT] is None
    (home / "ds4" / "config.toml").write_text("[server]\nprompt = 'x'\n")
    assert "unknown key 'prompt'" in refusal(home=home)


def test_broken_toml_and_a_missing_named_file_are_errors_but_no_file_at_the_default_place_is_fine(home: Path) -> None:
    assert run(home=home)[PORT] == 8000
    assert "no such file" in refusal("--config", str(home / "other.toml"))
    assert "no such file" in refusal(DS4_CONFIG=str(home / "other.toml"))
    (home / "ds4" / "config.toml").write_text("= 3")
    assert "cannot read it" in refusal(home=home)


def test_an_unknown_flag_is_an_error_with_a_guess() -> None:
    assert refusal("--tempp", "1") == "--tempp: unknown option; did you mean --temp?"
    assert refusal("--prt=1") == "--prt=1: unknown option; did you mean --port?"
    assert refusal("word") == ("'word': unexpected argument; a model is named with -m, and --help lists what is taken")
    assert refusal("-p") == "-p: needs a value"


def test_flags_are_not_abbreviated() -> None:
    assert "unknown option" in refusal("--por", "1")


@pytest.mark.parametrize("value", ["-1 and -2", "--port", "-q", "-", "a=b", ""])
def test_what_follows_an_option_is_its_value_even_with_a_dash(value: str) -> None:
    settings = run("-p", value)
    assert settings[PROMPT] == value
    assert settings[QUIET] is False


def test_a_switch_can_be_turned_off_again() -> None:
    assert run("-q")[QUIET] is True
    assert run("--no-quiet", DS4_QUIET="yes")[QUIET] is False
    assert run(DS4_QUIET="on")[QUIET] is True
    assert "true or false" in refusal(DS4_QUIET="maybe")


def test_a_repeated_option_collects() -> None:
    assert run("--allow-host", "a", "--allow-host", "b")[NAMES] == ("a", "b")


@pytest.mark.parametrize(
    ("given", "bytes_"), [("4096", 4096), ("512M", 512 << 20), ("8GiB", 8 << 30), ("1.5k", 1536), ("2 TB", 2 << 40)]
)
def test_sizes_take_binary_units(given: str, bytes_: int) -> None:
    assert run("--budget", given)[BUDGET] == bytes_


@pytest.mark.parametrize("value", ["-1", "x", "12Q", "nan", ""])
def test_other_sizes_are_refused(value: str) -> None:
    assert "expected a size such as" in refusal("--budget", value)


def test_lists_of_ids_take_commas_and_blanks() -> None:
    assert run("--ids", "1,2, 3 4")[IDS] == (1, 2, 3, 4)
    assert "integers >= 0" in refusal("--ids", "1,-2")
    assert "integers >= 0" in refusal("--ids", "")


def test_relative_paths_start_at_the_caller_s_directory_and_in_toml_at_the_file_s(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", "/bazel")
    assert run("--log", "a")[LOG] == Path("/bazel/a")
    monkeypatch.setenv("DS4_CALLER_DIR", "/caller")
    assert run("--log", "a")[LOG] == Path("/caller/a")
    assert run("--log", "/a")[LOG] == Path("/a")
    (home / "ds4" / "config.toml").write_text("model = './m.gguf'\n[server]\nlog = 'a'\n")
    settings = run(home=home)
    assert settings[LOG] == home / "ds4" / "a"
    assert settings[options.MODEL] == str(home / "ds4" / "m.gguf")


def test_show_config_prints_value_and_source_of_each_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        run("--show-config", "--port", "1", "-p", "hidden", DS4_TOP_P="0.5")
    assert done.value.code == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["port", "1", "--port"] in rows
    assert ["top-p", "0.5", "DS4_TOP_P"] in rows
    assert ["quiet", "false", "default"] in rows
    assert not any(row[0] == "prompt" for row in rows)


def test_a_spelling_declared_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="declares -q twice"):
        Program("x", "cli", "", (), (QUIET, Option("other", choice("a"), "a", "", "", ("-q",))))


def test_every_shared_option_has_a_help_text_and_a_default_that_its_kind_takes() -> None:
    for option in options.SHARED:
        assert option.help.endswith(".")
        if option.default is not None:
            assert option.kind.parse(str(option.default).lower(), Path("/")) == option.default


def test_numbers_outside_their_range_are_refused_on_both_sides() -> None:
    kind = number(0, 1)
    for raw in (-0.1, 1.1, True, "x", None):
        with pytest.raises(ValueError, match=r"a number in 0\.\.1"):
            kind.parse(raw, Path("/"))
    assert kind.parse("0.5", Path("/")) == 0.5
