"""Signs JSON Web Tokens (RFC 7519) with the key of the purpose ``jwt``, and verifies them.

A token says who makes a request to an application.  It is ES256 and nothing else, and the only
thing that this key ever signs: a JWS cannot begin with our own prefix for signatures, as all
others do (rule R14), so that nothing else may be signed by it.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256

from svc.errors import Unauthenticated
from svc.model.canonical import Json
from svc.model.signing import Purpose
from svc.pki import profile
from svc.pki.root import PurposeKey, WrongPurpose

WORD = profile.SIGNED_BY[Purpose.JWT]
TYPE = "svc-identity+jwt"

MAX_TOKEN_BYTES = 16_384

_COORDINATE_BYTES = 32


def signed_token(key: PurposeKey, claims: Mapping[str, Json]) -> str:
    """A token in the compact form, with these claims.

    Raises:
        WrongPurpose: the key is for something else.
    """
    if key.word != WORD or not isinstance(key.key, ec.EllipticCurvePrivateKey):
        raise WrongPurpose(f"the key {key.word} does not sign tokens")
    text = b".".join((_header(key.certificate), _encoded(_json(claims))))
    r, s = decode_dss_signature(key.key.sign(text, ec.ECDSA(SHA256())))
    signature = b"".join(one.to_bytes(_COORDINATE_BYTES, "big") for one in (r, s))
    return b".".join((text, _encoded(signature))).decode("ascii")


def verified_claims(token: bytes, certificates: Iterable[x509.Certificate]) -> Mapping[str, Json]:
    """The claims of a token that one of these keys has signed; nobody has looked at them yet.

    The header is compared with those that we write and never parsed, so that no algorithm, key or
    extension can be chosen by it; the claims are parsed once the signature is good.

    Raises:
        Unauthenticated: it is not such a token.
    """
    header, claims, signature = _parts(token)
    for certificate in certificates:
        if header == _header(certificate) and _is_signed(
            certificate, header + b"." + claims, signature
        ):
            found: Mapping[str, Json] = json.loads(_decoded(claims))
            return found
    raise _refused()


def _parts(token: bytes) -> tuple[bytes, bytes, bytes]:
    parts = token.split(b".") if len(token) <= MAX_TOKEN_BYTES else []
    if len(parts) != 3:
        raise _refused()
    header, claims, signature = parts
    return header, claims, _decoded(signature)


def _is_signed(certificate: x509.Certificate, text: bytes, signature: bytes) -> bool:
    public = certificate.public_key()
    if len(signature) != 2 * _COORDINATE_BYTES or not isinstance(public, ec.EllipticCurvePublicKey):
        return False
    halves = signature[:_COORDINATE_BYTES], signature[_COORDINATE_BYTES:]
    r, s = (int.from_bytes(one, "big") for one in halves)
    try:
        public.verify(encode_dss_signature(r, s), text, ec.ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def _refused() -> Unauthenticated:
    return Unauthenticated("the token is not one of this cluster's", reason="token_refused")


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


def _header(certificate: x509.Certificate) -> bytes:
    """The one header that a token of this key has."""
    return _encoded(_json({"alg": "ES256", "kid": key_id(certificate), "typ": TYPE}))


def _json(value: Mapping[str, Json]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")


def _encoded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: bytes) -> bytes:
    """What :func:`_encoded` was given; raises Unauthenticated for any other spelling of it."""
    try:
        data = urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise _refused() from None
    if _encoded(data) != text:
        raise _refused()
    return data
