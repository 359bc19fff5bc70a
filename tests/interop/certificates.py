"""One certificate of each sort that the product makes, as stock programs take them."""

from __future__ import annotations

import os
import time
from functools import cache

from attrs import frozen
from cryptography import x509

from svc.model.certificate import CertificateRequest
from svc.model.ids import node_id
from svc.model.principal import HOLDERS, Principal, Role
from svc.pki.files import certificates_pem
from svc.pki.issue import make_request, prove_key
from svc.pki.profile import DAY
from svc.pki.root import make_cluster, new_key

CLUSTER = "gate.example.org"
HOST = "proxy.gate.example.org"
GENERATION = 7


@frozen
class Sample:
    """One certificate.

    Attributes:
        chain: PEM: itself, and the issuing CA above it; without the root.
        uri: What its one URI must be.
        is_server: Whether a TLS client may take it for a server's, and so on.
    """

    name: str
    chain: tuple[str, ...]
    uri: str
    is_server: bool = False
    is_client: bool = False
    is_ca: bool = False

    @property
    def is_purpose(self) -> bool:
        """Whether it is for neither TLS nor signing certificates."""
        return not (self.is_ca or self.is_client)


@cache
def samples() -> dict[str, Sample]:
    """All of them, by name; the root, too."""
    keys = make_cluster(CLUSTER, time.time, os.urandom)
    made = [Sample("root", (_pem(keys.root),), f"spiffe://{CLUSTER}", is_ca=True)]
    for kind, issuer in keys.issuers.items():
        uri = f"spiffe://{CLUSTER}/ca/{kind}"
        made.append(Sample(kind, (_pem(issuer.certificate),), uri, is_ca=True))
    for word, purpose in keys.purposes.items():
        uri = f"spiffe://{CLUSTER}/purpose/{word}"
        made.append(Sample(word, (_pem(purpose.certificate),), uri))
    for role in sorted(HOLDERS, key=str):
        key = new_key()
        csr = make_request(key)
        id = node_id(prove_key(csr).info)
        principal = Principal(CLUSTER, role, f"agent-{id}" if role is Role.AGENT else id)
        names = (HOST, "192.0.2.1", "2001:db8::1") if role.is_node else ()
        request = CertificateRequest(
            csr=csr, principal=principal, lifetime=DAY, generation=GENERATION, names=names
        )
        chain = keys.issuer_for(role).sign(request).chain
        texts = tuple(_pem(x509.load_der_x509_certificate(each)) for each in chain)
        made.append(
            Sample(
                name=role.value,
                chain=texts,
                uri=principal.uri,
                is_server=role.is_node,
                is_client=True,
            )
        )
    return {each.name: each for each in made}


def _pem(certificate: x509.Certificate) -> str:
    return certificates_pem(certificate).decode("ascii")
