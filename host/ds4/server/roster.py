"""The models that can be asked for by name: the one of -m, and those of the catalog."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4.core import catalog, identify
from ds4.errors import Ds4Error
from ds4.server.errors import ApiError
from ds4.server.surfaces.chat_request import ALIASES

REREAD_SECONDS = 2.0
"""How old a listing may be when a name is asked for that it does not have."""
_NAMED = 40  # names that a refusal lists


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model by its name. path: the file, or the first of its shards."""

    name: str
    path: Path


class Roster:
    """default: the model of -m, whatever its name. listing: reads the catalog; slow, and may raise Ds4Error."""

    def __init__(
        self,
        default: OfferedModel,
        listing: Callable[[], list[catalog.Entry]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.default = default
        self._listing, self._clock = listing, clock
        self._offers: dict[str, OfferedModel] = {}
        self._names: Mapping[str, OfferedModel] = {}
        self._facts: dict[Path, tuple[tuple[int, int], dict[str, Any] | None]] = {}
        self._read_at = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Reads the catalog. Off the event loop. Raises what the listing raises, and keeps what it had."""
        default, entries = self.default, self._listing()
        offers = {default.name: default}
        names = {default.name.lower(): default}
        for entry in entries:
            same = os.path.realpath(entry.path) == os.path.realpath(default.path)
            offer = default if same else OfferedModel(entry.name, entry.path)
            if names.setdefault(entry.name.lower(), offer) is offer and not same:
                offers[offer.name] = offer  # of two with one name the first is meant, as with -m
        for alias in ALIASES:
            names.setdefault(alias, default)
        self._offers, self._names, self._read_at = offers, names, self._clock()

    @property
    def stale(self) -> bool:
        return self._clock() - self._read_at >= REREAD_SECONDS

    def offers(self) -> list[OfferedModel]:
        return list(self._offers.values())

    def find(self, name: str | None) -> OfferedModel | None:
        """The model that a name means; none, or an empty one, means the default."""
        return self._names.get(name.lower()) if name else self.default

    def missing(self, name: str) -> ApiError:
        known = [repr(offer.name) for offer in self.offers()]
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        return ApiError(
            404,
            f"There is no model {name[:80]!r}; this server has {', '.join(known[:_NAMED])}{more}.",
            code="model_not_found",
            param="model",
        )

    def facts(self, offer: OfferedModel) -> dict[str, Any] | None:
        """What is known of a model without loading it; None: its file is no model that can be served. Off the event
        loop: the first look at a file reads its metadata."""
        try:
            stat = offer.path.stat()
            state = stat.st_mtime_ns, stat.st_size
            if (known := self._facts.get(offer.path)) is not None and known[0] == state:
                return known[1]
            identity = identify.identify(offer.path)
        except (Ds4Error, OSError):
            return None
        facts = {
            "architecture": identity.architecture,
            "n_params": identity.n_params,
            "size": identity.bytes,
            "quantization": identity.quant_summary,
            "context_train": identity.context_train,
        }
        self._facts[offer.path] = state, facts if identity.supported else None
        return self._facts[offer.path][1]
