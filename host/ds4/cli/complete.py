"""Completion scripts for bash, zsh and fish, made from the option declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds4.cli.arguments import MODEL_VERBS
from ds4.core.settings import Option, Program
from ds4.errors import SettingsError

SHELLS = ("bash", "zsh", "fish")


def script(shell: str, programs: Mapping[str, Program]) -> str:
    """The completion script. programs: by command line, "ds4" or "ds4 models". Raises SettingsError."""
    if shell == "bash":
        return _bash(programs)
    if shell == "zsh":
        head = "#compdef ds4 ds4-server ds4-bench ds4-synth\nautoload -U +X bashcompinit && bashcompinit\n"
        return head + _bash(programs)
    if shell == "fish":
        return _fish(programs)
    raise SettingsError(
        "no completion for this shell", subject="completion", expected=", ".join(SHELLS), found=repr(shell)
    )


def _options(program: Program) -> list[Option[Any]]:
    from ds4.core.settings import GENERAL

    return [option for option in (*program.options, *GENERAL) if not option.hidden]


def _bash(programs: Mapping[str, Program]) -> str:
    commands = sorted({line.split()[0] for line in programs})
    verbs = " ".join([*sorted(line.split()[1] for line in programs if " " in line), "completion"])
    lines = [
        "# ds4 completion: source it, or save it where your shell looks for completions.",
        "_ds4() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" line="${COMP_WORDS[0]##*/}"',
        f'    case " {verbs} " in *" ${{COMP_WORDS[1]}} "*)',
        '        [ "$COMP_CWORD" -gt 1 ] && line="$line ${COMP_WORDS[1]}";;',
        "    esac",
        "    COMPREPLY=()",
        '    case "$line" in',
        f'    "ds4 completion") COMPREPLY=($(compgen -W "{" ".join(SHELLS)}" -- "$word")); return;;',
    ]
    for name, program in programs.items():
        lines += [f'    "{name}")', '        case "$previous" in']
        for option in _options(program):
            if option.kind.takes_value:
                lines.append(f"        {'|'.join(option.spellings)}) {_bash_values(option)}; return;;")
        flags = [s for option in _options(program) for s in (*option.spellings, option.negation) if s]
        extra, place = _first_words(name, verbs)
        words = f'        COMPREPLY=($(compgen -W "{" ".join(flags)}" -- "$word"))'
        first = f'        [ "$COMP_CWORD" -eq {place} ] && COMPREPLY+=($(compgen -W "{extra}" -- "$word"))'
        lines += ["        esac", words, *([first] if extra else []), "        ;;"]
    lines += ["    esac", "}", f"complete -F _ds4 {' '.join(commands)}"]
    return "\n".join(lines) + "\n"


def _first_words(command: str, verbs: str) -> tuple[str, int]:
    """The verbs that a command takes, and which word of the line they are."""
    if command == "ds4":
        return f"{verbs} ", 1
    return (" ".join(MODEL_VERBS), 2) if command == "ds4 models" else ("", 0)


def _bash_values(option: Option[Any]) -> str:
    if option.kind.choices:
        return f'COMPREPLY=($(compgen -W "{" ".join(option.kind.choices)}" -- "$word"))'
    if option.kind.completes == "directory":
        return 'COMPREPLY=($(compgen -d -- "$word"))'
    if option.kind.completes == "model":
        names = "$(ds4 models --names 2>/dev/null)"
        return f'COMPREPLY=($(compgen -W "{names}" -- "$word") $(compgen -f -- "$word"))'
    return 'COMPREPLY=($(compgen -f -- "$word"))' if option.kind.completes else ":"


def _fish(programs: Mapping[str, Program]) -> str:
    verbs = [*sorted(line.split()[1] for line in programs if " " in line), "completion"]
    lines = ["# ds4 completion: save it as ~/.config/fish/completions/ds4.fish"]
    for name, program in programs.items():
        command, _, verb = name.partition(" ")
        if verb:
            condition = f"__fish_seen_subcommand_from {verb}"
        else:
            condition = f"not __fish_seen_subcommand_from {' '.join(verbs)}" if command == "ds4" else ""
        for option in _options(program):
            lines.append(_fish_line(command, condition, option))
    lines.append(f"complete -c ds4 -n __fish_use_subcommand -f -a '{' '.join(verbs)}'")
    lines.append(f"complete -c ds4 -n '__fish_seen_subcommand_from models' -f -a '{' '.join(MODEL_VERBS)}'")
    lines.append(f"complete -c ds4 -n '__fish_seen_subcommand_from completion' -f -a '{' '.join(SHELLS)}'")
    return "\n".join(lines) + "\n"


def _fish_line(command: str, condition: str, option: Option[Any]) -> str:
    parts = [f"complete -c {command}"]
    if condition:
        parts.append(f"-n '{condition}'")
    for spelling in option.spellings:
        bare = spelling.lstrip("-")
        parts.append(f"-l {bare}" if spelling.startswith("--") else f"-s {bare}" if len(bare) == 1 else f"-o {bare}")
    if option.kind.takes_value:
        files = option.kind.completes in ("file", "model")
        parts.append("-r" if files else "-x")
        if option.kind.choices:
            parts.append(f"-a '{' '.join(option.kind.choices)}'")
        elif option.kind.completes == "directory":
            parts.append("-a '(__fish_complete_directories)'")
        elif option.kind.completes == "model":
            parts.append("-a '(ds4 models --names 2>/dev/null)'")
    summary = option.help.split(". ")[0].rstrip(".").replace("'", "\\'")
    parts.append(f"-d '{summary}'")
    return " ".join(parts)
