"""What the built libraries are: the right machine, only old glibc symbols, and no door but the bridge's."""

import json
import os
import re
import struct
from pathlib import Path

HEADER_ELF = struct.Struct("<4sBBB9xHH")  # magic, class, endianness, version, padding, type, machine
HEADER_MACHO = struct.Struct("<IiiI")  # magic, cpu type, cpu subtype, file type
EM_AARCH64 = 183
CPU_TYPE_ARM64 = 0x0100000C
ROOT = Path("native")


def elf_machine(path: Path) -> int:
    magic, elf_class, _, _, kind, machine = HEADER_ELF.unpack_from(path.read_bytes())
    assert (magic, elf_class, kind) == (b"\x7fELF", 2, 3), "expected a 64-bit shared object"
    return int(machine)


def test_the_engine_builds_for_aarch64_linux() -> None:
    assert elf_machine(ROOT / "_cross/aarch64-linux-gnu.2.28/libds4.so") == EM_AARCH64


def test_the_engine_builds_for_aarch64_macos() -> None:
    magic, cpu, _, kind = HEADER_MACHO.unpack_from((ROOT / "_cross/aarch64-macos/libds4.dylib").read_bytes())
    assert (magic, cpu, kind) == (0xFEEDFACF, CPU_TYPE_ARM64, 6)


def test_the_library_asks_for_no_glibc_newer_than_its_wheel_tag_says() -> None:
    names = set(re.findall(rb"GLIBC_(\d+)\.(\d+)", Path(os.environ["DS4_LIBRARY"]).read_bytes()))
    assert names, "expected versioned glibc symbols"
    assert max((int(major), int(minor)) for major, minor in names) <= (2, 28)


def test_no_group_names_a_source_twice() -> None:
    text = (ROOT / "sources.bzl").read_text(encoding="utf-8")
    groups = json.loads(text[text.index("NATIVE =") + len("NATIVE =") :])["groups"]
    sources = [(group["name"], source) for group in groups for source in group["srcs"]]
    assert len(sources) == len(set(sources))
