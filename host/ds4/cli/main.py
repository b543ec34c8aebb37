"""The `ds4` command: reads the command line and hands over to what was asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from ds4.cli import complete, diagnostics
from ds4.cli.arguments import (
    COMPONENTS,
    DUMP_HIDDEN,
    DUMP_LOGITS,
    DUMP_LOGPROBS,
    DUMP_TOKENS,
    FORMS,
    INTERACTIVE,
    MODELS_PROGRAM,
    PREDICT,
    PROGRAM,
    PROMPT,
    PROMPT_FILE,
    REPLAY,
    TOKEN_IDS,
    TOKENIZE,
)
from ds4.cli.models import commands as models
from ds4.core import catalog
from ds4.core.exits import Exit, guarded
from ds4.core.kinds import did_you_mean
from ds4.core.options import MODEL, MODEL_DIR
from ds4.core.reading import read_text
from ds4.core.settings import Option, Program, Settings, load
from ds4.errors import SettingsError

# Other programs of the build, run under their own names. They are found at run time: the command line's room does not
# depend on theirs.
# verb: the command, the module that runs it, the module that declares its options
ALIASES = {
    "serve": ("ds4-server", "ds4.server.boot", "ds4.server.arguments"),
    "bench": ("ds4-bench", "ds4.perf.bench", "ds4.perf.bench"),
    "synth": ("ds4-synth", "ds4.perf.synth.main", "ds4.perf.synth.main"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code (core.exits)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return guarded("ds4", lambda: _dispatch(arguments))


def _dispatch(arguments: list[str]) -> int:
    match arguments:
        case [verb, *rest] if verb in ALIASES:
            name, module, _ = ALIASES[verb]
            return _other(name, module, rest)
        case ["models", *rest]:
            return models.run(rest)
        case ["completion", *rest]:
            return _completion(rest)
        case ["help", *_]:
            load(PROGRAM, ["--help"])
        case [word, *_] if word and not word.startswith("-"):
            close = did_you_mean(word, [*ALIASES, "models", "completion", "help"])
            raise SettingsError(
                f"no such command{close or '; a prompt is given with -p, a model with -m'}", subject=word
            )
    return _run(load(PROGRAM, arguments))


def _other(name: str, module: str, arguments: list[str]) -> int:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise SettingsError(f"this build has no {name}") from None
    code: int = found.main(arguments)
    return code


def _completion(rest: list[str]) -> int:
    if len(rest) != 1 or rest[0] in ("-h", "--help"):
        raise SettingsError("usage: ds4 completion " + "|".join(complete.SHELLS))
    programs: dict[str, Program] = {"ds4": PROGRAM, "ds4 models": MODELS_PROGRAM}
    for verb, (name, _, module) in ALIASES.items():
        try:
            other: Program = importlib.import_module(module).PROGRAM
        except ModuleNotFoundError:
            continue  # a build without it completes without it
        programs |= {name: other, f"ds4 {verb}": other}
    sys.stdout.write(complete.script(rest[0], programs))
    return Exit.OK


def _run(settings: Settings) -> int:
    if settings[COMPONENTS]:
        return diagnostics.components(settings)
    if diagnostics.wanted(settings):
        path = catalog.resolve(settings[MODEL], settings[MODEL_DIR])
        text = settings[TOKENIZE]
        return diagnostics.run(settings, path, read_text(None) if text == "-" else text)
    results: tuple[Option[Any], ...] = (PREDICT, DUMP_LOGITS, DUMP_HIDDEN, DUMP_LOGPROBS)
    if settings.given(TOKEN_IDS) and not any(settings.given(option) for option in results):
        raise SettingsError("needs --predict, --dump-logits, --dump-hidden or --dump-logprobs", subject="--token-ids")
    if (trace := settings[REPLAY]) is not None:
        from ds4.cli.replay import replay

        return replay(settings, catalog.resolve(settings[MODEL], settings[MODEL_DIR]), trace)
    prompt = read_prompt(settings)
    path = catalog.resolve(settings[MODEL], settings[MODEL_DIR])
    # What computes is imported only now, so that nothing above needs an engine.
    if settings[DUMP_TOKENS]:
        from ds4.cli.prompt import dump_tokens

        return dump_tokens(settings, path, prompt)
    if any(settings.given(option) for option in results):
        from ds4.cli.prove import prove

        return prove(settings, path, prompt)
    if prompt is None and (form := next((option for option in FORMS if settings[option]), None)):
        raise SettingsError("a chat's answers have any form; give a prompt", subject=f"--{form.name}")
    if prompt is not None:
        from ds4.cli.chat import one_shot

        return one_shot(settings, path, prompt)
    from ds4.cli.chat import converse

    return converse(settings, path)


def read_prompt(settings: Settings) -> str | None:
    """The prompt from -p, --prompt-file or a pipe; None for a chat. Raises SettingsError for two sources."""
    sources: tuple[Option[Any], ...] = (PROMPT, PROMPT_FILE, TOKEN_IDS)
    given = [option for option in sources if settings[option] is not None]
    if len(given) > 1:
        raise SettingsError("only one prompt can be given", subject=" and ".join(f"--{o.name}" for o in given))
    if settings[INTERACTIVE] and given:
        raise SettingsError("a chat takes its messages as they come", subject=f"--interactive and --{given[0].name}")
    if settings[PROMPT] is not None:
        return settings[PROMPT]
    file = settings[PROMPT_FILE]
    piped = not given and not settings[INTERACTIVE] and not sys.stdin.isatty()
    if file is None and not piped:
        return None
    text = read_text(file)
    if file is None:
        # A pipe ends its text with a newline that nobody meant; a file is taken as it is.
        text = text.removesuffix("\n")
        if not text:
            raise SettingsError("no prompt: standard input is empty and no -p is given")
    return text
