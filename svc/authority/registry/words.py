"""Names as operators give them, and the refusals that name them."""

from __future__ import annotations

from svc.authority.ingest.notes import checked_note
from svc.authority.state.tables import SignedRows
from svc.errors import Fault, Malformed, SvcError
from svc.model.cluster.person import Person
from svc.model.ids import is_member_name, is_opaque_id


def checked_name(name: str, what: str) -> str:
    """*name*, if it can be the name of a node, a person, an agent or a group."""
    if not is_member_name(name):
        raise Malformed(
            f"{what}: may have letters, digits and . _ @ -, must start with a letter or digit, "
            "and has at most 128 characters"
        )
    return name


def optional_note(text: str) -> dict[str, str]:
    """What an operator gave as the reason, as a detail of the record; nothing without one."""
    return {"note": checked_note(text)} if text else {}


def known_person(rows: SignedRows, word: str) -> Person:
    """The person of that id or name.

    Raises:
        SvcError: ``unknown_person``, or the row is not what was signed for.
    """
    found = rows.person(word) if is_opaque_id(word) else rows.person_named(word)
    if found is None:
        raise SvcError(
            f"person {word}: does not exist; list them: svc authority persons list",
            reason="unknown_person",
            fault=Fault.NOT_FOUND,
        )
    return found


def already_exists(text: str) -> SvcError:
    """The refusal of what is there."""
    return SvcError(text, reason="already_exists", fault=Fault.EXISTS)
