"""The seam of resource kinds: what sort of target this is, and how it is reached.

A kind is pure data and pure functions but for ``endpoint``, which makes an
object and does no I/O.  Constructing one has no effect; a kind works only
where the configuration names its drop-in (``kind_<word>``).
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import Attribute, Interface

from svc.model.cluster.target import Target


@frozen
class KindTerms:
    """How policies speak of a kind: the names it adds to the Cedar schema.

    Attributes:
        entity_type: Cedar entity type of its resources, such as ``TcpService``.
        open_action: The action that a session's open is decided by.
        actions: Every action of the kind, ``open_action`` among them.
        attributes: Entity attributes beyond those every resource has.
        context: Context facts beyond those every action has; all are
            optional in the schema.

    Both map a name to its Cedar type.  A name the core has already is used as
    it is there; one of the kind's own adds how it is kept in the audit log,
    as in ``"String personal"`` or ``"Long public"``.  A fact of a request that is
    the client's word alone, and that neither a gate nor the Connector enforces,
    has a third word: ``"String personal claimed"``.  No policy can rest on it.
    """

    entity_type: str
    open_action: str
    actions: tuple[str, ...]
    attributes: Mapping[str, str] = field(factory=dict)
    context: Mapping[str, str] = field(factory=dict)


class IResourceKind(Interface):
    """One kind of resource: how it is described, spoken of and dialed."""

    name: str = Attribute("The word operators write as ``kind``; the drop-in is ``kind_<name>``.")
    request_kind: str = Attribute("What opening it counts as: ``connect``, ``db_connect``, …")
    protocol: str = Attribute("The metric label of its sessions; one lower-case word.")
    opaque: bool = Attribute(
        "True: sessions run TLS end to end between client and Connector (rule R3), so that no "
        "Proxy reads them.  Anything else is refused at start: this build has no request gates."
    )
    terms: KindTerms = Attribute("Its part of the Cedar vocabulary.")
    default_port: int | None = Attribute("Port when an address names none; None: it must.")

    def parse(resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """The target that a Connector's configuration describes.

        Pure; called at start by ``compose``, before the reactor runs.

        Args:
            resource_id: Checked already.
            table: The raw table but for ``id`` and ``kind``.
            path: Where the table stands, such as ``connector.resources[2]``;
                refusals name the key below it.

        Raises:
            ConfigError: naming the key, never echoing a value that may be secret.
        """

    def native_port(labels: Mapping[str, str]) -> int | None:
        """The port a person's own tools expect, from the catalog's labels.

        Called by the resident; None: the kind has none and the resident chooses.
        """

    def endpoint(reactor: IReactorTCP, target: Target) -> IStreamClientEndpoint:
        """What the Connector dials; makes an object, does no I/O.

        Use the *reactor* given: it lets connections pass only to addresses
        within the Connector's reach, and resolves names once.
        """
