"""Why an operator does something to records, in the operator's own words."""

from __future__ import annotations

from svc.errors import Malformed

MAX_NOTE = 1024


def checked_note(text: str) -> str:
    """The operator's reason, bounded.  Raises Malformed: there is none, or it is too long."""
    if not text.strip():
        raise Malformed("reason: required, for the audit record")
    if len(text) > MAX_NOTE:
        raise Malformed(f"reason: longer than {MAX_NOTE} characters")
    return text
