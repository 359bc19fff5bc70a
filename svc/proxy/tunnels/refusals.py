"""The reasons why a tunnel is not registered, in the words of document 1."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.errors import Fault, SvcError
from svc.model.signing import BadSignature

REFUSAL_FAULTS = {
    "unknown_node": Fault.DENIED,
    "revoked_node": Fault.DENIED,
    "authority_unreachable": Fault.UNAVAILABLE,
    "malformed_registration": Fault.INVALID,
    "resource_owned_by_peer": Fault.EXISTS,
    "catalog_permits_none": Fault.PRECONDITION,
    "no_resource_kinds": Fault.PRECONDITION,
}
"""The seven refusals of document 1 and what a Connector's call ends with (G-OPEN-04)."""

UNASSIGNED = frozenset({"catalog_permits_none", "resource_owned_by_peer"})
"""Those that say nothing of the Connector but of what it is to serve."""

REFUSAL_LINES = {
    "unknown_node": "Authority refused the registration because it does not know the node",
    "revoked_node": "Authority refused the registration because the node was revoked",
    "authority_unreachable": "registration refused because Authority cannot be reached",
    "malformed_registration": "Authority refused the registration because it is malformed",
    "resource_owned_by_peer": (
        "Authority refused the registration because a resource belongs to another node"
    ),
    "catalog_permits_none": (
        "Authority refused the registration because the catalog permits none of its resources"
    ),
    "no_resource_kinds": (
        "Authority refused the registration because it carries no resource kinds"
    ),
}
"""One log line a cause (G-LOG-10)."""


@define
class RelayStreams:
    """Counts the control-plane streams of tunnels.

    Attributes:
        outcome: Told ``open``, ``refused``, ``dial_failed`` or ``unconfigured``.
        active: Told +1 and -1.
    """

    outcome: Callable[[str], object]
    active: Callable[[int], object]

    def opened(self) -> None:
        """One more is open, until :meth:`ended` is called for it."""
        self.outcome("open")
        self.active(1)

    def ended(self) -> None:
        """One that was open is over."""
        self.active(-1)


def refusal_of(reason: str, text: str) -> SvcError:
    """The refusal of a registration, by its stable word."""
    if reason.startswith("certificate_"):
        return SvcError(text, reason=reason, fault=Fault.UNAUTHENTICATED)
    if reason == BadSignature.reason:
        reason = "malformed_registration"
    return SvcError(text, reason=reason, fault=REFUSAL_FAULTS.get(reason, Fault.PRECONDITION))


def refusal_line(reason: str) -> str:
    """The log line of a refusal: one a cause."""
    return REFUSAL_LINES.get(reason, "a registration was refused")


def is_counted_already(refusal: SvcError) -> bool:
    """Whether the route table refused it, and counted it, by itself."""
    return refusal.reason == "stale_registration"


def as_refusal(error: SvcError) -> SvcError:
    """What ended a registration before it stood, in the words of the seven refusals."""
    if error.reason in REFUSAL_FAULTS:
        return refusal_of(error.reason, error.text)
    if error.fault is Fault.INVALID:
        return refusal_of("malformed_registration", error.text)
    return error
