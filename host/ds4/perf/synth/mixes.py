"""Which type each tensor of a model is stored as: a named mix, then what the command line says of single tensors.

    embed    the token embedding                      head    the output matrix
    dense    attention, shared experts, plain ffn     index   compressors and indexers
    expert   gate and up of routed experts            down    down of routed experts
    fine     what is small and decides: routers, hyper-connections, the compressors' position biases

`q2`, `q4` and `mxfp4` are the mixes that DeepSeek V4 is published in. Vectors are F32 and tables I32 in all of them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ds4.core.families import SlotSpec
from ds4.core.ggml_types import TENSOR_TYPES
from ds4.core.kinds import did_you_mean
from ds4.errors import SettingsError
from ds4.perf.synth.quantize import WRITERS
from ds4.sys.descriptors import GgmlType, Role

PARTS = ("embed", "head", "dense", "index", "expert", "down", "fine")
NAMES = {TENSOR_TYPES[number].name.lower(): number for number in WRITERS if number != GgmlType.I32}
"""Types that can be asked for, in lower case, to GGUF's numbers."""

_PLAIN = ("f32", "f16", "bf16")
_PUBLISHED = {"embed": "f16", "head": "q8_0", "dense": "q8_0", "index": "f16", "fine": "f16"}
MIXES: dict[str, dict[str, str]] = {
    **{name: dict.fromkeys(PARTS, name) for name in _PLAIN},
    **{name: {**dict.fromkeys(PARTS, name), "fine": "f16"} for name in NAMES if name not in _PLAIN},
    "q2": {**_PUBLISHED, "expert": "iq2_xxs", "down": "q2_k"},
    "q4": {**_PUBLISHED, "expert": "q4_k", "down": "q4_k"},
    "mxfp4": {**_PUBLISHED, "expert": "mxfp4", "down": "mxfp4"},
}
_SMALLER = (GgmlType.Q8_0, GgmlType.F16)  # what rows that are no whole blocks are stored as instead
_FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k": 12} | {
    "q4_k": 15, "q5_k": 17, "q6_k": 18, "iq2_xxs": 19, "bf16": 32, "mxfp4": 38, "q2": 19, "q4": 15
}  # fmt: skip
"""general.file_type of a mix."""

_EXPERTS = (Role.EXPERTS_GATE, Role.EXPERTS_UP)
_FINE = (
    *(Role.OUTPUT_HC_FN, Role.HC_ATTN_FN, Role.HC_FFN_FN, Role.MTP_HC_FN, Role.ROUTER),
    *(Role.COMPRESS_APE, Role.INDEX_APE),
)
_INDEX = (
    *(Role.COMPRESS_KV, Role.COMPRESS_GATE, Role.INDEX_KV, Role.INDEX_GATE),
    *(Role.INDEX_Q_B, Role.INDEX_PROJ),
)


def part(role: Role) -> str:
    """Which part of a model a matrix belongs to."""
    if role in (Role.TOKEN_EMBD, Role.MTP_TOKEN_EMBD):
        return "embed"
    if role in (Role.OUTPUT, Role.MTP_OUTPUT):
        return "head"
    if role in _EXPERTS:
        return "expert"
    if role is Role.EXPERTS_DOWN:
        return "down"
    if role in _INDEX:
        return "index"
    return "fine" if role in _FINE else "dense"


@dataclass
class Mix:
    """types: of each part. single: (pattern of tensor names, type), the last that fits wins. smaller: names of tensors
    whose rows were no whole blocks of their type, by what they became; filled while types are chosen."""

    name: str
    types: Mapping[str, int]
    single: Sequence[tuple[str, int]] = ()
    smaller: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, changes: Sequence[str] = ()) -> Mix:
        """changes: "PART=TYPE" or "TENSOR-PATTERN=TYPE". Raises SettingsError."""
        if name not in MIXES:
            known = sorted(MIXES)
            raise SettingsError("no such mix" + did_you_mean(name, known), expected=", ".join(known), found=name)
        types = {which: NAMES[kind] for which, kind in MIXES[name].items()}
        single: list[tuple[str, int]] = []
        for change in changes:
            where, _, kind = change.partition("=")
            if kind not in NAMES:
                raise SettingsError(
                    "no such type" + did_you_mean(kind, NAMES),
                    subject=change,
                    expected="PART=TYPE or TENSOR=TYPE, of types " + ", ".join(NAMES),
                    found=kind or "none",
                )
            if where in PARTS:
                types[where] = NAMES[kind]
            else:
                single.append((where, NAMES[kind]))
        return cls(name, types, single)

    @property
    def file_type(self) -> int:
        return _FILE_TYPES[self.name]

    def kind(self, spec: SlotSpec) -> int:
        """The type of a slot's tensor. Raises SettingsError where one that was asked for by name cannot be."""
        if len(spec.accepted) == 1:
            return int(next(iter(spec.accepted)))
        for pattern, kind in reversed(self.single):
            if fnmatch.fnmatchcase(spec.name, pattern):
                known = TENSOR_TYPES[kind]
                if spec.dims[0] % known.block:
                    raise SettingsError(
                        "rows are not whole blocks of the type that was asked for",
                        subject=f"{spec.name}={known.name.lower()}",
                        expected=f"a multiple of {known.block}",
                        found=spec.dims[0],
                    )
                if kind not in spec.accepted:
                    subject = f"{spec.name}={known.name.lower()}"
                    raise SettingsError("the family does not take this type", subject=subject)
                return kind
        wanted = self.types[part(spec.role)]
        if wanted in spec.accepted and spec.dims[0] % TENSOR_TYPES[wanted].block == 0:
            return wanted
        kind = next(int(k) for k in _SMALLER if spec.dims[0] % TENSOR_TYPES[k].block == 0)
        self.smaller[spec.name] = kind
        return kind
