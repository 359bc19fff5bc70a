"""What the registry and the log store about an issued certificate."""

from __future__ import annotations

from svc.model.audit.record import rfc3339
from svc.model.certificate import NewCertificate
from svc.model.cluster.node import Leaf


def leaf_of(issued: NewCertificate) -> Leaf:
    """Of a node's registry row."""
    return Leaf(issued.facts.serial, issued.key_sha256, issued.facts.not_after)


def certificate_details(issued: NewCertificate) -> dict[str, str | int]:
    """Of the record of its issue."""
    facts = issued.facts
    return {
        "serial": facts.serial,
        "certificate_sha256": facts.sha256.hex(),
        "not_after": rfc3339(facts.not_after),
        "generation": facts.generation,
    }
