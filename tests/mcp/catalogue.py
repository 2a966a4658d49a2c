"""A thousand tools on ten servers, as large companies have them."""

from __future__ import annotations

from itertools import product
from typing import Any

from outrider.mcp.protocol import ToolSpec

_SERVERS: dict[str, tuple[list[str], str]] = {
    "github": (
        [
            "issue",
            "pull request",
            "repository",
            "branch",
            "release",
            "workflow run",
            "commit",
            "label",
            "milestone",
            "gist",
        ],
        "GitHub",
    ),
    "jira": (
        ["ticket", "sprint", "board", "epic", "worklog", "project", "version", "component", "filter", "dashboard"],
        "Jira",
    ),
    "slack": (
        ["message", "channel", "reaction", "thread", "reminder", "user group", "file", "canvas", "bookmark", "status"],
        "Slack",
    ),
    "google": (
        [
            "calendar event",
            "mail",
            "contact",
            "document",
            "spreadsheet",
            "slide",
            "task",
            "form",
            "drive file",
            "meeting room",
        ],
        "Google",
    ),
    "postgres": (
        ["table", "row", "index", "view", "schema", "role", "function", "trigger", "sequence", "extension"],
        "PostgreSQL",
    ),
    "kubernetes": (
        ["pod", "deployment", "service", "config map", "secret", "namespace", "node", "job", "ingress", "volume"],
        "Kubernetes",
    ),
    "stripe": (
        ["customer", "invoice", "subscription", "refund", "payout", "coupon", "price", "product", "charge", "dispute"],
        "Stripe",
    ),
    "sentry": (
        [
            "error event",
            "alert rule",
            "release health",
            "transaction",
            "replay",
            "team",
            "monitor",
            "span",
            "crash",
            "feedback",
        ],
        "Sentry",
    ),
    "figma": (
        ["frame", "component set", "comment", "style", "prototype", "layer", "variable", "export", "page", "plugin"],
        "Figma",
    ),
    "notion": (
        [
            "database entry",
            "page block",
            "workspace",
            "template",
            "property",
            "relation",
            "toggle",
            "callout",
            "synced block",
            "wiki",
        ],
        "Notion",
    ),
}
_VERBS = ("create", "get", "list", "update", "delete", "search", "archive", "export", "watch", "count")


def catalogue() -> dict[str, list[ToolSpec]]:
    """Return the tools of ten servers, a hundred each."""
    return {
        server: [_spec(verb, noun, title) for noun, verb in product(nouns, _VERBS)]
        for server, (nouns, title) in _SERVERS.items()
    }


def _spec(verb: str, noun: str, title: str) -> ToolSpec:
    name = f"{verb}_{noun.replace(' ', '_')}"
    about = f"{verb.capitalize()} a {noun} in {title}. Needs permission to {verb} the {noun}s of the organisation."
    properties: dict[str, Any] = {
        f"{noun.replace(' ', '_')}_id": {"type": "string", "description": f"The id of the {noun}."},
        "dry_run": {"type": "boolean"},
    }
    return ToolSpec(name=name, description=about, input_schema={"type": "object", "properties": properties})
