"""The `ARCH.*` keys of a file, read with ranges, and with a memory of which were read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeAlias

from ds4.core.cursor import shown
from ds4.core.metadata import Metadata
from ds4.errors import ModelFileError, UnsupportedModelError

Neutral: TypeAlias = tuple[int | float | bool, ...]
"""Values of a key that mean that what it asks for is not used."""

INT32_MAX = 2**31 - 1


class Keys:
    """Getters over `metadata` for keys without their architecture prefix; ranges are inclusive.

    Errors are ModelFileError with code `metadata_missing`, `metadata_type` or `metadata_range`.
    """

    def __init__(self, metadata: Metadata, architecture: str) -> None:
        self.metadata = metadata
        self.prefix = architecture + "."
        self._read: set[str] = set()

    def name(self, key: str) -> str:
        return self.prefix + key

    def fail(self, key: str, message: str, expected: object, found: object) -> NoReturn:
        raise ModelFileError(
            message, code="metadata_range", subject=shown(self.name(key)), expected=expected, found=found
        )

    def integer(self, key: str, low: int, high: int = INT32_MAX, *, default: int | None = None) -> int:
        """An integer in low..high; a default is returned as it is."""
        name = self._use(key)
        if default is not None and name not in self.metadata:
            return default
        value = self.metadata.u32(name)
        if not low <= value <= high:
            self.fail(key, "out of range", f"{low}..{high}", value)
        return value

    def number(self, key: str, low: float, high: float, *, default: float | None = None) -> float:
        """A finite float in low..high; a default is returned as it is."""
        name = self._use(key)
        if default is not None and name not in self.metadata:
            return default
        value = self.metadata.f32(name)
        if not low <= value <= high:
            self.fail(key, "out of range", f"{low:g}..{high:g}", value)
        return value

    def flag(self, key: str) -> bool:
        return self.metadata.boolean(self._use(key))

    def layered(self, key: str, n_layer: int, low: float, high: float) -> tuple[float, ...]:
        """Finite floats in low..high, one for each layer: an array of n_layer, or with one more for the block after the
        last; or one number for all."""
        name = self._use(key)
        if name in self.metadata and not self.metadata.type_of(name).startswith("array"):
            return (self.number(key, low, high),) * n_layer
        values = self.metadata.floats(name)
        if not n_layer <= len(values) <= n_layer + 1:
            self.fail(key, "not one value for each layer", f"{n_layer}..{n_layer + 1} values", len(values))
        for index, value in enumerate(values):
            if not low <= value <= high:
                self.fail(f"{key}[{index}]", "out of range", f"{low:g}..{high:g}", value)
        return tuple(values)

    def integers(self, key: str, least: int, most: int) -> list[int]:
        """An array of least..most integers."""
        name = self._use(key)
        values = self.metadata.ints(name)
        if not least <= len(values) <= most:
            self.fail(key, "not one value for each layer", f"{least}..{most} values", len(values))
        return values

    def string(self, key: str, default: str) -> str:
        return self.metadata.string(self._use(key), default)

    def uniform(self, key: str, n_layer: int, high: int, *, default: int | None = None) -> int:
        """An integer in 1..high, or an array that says the same one for each layer."""
        name = self._use(key)
        if name not in self.metadata or not self.metadata.type_of(name).startswith("array"):
            return self.integer(key, 1, high, default=default)
        if self.metadata.count(name) != n_layer:
            self.fail(key, "not one value for each layer", f"{n_layer} values", self.metadata.count(name))
        values = self.metadata.ints(name)
        if len(set(values)) > 1:
            raise UnsupportedModelError(
                "layers of different shape are not supported",
                code="unsupported_shape",
                subject=name,
                expected="the same value for each layer",
                found=f"{min(values)}..{max(values)}",
            )
        if not 1 <= values[0] <= high:
            self.fail(key, "out of range", f"1..{high}", values[0])
        return values[0]

    def pattern(self, key: str, n_layer: int, *, default: int) -> int | list[bool]:
        """A period of 0..n, or a list of booleans, one for each layer at least."""
        name = self._use(key)
        if name not in self.metadata or not self.metadata.type_of(name).startswith("array"):
            return self.integer(key, 0, default=default)
        values = self.metadata.booleans(name)
        if len(values) < n_layer:
            self.fail(key, "not one value for each layer", f"{n_layer} values", len(values))
        return values[:n_layer]

    def unread(self, informative: frozenset[str]) -> tuple[str, ...]:
        """Keys with the prefix that nobody asked for and that are not merely informative."""
        mine = (key for key in self.metadata if key.startswith(self.prefix))
        return tuple(key for key in mine if key not in self._read and key[len(self.prefix) :] not in informative)

    def _use(self, key: str) -> str:
        name = self.name(key)
        self._read.add(name)
        return name

    def neutral(self, key: str, values: Neutral) -> bool:
        """Whether the key is absent, or one of `values` by its type and value."""
        name = self._use(key)
        if name not in self.metadata:
            return True
        if self.metadata.type_of(name).startswith("array"):
            return False
        found = self.metadata[name]
        return any(type(found) is type(value) and found == value for value in values)


def refuse_unsupported(keys: Keys, neutral: Mapping[str, Neutral]) -> None:
    """Raises UnsupportedModelError for a key that asks for something a family's forward does not do."""
    for key, values in neutral.items():
        if not keys.neutral(key, values):
            name = keys.name(key)
            array = keys.metadata.type_of(name).startswith("array")
            raise UnsupportedModelError(
                "the file asks for something that this family's forward does not do",
                code="unsupported_key",
                subject=name,
                expected=" or ".join(["no such key", *map(str, values)]),
                found=keys.metadata.type_of(name) if array else shown(str(keys.metadata[name])),
            )
