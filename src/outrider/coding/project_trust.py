"""All that a project wants and that needs the user's consent: settings, hooks, MCP servers and plugins."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from outrider.coding.config.loading import load
from outrider.coding.consent.item import ConsentItem
from outrider.coding.consent.store import Consents, consent_folder
from outrider.coding.extensions import Extensions
from outrider.coding.mcp.server_files import find_servers
from outrider.environment import data_folder


class ProjectTrust(msgspec.Struct, frozen=True):
    """What waits for the user's consent in a folder, and what the user has agreed to."""

    folder: Path
    waiting: tuple[ConsentItem, ...]
    agreed: tuple[ConsentItem, ...]
    notes: tuple[str, ...]
    """What is wrong with a file, and is therefore not used."""


def find_trust(folder: Path) -> ProjectTrust:
    """Return what a folder wants. Raises ConfigError if its settings are invalid."""
    folder = Path(os.path.realpath(folder))
    loaded = load(folder, environment=os.environ)
    extensions = Extensions(folder, loaded.settings.hooks.files)
    servers = find_servers(folder)
    plugins = [each.consent for each in extensions.plugins.plugins if each.consent and not each.is_waiting]
    return ProjectTrust(
        folder,
        (*loaded.waiting, *extensions.hooks.waiting, *servers.waiting, *extensions.plugins.waiting),
        (*loaded.agreed, *extensions.hooks.agreed, *servers.agreed, *plugins),
        (*loaded.notes, *extensions.hooks.notes, *servers.notes, *extensions.plugins.refused),
    )


def revoke_trust(trust: ProjectTrust) -> tuple[ConsentItem, ...]:
    """Remove every consent to what a folder wants. Return what the user had agreed to."""
    items = (*trust.waiting, *trust.agreed)
    own = {consent_folder(item.file) for item in items} | {trust.folder}
    for folder in own:
        Consents(data_folder()).forget(folder)
    return trust.agreed
