"""numpy, or a clear word that it is missing; and the few array shapes that the block formats share.

numpy is no dependency of the product: nothing that serves a model imports this package.
"""

from __future__ import annotations

from typing import TypeAlias

from ds4.errors import ModelFileError, SettingsError

try:
    import numpy as np
    import numpy.typing as npt
except ModuleNotFoundError as missing:
    raise SettingsError("ds4-synth needs numpy, which is not installed (pip install numpy)") from missing

Floats: TypeAlias = npt.NDArray[np.float32]
Bytes: TypeAlias = npt.NDArray[np.uint8]


def halves(values: Floats) -> Bytes:
    """float32 [n, k] as the 2 k bytes of k binary16 numbers each. A scale that is no finite number spoils its block."""
    if values.size and float(np.abs(values).max()) >= 65520:
        raise ModelFileError(
            "a block's scale does not fit F16",
            code="tensor_values",
            subject="scale",
            expected="less than 65520",
            found=float(np.abs(values).max()),
        )
    return np.ascontiguousarray(values.astype("<f2")).view(np.uint8).reshape(len(values), -1)


def raw(*columns: npt.NDArray[np.uint8] | npt.NDArray[np.int8]) -> bytes:
    """Blocks laid out field by field: each column [n, bytes]."""
    return np.concatenate([column.view(np.uint8) for column in columns], axis=1).tobytes()
