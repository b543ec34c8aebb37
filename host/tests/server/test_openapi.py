"""/openapi.json: it is a valid document, and complete. Whether answers are as it says is test_openapi_requests'."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import falcon.asgi
import pytest
from ds4 import server
from ds4.server.app import create_app
from ds4.server.doorkeeper import Doorkeeper
from ds4.server.limits import Limits
from ds4.server.openapi.document import document
from ds4.server.request import Body
from ds4.server.service import Service
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from support.documented import fields_at, served, validator
from support.live_server import LiveServer, read_answer

METHODS = {"get", "post", "delete", "put", "patch"}
MADE_ELSEWHERE = {"/ready"}
"""Described before it is served."""


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with served() as live:
        yield live


def routes() -> dict[str, set[str]]:
    """The methods of the application's paths, HEAD and OPTIONS left out."""
    service = Service()
    try:
        app: Any = create_app(service, Doorkeeper("127.0.0.1")).app
        assert isinstance(app, falcon.asgi.App)
        found: dict[str, set[str]] = {}
        pending = list(app._router._roots)
        while pending:
            node = pending.pop()
            pending += node.children
            if node.resource is not None:
                path = re.sub(r"\{(\w+):\w+\}", r"{\1}", node.uri_template or "")
                handlers = vars(type(node.resource)) | dict.fromkeys(dir(node.resource), 0)
                found[path] = {name.removeprefix("on_") for name in handlers if name.startswith("on_")} & METHODS
        return found
    finally:
        service.close()


def test_every_route_is_in_the_document_and_nothing_else_is() -> None:
    described = {path: set(item) & METHODS for path, item in document()["paths"].items()}
    served = routes()
    for path in MADE_ELSEWHERE - served.keys():
        described.pop(path)
    assert described == served


def test_it_is_a_document_of_openapi_3_1_as_the_published_schema_has_it() -> None:
    OPENAPI_31_VALIDATOR.validate(document())
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)


def test_every_schema_in_it_is_one_and_every_reference_leads_somewhere() -> None:
    for name in document()["components"]["schemas"]:
        validator(name).is_valid(None)
    for pointer in pointers(document()):
        at: Any = document()
        for step in pointer.removeprefix("#/").split("/"):
            at = at[step]


def test_every_component_is_used() -> None:
    used = set(pointers(document()))
    for kind in ("schemas", "responses"):
        for name in document()["components"][kind]:
            assert f"#/components/{kind}/{name}" in used, name


def test_the_server_gives_it(live: LiveServer) -> None:
    status, headers, raw = live.send("/openapi.json", method="GET")
    assert (status, headers["content-type"], json.loads(raw)) == (200, "application/json", document())
    assert live.send("/openapi.json", method="HEAD")[0] == 200


def test_every_field_of_a_request_is_described() -> None:
    for path, _, operation in operations():
        if body := operation.get("requestBody"):
            name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            whole = document()["components"]["schemas"][name]
            for shape in whole.get("anyOf", [whole]):
                for field, schema in shape["properties"].items():
                    assert schema.get("description"), f"{path} {field}"


EXAMPLES = [
    (path, label, example["value"])
    for path, item in document()["paths"].items()
    for operation in item.values()
    for media in operation.get("requestBody", {}).get("content", {}).values()
    for label, example in media["examples"].items()
]


@pytest.mark.parametrize(("path", "label", "body"), EXAMPLES, ids=[f"{path} {label}" for path, label, _ in EXAMPLES])
def test_examples_fit_their_schema_and_the_server_takes_them(
    live: LiveServer, path: str, label: str, body: dict[str, Any]
) -> None:
    operation = document()["paths"][path]["post"]
    named = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    validator(named).validate(body)
    status, _, raw = live.send(path, body)
    assert status == 200, raw


# ---- what is read is described -------------------------------------------------------------------------------------

READS = {"get", "text", "boolean", "integer", "number", "nested", "refuse", "param"}
READERS = {"objects", "read_stops", "_choice", "_effort", "_strings", "_inner", "_texts", "_required"}
OF_ANSWERS = {"id", "type"}


def read_names() -> Iterator[tuple[str, str]]:
    """The names that the code of the surfaces asks bodies for, and where."""
    root = Path(server.__file__).parent
    files = [*root.glob("surfaces/*.py"), root / "request.py", root / "constraints.py"]
    for file in files:
        if "tapes" in file.name or "oracle" in file.name:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            method = isinstance(called, ast.Attribute) and called.attr in READS and node.args[:1]
            reader = isinstance(called, ast.Name) and called.id in READERS and node.args[1:2]
            for argument in method or reader or ():
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value, f"{file.name}:{node.lineno}"


def names_in(schema: Any) -> set[str]:
    match schema:
        case dict():
            inner = [names_in(value) for value in schema.values()]
            return set(schema.get("properties") or ()).union(*inner)
        case list():
            return set().union(*map(names_in, schema))
    return set()


def test_every_name_that_the_code_asks_for_is_in_a_schema() -> None:
    described = names_in(document()["components"]["schemas"])
    found = list(read_names())
    assert len(found) > 150
    assert {(name, where) for name, where in found if name not in described} == set()


RICH: list[tuple[str, dict[str, Any]]] = [
    *((path, body) for path, _, body in EXAMPLES),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "assistant", "content": "a", "reasoning": "b"}, {"role": "user", "content": "c"}]},
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "hi", "name": "Ann"}],
            "thinking": {"type": "enabled", "budget_tokens": 3},
            "reasoning": {"max_tokens": 3},
            "tools": [{"function": {"name": "add"}}],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "add"}}]},
            },
        },
    ),
    ("/v1/completions", {"prompt": "a", "response_format": {"type": "json_object"}, "echo": False, "suffix": ""}),
    (
        "/v1/messages",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "document", "title": "t", "context": "c", "source": {"type": "text", "data": "d"}},
                        {
                            "type": "search_result",
                            "title": "t",
                            "source": "s",
                            "content": [{"type": "text", "text": "x"}],
                        },
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "a", "signature": "b"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "tool_use", "id": "1", "name": "add", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "1",
                            "is_error": True,
                            "content": [{"type": "tool_reference", "tool_name": "add"}, {"type": "text", "text": "b"}],
                        }
                    ],
                },
            ],
            "tools": [{"name": "add", "description": "d", "input_schema": {}, "strict": False}],
            "tool_choice": {"type": "tool", "name": "add"},
            "thinking": {"type": "adaptive", "display": "omitted", "budget_tokens": 2},
            "output_config": {"effort": "low", "format": {"type": "text"}},
            "metadata": {"user_id": "u"},
            "max_tokens": 5,
        },
    ),
    (
        "/v1/responses",
        {
            "input": [
                {"role": "user", "content": "hi"},
                {"type": "reasoning", "content": [{"type": "reasoning_text", "text": ""}], "encrypted_content": "x"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]},
                {"type": "custom_tool_call", "call_id": "1", "name": "sh", "namespace": "n", "input": "ls"},
                {"type": "custom_tool_call_output", "call_id": "1", "output": [{"type": "refusal", "refusal": "no"}]},
            ],
            "tools": [
                {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "custom", "name": "sh"}]},
                {"type": "function", "name": "add", "strict": False, "description": "d"},
            ],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "add"}]},
            "reasoning": {"effort": "low", "generate_summary": "auto", "max_tokens": 9},
            "text": {"verbosity": "low", "format": {"type": "text"}},
            "include": ["reasoning.encrypted_content"],
            "truncation": "auto",
            "max_output_tokens": 5,
        },
    ),
    ("/v1/embeddings", {"input": "a", "dimensions": 32}),
    ("/tokenize", {"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": True, "tools": []}),
    ("/tokenize", {"prompt": "a", "add_special": True, "parse_special": False}),
]


@pytest.mark.parametrize(("path", "body"), RICH, ids=lambda value: value if isinstance(value, str) else "")
def test_every_field_that_a_surface_reads_has_its_place_in_the_schema(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    asked: set[str] = set()

    def recorded(method: Any) -> Any:
        def reads(self: Body, name: str, *more: Any, **named: Any) -> Any:
            asked.add(re.sub(r"\[\d+\]", "[]", f"{self.path}.{name}" if self.path else name))
            return method(self, name, *more, **named)

        return reads

    for name in READS - {"param"}:
        monkeypatch.setattr(Body, name, recorded(getattr(Body, name)))
    status, _, raw = live.send(path, body)
    assert status == 200, raw
    assert asked
    operation = document()["paths"][path]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    missing = {field for field in asked if not fields_at(schema, field)}
    assert missing == set()


# ---- refusals ------------------------------------------------------------------------------------------------------


REFUSALS: dict[int, tuple[str, bytes, str]] = {
    400: ("POST", b"{", ""),
    403: ("POST", b"{}", "Host: example.com\r\n"),
    405: ("PUT", b"{}", ""),
    413: ("POST", b" " * 5000, ""),
    415: ("POST", b"{}", "Content-Encoding: gzip\r\n"),
    431: ("POST", b"{}", f"X-Long: {'x' * 70000}\r\n"),
    503: ("POST", b"{}", ""),
}


@pytest.mark.parametrize("path", [path for path, item in document()["paths"].items() if "requestBody" in str(item)])
def test_refusals_have_the_shape_that_is_described_for_their_status(path: str) -> None:
    with served(limits=Limits(body=4096), load=False) as live:
        for status, (method, raw, headers) in sorted(REFUSALS.items(), reverse=True):
            if status == 415:
                live.load_model()
            request = live.request_bytes(path, raw, method, headers + "Connection: close\r\n")
            if status == 403:
                request = request.replace(f"Host: 127.0.0.1:{live.port}\r\n".encode(), b"", 1)
            with contextlib.closing(live.connect()) as sock:
                sock.sendall(request)
                found, answered, body = read_answer(sock)
            assert found == status, body
            named = document()["paths"][path]["post"]["responses"][str(status)]["$ref"].rpartition("/")[2]
            told = document()["components"]["responses"][named]
            schema = told["content"][answered["content-type"]]["schema"]["$ref"].rpartition("/")[2]
            validator(schema).validate(json.loads(body))
            assert {name.lower() for name in told.get("headers", ())} <= answered.keys()


# ---- helpers -------------------------------------------------------------------------------------------------------


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def pointers(value: Any) -> Iterator[str]:
    match value:
        case dict():
            if isinstance(pointer := value.get("$ref"), str):
                yield pointer
            for inner in value.values():
                yield from pointers(inner)
        case list():
            for inner in value:
                yield from pointers(inner)
