"""The components that there are: one for each file in parity/components/."""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Iterable
from pathlib import Path

from ds4.errors import Ds4Error

import parity.components
from parity.component import Component

ROOT = Path(os.path.abspath(__file__)).parents[1]
"""The tree that is judged: the checkout, or Bazel's copy of it."""


class GateError(Ds4Error):
    """Something that was asked of the parity system and cannot be done."""

    code = "gate"


def workspace() -> Path:
    """The checkout, where results are written; under `bazel run` that is not ROOT."""
    return Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ROOT))


@functools.cache
def components() -> dict[str, Component]:
    """All components by name, in the order of their files."""
    found: dict[str, Component] = {}
    for module in sorted(pkgutil.iter_modules(parity.components.__path__), key=lambda m: m.name):
        component = importlib.import_module(f"parity.components.{module.name}").COMPONENT
        if component.name != module.name:
            raise GateError(
                "a component is named as its file", subject=module.name, expected=module.name, found=component.name
            )
        found[component.name] = component
    return found


def chosen(names: Iterable[str]) -> list[Component]:
    """The components of these names, or all when there is none."""
    everything = components()
    picked = []
    for name in names:
        if name not in everything:
            raise GateError("no such component", subject=name, expected=", ".join(everything), found=name)
        picked.append(everything[name])
    return picked or list(everything.values())
