"""An oracle shares no code with what it judges: it includes system headers and its own folder's, nothing else."""

import re
from pathlib import Path

ROOT = Path("oracles")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def borrowed(text: str) -> list[str]:
    """Quoted includes that leave oracles/."""
    return [name for name in INCLUDE.findall(text) if not name.startswith("oracles/") or ".." in name]


def test_an_include_of_the_engine_is_found() -> None:
    text = '#include <stdio.h>\n#include "oracles/check.h"\n# include "native/quant/quant.h"\n'
    assert borrowed(text) == ["native/quant/quant.h"]


def test_a_way_out_of_the_folder_is_found() -> None:
    assert borrowed('#include "oracles/../native/engine/gguf.h"\n') == ["oracles/../native/engine/gguf.h"]


def test_no_oracle_includes_another_room() -> None:
    for source in sorted([*ROOT.rglob("*.c"), *ROOT.rglob("*.h")]):
        assert borrowed(source.read_text(encoding="utf-8")) == [], source
