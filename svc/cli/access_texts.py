"""Requests for access as people and programs are shown them: all that is signed."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from svc.cli.output import moment, pairs
from svc.model.clocks import since
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.messages.access import AccessEntry
    from svc.model.policy.requested import AccessAsk


def ask_lines(ask: AccessAsk) -> list[str]:
    """What is about to be signed, for the person whose name it is asked in: a Proxy said it."""
    bound = [f"{name}={value}" for name, value in sorted(ask.parameters.items())]
    rows: list[tuple[str, object]] = [
        ("resource", ask.resource),
        ("action", f"{ask.action}, one exact text"),
        ("parameters", bound or "any that the policy allows"),
        ("for", f"{since(ask.secs)} from the approval on"),
        ("uses", ask.uses),
        ("reason", ask.reason),
    ]
    return [*pairs(rows), *text_lines(ask.text)]


def document_lines(entry: AccessEntry) -> list[str]:
    """What an approval allows, every part of it, for a person."""
    terms = entry.terms
    uses, secs, asked_at = terms.get("uses"), terms.get("secs"), terms.get("asked_at")
    parameters = terms.get("parameters")
    bound = (
        [f"{name}={value}" for name, value in sorted(parameters.items())]
        if isinstance(parameters, dict)
        else []
    )
    rows: list[tuple[str, object]] = [
        ("request", terms.get("id")),
        ("person", f"{terms.get('person_name')} ({terms.get('person')})"),
        ("resource", f"{terms.get('resource')} ({terms.get('kind')})"),
        ("action", f"{terms.get('action')}, {_extent(entry)}"),
        ("parameters", bound or "any that the policy allows"),
        ("for", f"{since(secs) if isinstance(secs, int) else secs} from the approval on"),
        (
            "uses" if entry.is_exact else "sessions",
            "any number" if uses is None else f"{uses}, of which {entry.used} are used",
        ),
        ("reason", terms.get("reason")),
        ("asked at", moment(asked_at) if isinstance(asked_at, int) else ""),
        ("state", entry.state),
        ("until", moment(entry.ends_at)),
        ("decided by", entry.decided_by),
        ("document", entry.document_sha256.hex()),
    ]
    return [*pairs(rows), *_kept_text(entry)]


def _extent(entry: AccessEntry) -> str:
    return "one exact text" if entry.is_exact else "and what the policy permits within it"


def _kept_text(entry: AccessEntry) -> list[str]:
    """The exact text, held to what an approval binds."""
    if not entry.is_exact:
        return []
    if not entry.text and entry.state != "open":
        return ["text: not kept any more, as it can be used no more"]
    return text_lines(entry.exact_text)


def text_lines(text: bytes) -> list[str]:
    """An exact text for a person: nothing in it is invisible, or looks like something else.

    A backslash is doubled, so that what is escaped cannot be taken for what is written.
    """
    shown = text.decode("utf-8").replace("\\", "\\\\")
    *lines, last = shown.split("\n")
    notes = [] if shown.isascii() else ["it has letters that are not ASCII"]
    if "\\" in shown:
        notes.append("a backslash is shown twice")
    told = "".join(f"; {note}" for note in notes)
    head = f"text: {len(text)} bytes, SHA-256 {sha256(text).hexdigest()}{told}"
    return [
        head,
        *(f"  | {escaped(line)}\\n" for line in lines),
        *([f"  | {escaped(last)}"] if last or not lines else []),
    ]


def waiting_line(count: int) -> str:
    """That requests of others wait for the caller's decision, and how to see them."""
    who = "1 request of another person waits" if count == 1 else f"{count} requests of others wait"
    return f"{who} for your decision: svc requests list --to-decide"


def entry_form(entry: AccessEntry) -> dict[str, Any]:
    """One request for programs."""
    terms = entry.terms
    return {
        "id": terms.get("id"),
        "state": entry.state,
        "person": terms.get("person"),
        "person_name": terms.get("person_name"),
        "resource": terms.get("resource"),
        "kind": terms.get("kind"),
        "action": terms.get("action"),
        "parameters": terms.get("parameters"),
        "asked_reason": terms.get("reason") or None,
        "asked_secs": terms.get("secs"),
        "asked_uses": terms.get("uses"),
        "uses_count": entry.used,
        "expires_at": moment(entry.ends_at) or None,
        "decided_by": entry.decided_by or None,
        "document_sha256": entry.document_sha256.hex(),
        "text_sha256": terms.get("text_sha256"),
        "exact_text": entry.exact_text.decode("utf-8") if entry.text else None,
    }
