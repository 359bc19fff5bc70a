"""The reasons for which a session is not opened, on both sides of a tunnel.

A Connector refuses with a word and nothing else: what it found wrong stays in
its own log.  The words never change; a word this build does not know came
from a newer Connector and is passed on.
"""

from __future__ import annotations

from types import MappingProxyType

from svc.errors import Fault, SvcError
from svc.model.session.ending import ENDINGS

CONNECTOR_WORDS = MappingProxyType(
    {
        "grant_refused": Fault.DENIED,
        "grant_malformed": Fault.INVALID,
        "grant_cluster": Fault.DENIED,
        "grant_session": Fault.DENIED,
        "grant_not_for_us": Fault.DENIED,
        "grant_other_proxy": Fault.DENIED,
        "grant_too_old": Fault.DENIED,
        "grant_before_start": Fault.DENIED,
        "grant_times": Fault.DENIED,
        "assignment_changed": Fault.DENIED,
        "request_refused": Fault.DENIED,
        "request_mismatch": Fault.DENIED,
        "person_refused": Fault.DENIED,
        "person_mismatch": Fault.DENIED,
        "session_replayed": Fault.DENIED,
        "too_many_sessions": Fault.EXHAUSTED,
        "resource_not_here": Fault.NOT_FOUND,
        "kind_mismatch": Fault.PRECONDITION,
        "ceiling_unenforced": Fault.PRECONDITION,
        "address_out_of_reach": Fault.PRECONDITION,
        "target_unreachable": Fault.UNAVAILABLE,
        "target_deadline": Fault.DEADLINE,
        "target_refused": Fault.PRECONDITION,
        "target_login_refused": Fault.PRECONDITION,
        "target_no_database": Fault.NOT_FOUND,
        "target_busy": Fault.UNAVAILABLE,
        "target_untrusted": Fault.PRECONDITION,
        "no_credential": Fault.PRECONDITION,
        "recording_unavailable": Fault.UNAVAILABLE,
        "connector_stopping": Fault.UNAVAILABLE,
        "connector_failed": Fault.INTERNAL,
    }
)
"""Every word a Connector refuses an open by, and the sort of refusal it is."""


class OpenRefusedHere(SvcError):
    """The Connector does not open this session; ``reason`` is one of the words."""

    fault = Fault.DENIED
    reason = "grant_refused"


def refused(word: str, text: str) -> OpenRefusedHere:
    """A refusal by one of our words.  Raises KeyError for a word not listed."""
    return OpenRefusedHere(text, reason=word, fault=CONNECTOR_WORDS[word])


def received_refusal(word: str) -> OpenRefusedHere:
    """A refusal as the Proxy heard it, by a word that may be newer than we are."""
    fault = CONNECTOR_WORDS.get(word, Fault.PRECONDITION)
    text = ENDINGS.get(word, "the Connector refused the session")
    return OpenRefusedHere(text, reason=word, fault=fault)
