"""The OpenAPI document: valid, complete, and true of what the server answers."""

from __future__ import annotations

import json
import sys

import jsonschema_rs
import pytest

from outrider.sync import default_log
from outrider.web.openapi import document
from outrider.web.opener import CodingOpener
from outrider.web.owners import ServerLimits
from outrider.web.server import Server
from tests.serve.clients import API, client
from tests.serve.counting import counting


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_document_is_valid_and_names_every_route(is_shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", None)  # the grammar of IRIs: no schema has one, and it takes 2 s
    from openapi_spec_validator import OpenAPIV31SpecValidator  # takes long to import, in each process of a run

    with default_log() as log:
        server = Server(log, CodingOpener(log), ServerLimits(), is_shared=is_shared)
        found = json.loads(json.dumps(document(server._router.routes, is_shared=is_shared)))
    OpenAPIV31SpecValidator(found).validate()
    assert {(route.path, route.method.lower()) for route in server._router.routes} == {
        (path, method) for path, methods in found["paths"].items() for method in methods
    }
    assert (f"{API}/facets" in found["paths"]) is not is_shared
    for methods in found["paths"].values():
        for operation in methods.values():
            assert {"400", "401", "403"} <= set(operation["responses"])


async def test_answers_are_as_the_document_says() -> None:
    async with client(counting()) as ada:
        status, found = await ada.ask("GET", "/openapi.json")
        assert status == 200
        name = (await ada.post("sessions", {"text": "Count to 2"}))["id"]
        await ada.until_done(name)
        for path in (
            "sessions",
            "sessions/{id}",
            "sessions/{id}/entries",
            "sessions/{id}/messages",
            "sessions/{id}/context",
        ):
            answer = found["paths"][f"{API}/{path}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            schema = {**answer, "components": found["components"]}
            jsonschema_rs.validate(schema, await ada.get(path.replace("{id}", name)))
        schema = {"$ref": "#/components/schemas/Entry", "components": found["components"]}
        for entry in (await ada.get(f"sessions/{name}/entries"))["entries"]:
            jsonschema_rs.validate(schema, entry)
