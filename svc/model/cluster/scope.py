"""Scopes of discovery: which of what Connectors find becomes a resource of the catalog.

A Connector says of a resource its id, its kind and some labels; what it says grants nothing.
An operator's scope says which kinds enter the catalog, from whom, and under which labels of
the operator's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from attrs import field, frozen

from svc.errors import Malformed
from svc.model.cluster.labels import check_labels
from svc.model.cluster.node import Node
from svc.model.cluster.onward import NEEDS_ONWARD_AUTH, OnwardAuth
from svc.model.ids import is_member_name, is_resource_id

MAX_SCOPES = 256
MAX_WORDS = 64
"""Kinds, or Connectors, of one scope."""

MAX_PUBLISHED = 1_000
"""Resources that one source of a Connector publishes."""

MAX_SOURCES = 8
"""Sources of one Connector."""

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
_PREFIX = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class ScopeOrigin(Enum):
    """Who set a scope, and so where it is changed."""

    CONFIG = "config"
    OPERATOR = "operator"


@frozen(kw_only=True)
class DiscoveryScope:
    """What discovery may bring into the catalog.

    Attributes:
        kinds: Of resources that it admits.
        onward_auth: The ways to sign on at a target that a resource of it may have; a resource
            that names none has the only one, where there is only one.
        connectors: Names or ids of the Connectors that publish into it; empty: every one.
        id_prefix: What the id of a resource begins with; empty: any id.
        match_labels: What a Connector must have said of a resource.
        labels: The operator's own, which each of its resources carries.
        revision: Counts its changes from 1.
        set_at: Seconds since the epoch.
        set_by: ``local:<uid>``, the id of a person, or that of an Authority for one of the
            configuration.
    """

    name: str
    kinds: tuple[str, ...]
    onward_auth: tuple[OnwardAuth, ...] = ()
    connectors: tuple[str, ...] = ()
    id_prefix: str = ""
    match_labels: Mapping[str, str] = field(default=_NO_LABELS, hash=False)
    labels: Mapping[str, str] = field(default=_NO_LABELS, hash=False)
    origin: ScopeOrigin = ScopeOrigin.OPERATOR
    revision: int = 1
    set_at: float = 0.0
    set_by: str = ""

    def says_as(self, other: DiscoveryScope) -> bool:
        """Whether both admit the same, in the same way."""
        return self._terms == other._terms

    @property
    def _terms(self) -> tuple[object, ...]:
        return (
            self.name,
            self.kinds,
            self.onward_auth,
            self.connectors,
            self.id_prefix,
            dict(self.match_labels),
            dict(self.labels),
            self.origin,
        )

    def names(self, node: Node) -> bool:
        """Whether it says of this very Connector that it publishes into it."""
        return node.name in self.connectors or node.id in self.connectors

    def admits(self, row: PublishedResource, node: Node) -> bool:
        """Whether a resource that this Connector found is of this scope."""
        return (
            row.kind in self.kinds
            and (not self.connectors or self.names(node))
            and row.id.startswith(self.id_prefix)
            and self.match_labels.items() <= row.labels.items()
        )


def check_scope(scope: DiscoveryScope) -> None:
    """Return if a scope may be set.

    Raises:
        Malformed: naming the scope, and what is wrong.
    """
    if not is_resource_id(scope.name):
        raise Malformed("scope: its name must be one DNS label: a-z, 0-9 and -, at most 63")
    where = f"scope {scope.name}"
    if not scope.kinds:
        raise Malformed(f"{where}: kinds is required")
    _check_words(where, "kinds", scope.kinds)
    _check_words(where, "connectors", scope.connectors)
    if not all(map(_KIND.match, scope.kinds)):
        raise Malformed(f"{where}: kinds: each must be a kind's name, such as tcp")
    if not all(map(is_member_name, scope.connectors)):
        raise Malformed(f"{where}: connectors: each must be the name or id of a Connector")
    if len(set(scope.onward_auth)) != len(scope.onward_auth):
        raise Malformed(f"{where}: onward_auth: a word is listed twice")
    needing = sorted(NEEDS_ONWARD_AUTH.intersection(scope.kinds))
    if needing and not scope.onward_auth:
        raise Malformed(f"{where}: onward_auth is required because kinds contains {needing[0]}")
    if scope.id_prefix and _PREFIX.match(scope.id_prefix) is None:
        raise Malformed(f"{where}: id_prefix must be the beginning of a DNS label")
    for labels in (scope.match_labels, scope.labels):
        try:
            check_labels(labels)
        except Malformed as e:
            raise Malformed(f"{where}: {e.text}") from None


def _check_words(where: str, called: str, words: tuple[str, ...]) -> None:
    if len(words) > MAX_WORDS:
        raise Malformed(f"{where}: {called}: at most {MAX_WORDS}")
    if len(set(words)) != len(words):
        raise Malformed(f"{where}: {called}: a word is listed twice")


@frozen
class PublishedResource:
    """A resource as the Connector that found it describes it; its address stays there.

    Attributes:
        labels: The Connector's word for it: they select, and grant nothing.
        onward_auth: How its source says that its target is signed on to; None: it does not say.
    """

    id: str
    kind: str
    labels: Mapping[str, str] = field(default=_NO_LABELS, hash=False)
    onward_auth: OnwardAuth | None = None


@frozen
class PublishedRow:
    """What the Authority made of one published resource.

    Attributes:
        scope: That admitted it; empty: none did.
        refused: Why it is not served, as a word; empty: it is.
        seen_at: Seconds since the epoch.
    """

    node_id: str
    source: str
    resource_id: str
    kind: str
    labels: Mapping[str, str] = field(hash=False)
    scope: str
    refused: str
    seen_at: float


@frozen
class ScopeLease:
    """For how long what a source published holds.

    Attributes:
        expires_at: Seconds since the epoch; by an Authority's clock of its last renewal.
    """

    node_id: str
    source: str
    expires_at: float


NO_SCOPE = "no_scope"
DECLARED = "declared"
ID_RESERVED = "id_reserved"
OWNED_BY_PEER = "resource_owned_by_peer"
FOUND_BY_PEER = "found_by_peer"
ONWARD_AUTH_REFUSED = "onward_auth_refused"
KIND_DISABLED = "kind_disabled"
MODE_REQUIRED = "mode_required"
STATE_UNSIGNED = "state_unsigned"
CATALOG_FULL = "catalog_full"

REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        NO_SCOPE: "no scope admits it: see `svc authority scopes list`",
        DECLARED: "an operator declared a resource with this id",
        ID_RESERVED: "an operator declared a resource with this id before; declare it again, or "
        "have its source give it another id",
        OWNED_BY_PEER: "another Connector serves a resource with this id",
        FOUND_BY_PEER: "another Connector found a resource with this id before; to let this one "
        "serve it, name both in the scope: svc authority scopes set NAME --connector A "
        "--connector B",
        ONWARD_AUTH_REFUSED: "its scope does not allow the onward_auth that its source names",
        KIND_DISABLED: "its kind is not enabled at the Authority ([plugins].kinds)",
        MODE_REQUIRED: "choose how its target is signed on to: svc authority resources set ID "
        "--onward-auth MODE",
        STATE_UNSIGNED: "the store differs from the signed record of this id",
        CATALOG_FULL: "the catalog has as many discovered resources as it may have",
    }
)
"""Why a published resource is not served; each with what to know or do."""


def first_admitting(
    scopes: Iterable[DiscoveryScope], row: PublishedResource, node: Node
) -> DiscoveryScope | None:
    """The scope of a resource: the first by name that admits it."""
    return next(
        (one for one in sorted(scopes, key=lambda one: one.name) if one.admits(row, node)), None
    )
