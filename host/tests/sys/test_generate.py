from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

from ds4.sys import generate

HEADER = """/* A comment with int fake(void); */
#ifndef X_H
#define X_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define DS4_LIMIT 64 /* why */
#define DS4_MASK 0x1F
#if defined(__GNUC__)
#define DS4_API __attribute__((visibility("default")))
#else
#define DS4_API
#endif
typedef enum ds4_kind { DS4_A = 1, DS4_B = 5 } ds4_kind;
typedef struct ds4_pair { int32_t left; double right; } ds4_pair; // trailing
DS4_API int32_t ds4_add(const ds4_pair *pair, int32_t more);
#ifdef __cplusplus
}
#endif
#endif
"""


def load(source: str) -> types.ModuleType:
    module = types.ModuleType("made")
    exec(source, module.__dict__)
    return module


def test_only_declarations_and_integer_constants_are_left_of_a_header() -> None:
    text = generate.declarations(HEADER)
    assert "#define DS4_LIMIT 64" in text and "#define DS4_MASK 0x1F" in text
    assert "DS4_API" not in text and "extern" not in text and "fake" not in text and "include" not in text
    assert "int32_t ds4_add(const ds4_pair *pair, int32_t more);" in text


def test_the_generated_module_knows_structs_enums_and_constants() -> None:
    ffi = load(generate.generate(HEADER)).ffi
    assert ffi.sizeof("ds4_pair") == 16
    assert ffi.offsetof("ds4_pair", "right") == 8
    assert ffi.integer_const("DS4_LIMIT") == 64
    assert ffi.integer_const("DS4_B") == 5


def test_the_build_runs_it_as_a_program(tmp_path: Path) -> None:
    header, out = tmp_path / "h.h", tmp_path / "_bridge.py"
    header.write_text(HEADER)
    command = [sys.executable, generate.__file__]
    done = subprocess.run([*command, str(header), str(out)], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert load(out.read_text()).ffi.sizeof("ds4_pair") == 16
    wrong = subprocess.run(command, capture_output=True, text=True)
    assert wrong.returncode == 2 and "usage" in wrong.stderr
