"""Whether a value obeys a JSON schema: of the keywords that the tests' schemas use, each by its definition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "null": type(None),
    "boolean": bool,
    "string": str,
    "array": list,
    "object": dict,
    "number": (int, float),
}
KNOWN = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "minimum", "maximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "pattern", "anyOf", "$ref", "$defs", "title", "description"),
    "default",
}


def obeys(value: Any, schema: Any, root: Any = None) -> bool:
    """AssertionError for a keyword that is not known here."""
    if isinstance(schema, bool):
        return schema
    root = schema if root is None else root
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        target = root
        for name in schema["$ref"].removeprefix("#").strip("/").split("/"):
            target = target[name] if name else target
        if not obeys(value, target, root):
            return False
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_is(value, kind) for kind in kinds):
            return False
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        return False
    if "const" in schema and not _same(value, schema["const"]):
        return False
    if "anyOf" in schema and not any(obeys(value, one, root) for one in schema["anyOf"]):
        return False
    if isinstance(value, str):
        return _text(value, schema)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, list):
        size = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return size and all(obeys(item, schema.get("items", True), root) for item in value)
    if isinstance(value, dict):
        named, other = schema.get("properties", {}), schema.get("additionalProperties", True)
        whole = all(name in value for name in schema.get("required", ()))
        return whole and all(obeys(item, named.get(name, other), root) for name, item in value.items())
    return True


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value % 1 == 0))
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _text(value: str, schema: Mapping[str, Any]) -> bool:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    return "pattern" not in schema or re.search(schema["pattern"], value) is not None
