"""JSON Schema (2020-12) in few words. Everything here returns plain data.

Requests say null for "not given" almost everywhere, so optional fields are written with `maybe`.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def ref(name: str, about: str = "") -> Schema:
    """One of the document's components."""
    pointer = {"$ref": f"#/components/schemas/{name}"}
    return {**pointer, "description": about} if about else pointer


def string(about: str = "", **more: Any) -> Schema:
    return _with({"type": "string"}, about, more)


def integer(about: str = "", low: int | None = None, high: int | None = None, **more: Any) -> Schema:
    return _with({"type": "integer"} | _bounds(low, high), about, more)


def number(about: str = "", low: float | None = None, high: float | None = None, **more: Any) -> Schema:
    return _with({"type": "number"} | _bounds(low, high), about, more)


def boolean(about: str = "", **more: Any) -> Schema:
    return _with({"type": "boolean"}, about, more)


def one_of(*values: str, about: str = "", **more: Any) -> Schema:
    """One of these strings."""
    return _with({"type": "string", "enum": list(values)}, about, more)


def only(value: str, about: str = "") -> Schema:
    """This string."""
    return _with({"type": "string", "const": value}, about, {})


def array(items: Schema, about: str = "", **more: Any) -> Schema:
    return _with({"type": "array", "items": items}, about, more)


def anything(about: str) -> Schema:
    return {"description": about}


def mapping(values: Schema | None = None, about: str = "", **more: Any) -> Schema:
    """An object whose names are the client's."""
    held: Schema = {} if values is None else {"additionalProperties": values}
    return _with({"type": "object", **held}, about, more)


def either(*schemas: Schema, about: str = "") -> Schema:
    return _with({"anyOf": list(schemas)}, about, {})


def maybe(schema: Schema) -> Schema:
    """The schema, or null."""
    kind = schema.get("type")
    if isinstance(kind, str) and "const" not in schema:
        widened = {**schema, "type": [kind, "null"]}
        if "enum" in schema:
            widened["enum"] = [*schema["enum"], None]
        return widened
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    about = schema.get("description", "")
    bare = {name: value for name, value in schema.items() if name != "description"}
    return either(bare, {"type": "null"}, about=about)


def obj(fields: dict[str, Schema], required: tuple[str, ...] | list[str] = (), about: str = "", **more: Any) -> Schema:
    """An object. Fields that are not named here are ignored in requests, and may be added to answers."""
    held: Schema = {"type": "object", "properties": fields}
    if required:
        held["required"] = list(required)
    return _with(held, about, more)


def whole(fields: dict[str, Schema], about: str = "", optional: tuple[str, ...] = ()) -> Schema:
    """An object of an answer: it has all of these fields, but for the optional ones."""
    return obj(fields, [name for name in fields if name not in optional], about)


def _with(schema: Schema, about: str, more: dict[str, Any]) -> Schema:
    return {**schema, **({"description": about} if about else {}), **more}


def _bounds(low: float | None, high: float | None) -> Schema:
    held: Schema = {}
    if low is not None:
        held["minimum"] = low
    if high is not None:
        held["maximum"] = high
    return held
