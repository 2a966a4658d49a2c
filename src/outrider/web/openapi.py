"""The OpenAPI document of the routes, made from their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from outrider.log.questions import Question
from outrider.providers.deltas import Delta
from outrider.struct_types import described
from outrider.version import __version__
from outrider.web.api_answers import ShownEntry, ShownQuestion
from outrider.web.entry_view import HIDDEN, PUBLIC
from outrider.web.http import MAX_BODY, Problem, Request, Route

Json = dict[str, Any]
_REF = "#/components/schemas/{name}"
_ERRORS = {
    400: "The request cannot be read.",
    401: "The request has no token, or a wrong one.",
    403: "The request comes from elsewhere: its Host or its Origin is another.",
    404: "There is no such session, entry, file or question, or it is another owner's.",
    409: "The session is open elsewhere, waits for an answer, or is in another state than the request needs.",
    413: f"The body is longer than {MAX_BODY:,} bytes.",
    415: "The body is not JSON.",
    422: "The request cannot be carried out. The error says why.",
    429: "The owner does too much at once.",
}
_DESCRIPTION = """\
Durable sessions of an agent. Prompts, steering and answers are POST requests; what happens is a stream of events.

An event `entry` has the number of an entry as its id. Events of a reply that is being written have ids such as
`12.1789000000002`. After a lost connection, send the last id in the header `Last-Event-ID`: no entry is missed, and
none comes twice. `reply_discarded` makes void what came of a reply since the last entry.
"""


def document(routes: Iterable[Route], *, is_shared: bool, mount: str = "") -> Json:
    routes = list(routes)
    types = [each for route in routes for each in (route.query, route.body, route.answer) if each]
    schemas, components = _schemas([each for each in types if not isinstance(each, str)])
    paths: Json = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas, components)
    found: Json = {
        "openapi": "3.1.0",
        "info": {"title": "Outrider", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": mount or "/"}],
        "paths": paths,
        "components": {"schemas": components},
    }
    if not is_shared:
        schemes = {"token": {"type": "http", "scheme": "bearer", "description": "A line of the file of --token-file."}}
        found["components"]["securitySchemes"] = schemes
        found["security"] = [{"token": []}]
    return found


def document_route(routes: Iterable[Route], *, is_shared: bool) -> Route:
    shown = list(routes)

    async def serve(request: Request, _: None) -> Json:
        return document(shown, is_shared=is_shared, mount=request.mount)

    about = "Return this document."
    own = Route(
        method="GET", path="/openapi.json", name="openapi", about=about, handle=serve, answer=dict, is_public=True
    )
    shown.append(own)
    return own


def _schemas(types: list[Any]) -> tuple[Mapping[Any, Json], Json]:
    """Return the schema of each type, and the components that they refer to."""
    entries = list(PUBLIC)
    unique = list({repr(each): each for each in [*types, Problem, ShownEntry, ShownQuestion, Question]}.values())
    found, components = msgspec.json.schema_components(
        [described(each) for each in (*unique, *entries, Delta)], ref_template=_REF
    )
    names = []
    for entry in entries:
        name = entry.__name__ if entry.__name__.endswith("Entry") else f"{entry.__name__}Entry"
        schema = components.pop(entry.__name__)
        for hidden in HIDDEN.get(entry, ()):
            schema["properties"].pop(hidden, None)
        place = {"seq": {"type": "integer"}, "time": {"type": "number"}, "kind": {"const": entry.kind}}
        required = [each for each in schema.get("required", ()) if each not in HIDDEN.get(entry, ())]
        components[name] = schema | {
            "properties": place | schema["properties"],
            "required": ["seq", "time", "kind", *required],
        }
        names.append(name)
    components["Entry"] = {
        "description": "An entry of a session's log.",
        "oneOf": [{"$ref": _REF.format(name=each)} for each in names],
    }
    return dict(zip(map(repr, unique), found, strict=False)), components


def _operation(route: Route, schemas: Mapping[Any, Json], components: Json) -> Json:
    parameters = [_parameter("path", name, _path_schema(name), required=True) for name in route.names]
    if route.query:
        fields = components[route.query.__name__]["properties"]
        parameters += [_parameter("query", name, schema) for name, schema in fields.items()]
    if route.answer == "text/event-stream" and route.method == "GET":
        about = "The id of the last event that the client has; it counts more than `after`."
        parameters.append(_parameter("header", "Last-Event-ID", {"type": "string", "description": about}))
    content = (
        {route.answer: {"schema": {"type": "string"}}}
        if isinstance(route.answer, str)
        else {"application/json": {"schema": schemas[repr(route.answer)]}}
    )
    headers = {name: {"description": about, "schema": {"type": "string"}} for name, about in route.headers.items()}
    answered = {"description": route.about, "content": content} | ({"headers": headers} if headers else {})
    found: Json = {"operationId": route.name, "summary": route.about, "parameters": parameters}
    if route.body:
        body = {"application/json": {"schema": schemas[repr(route.body)]}}
        found["requestBody"] = {"required": True, "content": body}
    if route.is_public:
        found["security"] = []
    return found | {"responses": {str(route.status): answered, **_failures(route)}}


def _failures(route: Route) -> Json:
    wanted = {400, 401, 403, 422, *((404,) if route.names else ())}
    if route.method == "POST":
        wanted |= {404, 409, 413, 415, 429}
    if route.answer == "text/event-stream":
        wanted |= {404, 429}
    problem = {"application/json": {"schema": {"$ref": _REF.format(name="Problem")}}}
    found: Json = {str(each): {"description": _ERRORS[each], "content": problem} for each in sorted(wanted)}
    if "429" in found:
        about = "Seconds to wait."
        found["429"]["headers"] = {"Retry-After": {"description": about, "schema": {"type": "integer"}}}
    return found


def _path_schema(name: str) -> Json:
    if name == "sha256":
        return {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    if name == "by":
        return {"enum": ["day", "model", "folder"]}
    return {"type": "integer", "minimum": 0} if name in ("seq", "page") else {"type": "string"}


def _parameter(place: str, name: str, schema: Json, *, required: bool = False) -> Json:
    schema = dict(schema)
    about = schema.pop("description", "")
    found = {"name": name, "in": place, "required": required, "schema": schema}
    return found | ({"description": about} if about else {})
