"""Signs JSON Web Tokens (RFC 7519) with the key of the purpose ``jwt``, and gives its public half.

A token says who makes a request to an application.  It is ES256 and nothing else, and the only
thing that this key ever signs: a JWS cannot begin with our own prefix for signatures, as all
others do (rule R14), so that nothing else may be signed by it.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from svc.model.canonical import Json
from svc.model.signing import Purpose
from svc.pki import profile
from svc.pki.root import PurposeKey, WrongPurpose

WORD = profile.SIGNED_BY[Purpose.JWT]
TYPE = "svc-identity+jwt"

_COORDINATE_BYTES = 32


def signed_token(key: PurposeKey, claims: Mapping[str, Json]) -> str:
    """A token in the compact form, with these claims.

    Raises:
        WrongPurpose: the key is for something else.
    """
    if key.word != WORD or not isinstance(key.key, ec.EllipticCurvePrivateKey):
        raise WrongPurpose(f"the key {key.word} does not sign tokens")
    header = {"alg": "ES256", "kid": key_id(key.certificate), "typ": TYPE}
    text = b".".join(_encoded(_json(part)) for part in (header, claims))
    r, s = decode_dss_signature(key.key.sign(text, ec.ECDSA(SHA256())))
    signature = b"".join(one.to_bytes(_COORDINATE_BYTES, "big") for one in (r, s))
    return b".".join((text, _encoded(signature))).decode("ascii")


def key_set(certificates: Iterable[x509.Certificate]) -> dict[str, Json]:
    """The JWK set (RFC 7517) of these keys' certificates."""
    return {"keys": [_jwk(one) for one in certificates]}


def key_id(certificate: x509.Certificate) -> str:
    """The thumbprint of the key (RFC 7638): whoever has the key can tell it."""
    return _encoded(sha256(_json(_required(certificate))).digest()).decode("ascii")


def _jwk(certificate: x509.Certificate) -> dict[str, Json]:
    about = {"kid": key_id(certificate), "alg": "ES256", "use": "sig"}
    return {**_required(certificate), **about}


def _required(certificate: x509.Certificate) -> dict[str, str]:
    """The members that make the key, and its thumbprint."""
    public = certificate.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)  # as a purpose key is made, and read
    numbers = public.public_numbers()
    x, y = (
        _encoded(one.to_bytes(_COORDINATE_BYTES, "big")).decode("ascii")
        for one in (numbers.x, numbers.y)
    )
    return {"crv": "P-256", "kty": "EC", "x": x, "y": y}


def _json(value: Mapping[str, Json]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")


def _encoded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")
