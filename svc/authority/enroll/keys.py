"""Checks the keys that a joining node presents: its own, and no other node's."""

from __future__ import annotations

from svc.errors import Denied, Malformed
from svc.interfaces.store import ITransaction
from svc.model.audit.spool import AUDIT_KEY_BYTES, verify_audit_key
from svc.model.cluster.node import Node, NodeState, TokenRecord
from svc.model.principal import Role
from svc.model.signing import BadSignature
from svc.proto.gate.v1 import bootstrap_pb2 as pb


def check_audit_key(request: pb.EnrollRequest) -> None:
    """Refuse an audit key that the caller does not hold, because its rows would be another's.

    Raises:
        Malformed: it brings none.
        Denied: it does not show that it has it.
    """
    if len(request.audit_public_key) != AUDIT_KEY_BYTES:
        raise Malformed("enroll: a node must send an Ed25519 audit key of 32 bytes")
    try:
        verify_audit_key(request.audit_public_key, request.csr, request.audit_proof)
    except BadSignature as refused:
        raise Denied(
            "enroll: the node did not prove that it holds its audit key: the request lacks "
            "that key's signature over the certificate request",
            reason="audit_key_unproven",
        ) from refused


def check_new_key(tx: ITransaction, audit_key: bytes) -> None:
    """An audit key belongs to one node for ever, so that each row has one origin.

    Raises:
        Denied: it is another's, or was.
    """
    if tx.nodes.keyed(audit_key) is not None:
        raise Denied(
            "enroll: the audit key belongs or belonged to another node; remove identity/ from "
            "this node's state directory, so that it creates its own keys, and join again",
            reason="audit_key_taken",
        )


def check_same_member(known: Node, role: Role, token: TokenRecord, audit_key: bytes) -> None:
    """A key that is registered joins again only as what it is registered as.

    Raises:
        Denied: it was revoked, or is to become another member.
    """
    if known.state is NodeState.REVOKED:
        raise Denied("the node was revoked; it must join with a new key", reason="revoked_node")
    as_known = (known.role, known.name, known.names, known.audit_key)
    if as_known != (role.value, token.bound_to or known.id, token.names, audit_key):
        raise Denied(
            "the node's key is registered to another member; it must join with a new key",
            reason="node_differs",
        )
