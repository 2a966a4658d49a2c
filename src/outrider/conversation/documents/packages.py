"""Office Open XML: an archive of parts that refer to each other."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from outrider.conversation.documents.archive import Archive, resolved
from outrider.conversation.documents.trees import tree


class Relation(msgspec.Struct, frozen=True):
    """What a part refers to."""

    kind: str
    """The last word of its type: officeDocument, hyperlink, notesSlide."""
    target: str
    """The name of a part; an address, if it is outside the archive."""
    is_external: bool


def relations(archive: Archive, part: str) -> Mapping[str, Relation]:
    """What a part refers to, by id; nothing if it says nothing. The part "" stands for the archive itself."""
    folder, _, name = part.rpartition("/")
    listing = f"{folder}/_rels/{name}.rels".lstrip("/")
    if listing not in archive:
        return {}
    found: dict[str, Relation] = {}
    for each in tree(archive.pieces(listing), archive.budget).iter("Relationship"):
        outside = each.get("TargetMode") == "External"
        target = each.get("Target", "")
        kind = each.get("Type", "").rpartition("/")[2]
        found[each.get("Id", "")] = Relation(kind, target if outside else resolved(part, target), outside)
    return found


def main_part(archive: Archive, usual: str) -> str:
    """The part with which a document begins."""
    return part_of_kind(relations(archive, ""), "officeDocument") or usual


def part_of_kind(related: Mapping[str, Relation], kind: str) -> str:
    """The first part of a kind that is referred to; empty if there is none."""
    return next((each.target for each in related.values() if each.kind == kind and not each.is_external), "")
