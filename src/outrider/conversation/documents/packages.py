"""Office Open XML packages: archives of parts that refer to each other."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from outrider.conversation.documents.archive import Archive, resolve_name
from outrider.conversation.documents.trees import tree


class Relation(msgspec.Struct, frozen=True):
    """A reference from one part to another, or to an external URL."""

    kind: str
    """The last segment of its type: officeDocument, hyperlink, notesSlide."""
    target: str
    """The name of a part, or an external URL."""
    is_external: bool


def relations(archive: Archive, part: str) -> Mapping[str, Relation]:
    """Return the references of a part by id. The part "" is the archive itself."""
    folder, _, name = part.rpartition("/")
    listing = f"{folder}/_rels/{name}.rels".lstrip("/")
    if listing not in archive:
        return {}
    found: dict[str, Relation] = {}
    for each in tree(archive.pieces(listing), archive.budget).iter("Relationship"):
        outside = each.get("TargetMode") == "External"
        target = each.get("Target", "")
        kind = each.get("Type", "").rpartition("/")[2]
        found[each.get("Id", "")] = Relation(kind, target if outside else resolve_name(part, target), outside)
    return found


def main_part(archive: Archive, usual: str) -> str:
    """Return the main part of a document."""
    return part_of_kind(relations(archive, ""), "officeDocument") or usual


def part_of_kind(related: Mapping[str, Relation], kind: str) -> str:
    """Return the first part of a kind among the references; empty if there is none."""
    return next((each.target for each in related.values() if each.kind == kind and not each.is_external), "")
