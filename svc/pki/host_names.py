"""The host names in a node's certificate, which stock clients check."""

from __future__ import annotations

from cryptography import x509


def host_names(leaf: bytes) -> frozenset[str]:
    """The DNS names and IP addresses of a leaf (DER), written as a configuration writes them.

    Call it with a leaf that was verified: our own.
    """
    extensions = x509.load_der_x509_certificate(leaf).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset({*names.get_values_for_type(x509.DNSName), *map(str, addresses)})
