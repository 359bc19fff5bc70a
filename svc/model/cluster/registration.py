"""What a Connector registers, and what the Authority answers.

A Connector signs its registration over Authority's nonce (rule R1), so a Proxy
can neither invent one nor use one twice.
"""

from __future__ import annotations

from attrs import frozen

from svc.model.cluster.resource import Assigned

MAX_RESOURCES = 10_000

PERMITS_NONE = "catalog_permits_none"
"""A registration is refused: nothing that it declares is assigned to its Connector."""


@frozen
class DeclaredResource:
    """One resource a Connector offers; ``kind`` may be empty only to be refused.

    ``discovered``: the Connector found it; its configuration does not name it.
    """

    id: str
    kind: str
    discovered: bool = False


@frozen
class Registration:
    """What a node signs over ``svc-registration-v1``.

    Attributes:
        nonce: Authority's, 32 bytes, good for one registration.
        instance_id: New with each process of the node.
        generation: Counts this instance's registrations; a newer one
            supersedes the older on the same Proxy.
        inventory_generation: Of the inventory that this process was told last; 0: of none.
        onward_key: The Ed25519 key, raw, that this process logs in at SSH hosts with where
            Authority certifies it; empty: of an older Connector.
        gate_epoch: The highest epoch of the SSH gate that it keeps; 0: it is older.
    """

    cluster: str
    node_id: str
    proxy_id: str
    nonce: bytes
    resources: tuple[DeclaredResource, ...]
    instance_id: str
    generation: int
    version: str
    capabilities: tuple[str, ...] = ()
    inventory_generation: int = 0
    onward_key: bytes = b""
    gate_epoch: int = 0


@frozen
class Inventory:
    """What a Connector is meant to serve, of what it declared.

    ``generation`` counts the changes of what it is meant to serve at all; 0 is
    that of an Authority that keeps none, and says nothing.
    """

    generation: int = 0
    assigned: frozenset[Assigned] = frozenset()

    def holds(self, wanted: Assigned) -> bool:
        """Whether nothing here speaks against it.

        A grant of an Authority that keeps no assignments is of revision 0.
        """
        return not self.generation or not wanted.revision or wanted in self.assigned


NO_INVENTORY = Inventory()


@frozen
class Withheld:
    """A declared resource the cluster does not give this Connector, and why."""

    id: str
    reason: str


@frozen
class AcceptedRegistration:
    """The registration is valid for ``lease_secs``, and for as long as it is renewed."""

    lease_secs: int
    withheld: tuple[Withheld, ...] = ()
    inventory: Inventory = NO_INVENTORY


# An epoch is what a whole cluster switches on, once every Connector can do it: a number that only
# grows, and 0 is off.

SSH_GATE = "ssh_gate"
"""The name of the SSH gate's epoch."""

HIGHEST = 1
"""The highest epoch of the SSH gate that this build keeps: SSH ends at the Connector where the
catalog says so, and the session is held to its rights."""

GATED_KINDS = frozenset({"ssh"})

GATE_NOT_OFFERED = "gate_not_offered"
"""Why such a resource is withheld."""


@frozen
class Epoch:
    """One that is in force.

    Attributes:
        activated_at: Seconds since the epoch of Unix.
        activated_by: Who did it, as the record of it names them.
    """

    name: str
    epoch: int
    activated_at: float
    activated_by: str
