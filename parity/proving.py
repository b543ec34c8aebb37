"""A plugin of pytest that leaves only the tests that prove something: those that take record_property."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rest = [item for item in items if "record_property" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=rest)
    items[:] = [item for item in items if item not in rest]
