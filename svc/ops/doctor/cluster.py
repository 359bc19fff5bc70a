"""Checks of the cluster around a role: its root, its keys, its members and their versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from svc import __version__
from svc.config import Address
from svc.interfaces.store import ITransaction
from svc.model.clocks import since
from svc.model.cluster.key_revision import KeyRevision, KeyState
from svc.model.cluster.lease import LeaderLease, Member
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.onward import ends_at_connector
from svc.model.cluster.registration import GATE_NOT_OFFERED, GATED_KINDS, HIGHEST, SSH_GATE
from svc.model.cluster.resource import Resource
from svc.model.distribution import RotationPause
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import ROLES, CheckContext
from svc.ops.doctor.probes import is_running, readiness
from svc.ops.doctor.trust import root_of
from svc.pki.identity import TransportIdentity
from svc.pki.verify import ca_pin

_AUTHORITY = ("authority",)
_NAMED = 5
_PRIVATE = "endpoints.private_listen"
_NOT_READY, _CONTROL_POOL = "not ready", "control pool"
"""In a Proxy's ``/readyz``."""


def _root(context: CheckContext) -> Iterator[Finding]:
    """The fingerprint that ``openssl x509 -fingerprint -sha256`` shows, without colons."""
    yield ok(
        "SHA-256 of the cluster's root certificate, the pin that --ca-pin takes: "
        f"{ca_pin(root_of(context))}"
    )


def _rotation(context: CheckContext) -> Iterator[Finding]:
    def look(tx: ITransaction) -> tuple[tuple[KeyRevision, ...], tuple[RotationPause, ...]]:
        return tx.keyrings.all(), tx.keyrings.pauses()

    revisions, pauses = context.store.look("doctor keys", look)
    for paused in pauses:
        if paused.is_paused:
            yield info(
                f"rotation of keys and CAs is paused by {paused.by}",
                "to go on: svc authority ca rotation resume",
            )
    prepared = [one for one in revisions if one.state is KeyState.PREPARED]
    for one in prepared:
        yield info(
            f"the key {one.kind} is being renewed: revision {one.revision} is prepared, and not "
            "in use yet",
            "let the renewal come to its end before an upgrade",
        )
    active = [one for one in revisions if one.state is KeyState.ACTIVE]
    yield ok(f"no renewal of a key is under way; in use: {_shown_keys(active)}")


def _shown_keys(active: Sequence[KeyRevision]) -> str:
    return ", ".join(f"{one.kind} {one.revision}" for one in active) or "none on record"


def _members(context: CheckContext) -> Iterator[Finding]:
    """Every Authority that is in the registry has a private address here, and we are reachable."""

    def look(tx: ITransaction) -> tuple[LeaderLease, list[Member], tuple[Node, ...]]:
        return tx.lease.held(), tx.lease.members(), tx.nodes.all()

    lease, members, nodes = context.store.look("doctor members", look)
    active = {one.id for one in nodes if one.state is NodeState.ACTIVE}
    # A row of our own node may still have a name that we had before.
    own_id = _node_id(context)
    own = context.settings.authority.name or own_id
    this = f"this is {own}" if own else "this Authority has no name before its first start"
    others = [one.owner for one in members if one.node_id in active and one.node_id != own_id]
    leader = "nobody leads" if lease.is_free else f"{lease.owner} leads in epoch {lease.epoch}"
    if not others:
        yield ok(f"{this}; it is the only Authority on this store; {leader}")
        return
    names = sorted({own, *others} - {""})
    for name in names:
        if name not in context.settings.authority.peers:
            yield fail(
                f"authority.peers.{name} is missing: {name} is an Authority on this store",
                "list the private address of every Authority in authority.peers, in each of "
                "them; one that is gone for good: svc authority nodes revoke",
            )
    if context.settings.endpoints.private_listen is None:
        yield fail(
            f"{_PRIVATE} is empty, so the other Authorities cannot reach this one",
            f"set {_PRIVATE} to a private address",
        )
    yield ok(f"{len(names)} Authorities on this store: {', '.join(names)}; {this}; {leader}")


def _node_id(context: CheckContext) -> str:
    """Under which an Authority without a name holds the lease; empty where it has no identity."""
    if not context.identities.exists:
        return ""
    cluster = context.settings.cluster
    return TransportIdentity.load(context.identities, lambda: context.at, cluster).principal.id


def _version_skew(context: CheckContext) -> Iterator[Finding]:
    nodes = context.store.look("doctor versions", lambda tx: tx.nodes.all())
    seen = [one for one in nodes if one.state is NodeState.ACTIVE and one.version]
    others = [one for one in seen if one.version != __version__]
    pool = [one for one in others if one.role in ("authority", "proxy")]
    rest = [one for one in others if one.role not in ("authority", "proxy")]
    if pool:
        yield warn(
            f"not of version {__version__}: {_shown_nodes(pool)}",
            "upgrade all Authorities and Proxies to one version in the same window",
        )
    if rest:
        yield info(
            f"not of version {__version__}: {_shown_nodes(rest)}",
            "upgrade Connectors after Authorities and Proxies",
        )
    yield ok(f"nodes that told their version: {len(seen)}, all of {__version__}")


def _shown_nodes(nodes: Sequence[Node]) -> str:
    named = [f"{one.role} {one.name} ({one.version})" for one in nodes[:_NAMED]]
    more = [f"{len(nodes) - _NAMED} more"] if len(nodes) > _NAMED else []
    return ", ".join([*named, *more])


def _epochs(context: CheckContext) -> Iterator[Finding]:
    """The epoch of the SSH gate in force, and the Connectors that cannot serve SSH by it.

    A Connector that has never registered is left out: what it can do is not known.
    """

    def look(
        tx: ITransaction,
    ) -> tuple[int, Mapping[str, int], tuple[Node, ...], tuple[Resource, ...]]:
        known = tx.epochs.get(SSH_GATE)
        epoch = 0 if known is None else known.epoch
        return epoch, tx.epochs.offers(SSH_GATE), tx.nodes.all(), tx.catalog.all()

    epoch, offers, nodes, catalog = context.store.look("doctor epochs", look)
    if epoch > HIGHEST:
        yield fail(
            f"epoch {epoch} of the SSH gate is in force, and this build knows none after {HIGHEST}",
            "upgrade this Authority: an epoch that is in force is never taken back",
        )
    served = [one for one in catalog if one.kind in GATED_KINDS and one.assigned_to is not None]
    counts = Counter(one.assigned_to for one in served)
    serving = {
        one.id: one
        for one in nodes
        if one.state is NodeState.ACTIVE and one.version and counts[one.id]
    }
    withheld = [one for one in serving.values() if offers.get(one.id, 0) < epoch]
    if withheld:
        yield warn(
            f"Connectors that keep no gate of epoch {epoch} are not given their SSH resources "
            f"({GATE_NOT_OFFERED}): {_shown_nodes(withheld)}",
            "upgrade them; each has its resources back when it registers again",
        )
    older = {one.id for one in serving.values() if not offers.get(one.id, 0)}
    ungated = [
        one.id for one in served if one.assigned_to in older and ends_at_connector(one.onward_auth)
    ]
    if ungated and not withheld:
        more = f" and {len(ungated) - _NAMED} more" if len(ungated) > _NAMED else ""
        yield warn(
            "the catalog says that their SSH ends at the Connector, but the Connector is older "
            f"than the gate: {', '.join(sorted(ungated)[:_NAMED])}{more}",
            "upgrade these Connectors; then `svc authority epochs activate` keeps older ones out",
        )
    yield ok(
        f"epoch {epoch} of the SSH gate is in force; Connectors that serve SSH: {len(serving)}"
    )


def _leaves(context: CheckContext) -> Iterator[Finding]:
    """What is left of each node's certificate, by the registry."""
    nodes = context.store.look("doctor leaves", lambda tx: tx.nodes.all())
    active = [one for one in nodes if one.state is NodeState.ACTIVE]
    ended = [one for one in active if one.leaf.expires <= context.at]
    if ended:
        names = ", ".join(f"{one.role} {one.name}" for one in ended[:_NAMED])
        yield warn(
            f"nodes whose certificate has expired: {len(ended)} ({names})",
            "start them, have them join again, or revoke them: svc authority nodes revoke",
        )
    good = sorted((one for one in active if one not in ended), key=lambda one: one.leaf.expires)
    left = [
        f"{one.role} {one.name} {since(one.leaf.expires - context.at)}" for one in good[:_NAMED]
    ]
    yield ok(
        f"nodes with a valid certificate: {len(good)}; the next to end: {', '.join(left) or '-'}"
    )


def _authority_addresses(context: CheckContext) -> Iterator[Finding]:
    """One address that stands for several Authorities can leave a Proxy not ready (G-RDY-09)."""
    addresses = context.authorities
    if len(addresses) != 1:
        yield ok(f"Authority addresses that are listed: {len(addresses)}")
        return
    (address,) = addresses
    behind = context.resolve(address.host)
    hint = "list the address of each Authority in endpoints.authority and authority_failover"
    if len(behind) > 1 and not _is_one_machine(address):
        yield warn(
            f"endpoints.authority has only {address}, which stands for {len(behind)} addresses "
            f"({', '.join(behind)}): this Proxy may stay not ready",
            hint,
        )
    elif _has_no_leader(context):
        yield warn(
            f"endpoints.authority has only {address}, and this Proxy has not found the leader "
            "there: it is not ready",
            hint,
        )
    else:
        yield ok(
            f"endpoints.authority has only {address}; should that be a load balancer before "
            "several Authorities, list each of them"
        )


def _has_no_leader(context: CheckContext) -> bool:
    """Whether the Proxy runs and waits for its first connection to the leading Authority."""
    if context.is_within or not is_running(context.base_state):
        return False
    first, _, _ = readiness(context.base_state).partition("\n")
    return first.startswith(_NOT_READY) and _CONTROL_POOL in first


def _is_one_machine(address: Address) -> bool:
    """``localhost`` has an IPv4 and an IPv6 address."""
    return address.is_loopback


CHECKS = (
    Check("cluster.root", ROLES, _root, needs_state=True),
    Check("cluster.rotation", _AUTHORITY, _rotation, needs_state=True),
    Check("cluster.members", _AUTHORITY, _members, needs_state=True),
    Check("cluster.version_skew", _AUTHORITY, _version_skew, needs_state=True),
    Check("cluster.epochs", _AUTHORITY, _epochs, needs_state=True),
    Check("cluster.leaves", _AUTHORITY, _leaves, needs_state=True),
    Check("cluster.authority_addresses", ("proxy",), _authority_addresses),
)
