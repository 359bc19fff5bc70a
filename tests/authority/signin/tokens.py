"""Signs ID tokens, good and bad, as a provider would or would not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from svc.authority.signin.id_token import ExpectedToken, check_claims, read_token
from svc.authority.signin.json_web_keys import ProviderKeys, read_keys
from svc.authority.signin.strict_json import encode_base64url as b64

NOW = 1_800_000_000.0
ISSUER, CLIENT, NONCE = "https://id.example", "svc", "n" * 43
ACCESS = "an access token"
GOOD: Mapping[str, Any] = {
    "iss": ISSUER,
    "sub": "00u1",
    "aud": CLIENT,
    "exp": NOW + 300,
    "iat": NOW,
    "nonce": NONCE,
}
EXPECTED = ExpectedToken(issuer=ISSUER, audience=CLIENT, nonce=NONCE, access_token=ACCESS)


@cache
def rsa_key(bits: int) -> rsa.RSAPrivateKey:
    """An RSA key of this length."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    """A P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    """An Ed25519 key."""
    return ed25519.Ed25519PrivateKey.generate()


def number(value: int) -> str:
    """A number as a JWK has it."""
    return b64(value.to_bytes((value.bit_length() + 7) // 8))


def rsa_jwk(bits: int = 2048, **more: Any) -> dict[str, Any]:
    """The RSA key's entry of a key set."""
    public = rsa_key(bits).public_key().public_numbers()
    return {"kty": "RSA", "kid": "r1", "n": number(public.n), "e": number(public.e), **more}


def ec_jwk(**more: Any) -> dict[str, Any]:
    """The P-256 key's."""
    public = ec_key().public_key().public_numbers()
    x, y = (b64(each.to_bytes(32)) for each in (public.x, public.y))
    return {"kty": "EC", "crv": "P-256", "kid": "e1", "x": x, "y": y, **more}


def ed_jwk(**more: Any) -> dict[str, Any]:
    """The Ed25519 key's."""
    x = b64(ed_key().public_key().public_bytes_raw())
    return {"kty": "OKP", "crv": "Ed25519", "kid": "d1", "x": x, **more}


def key_set(*entries: Mapping[str, Any]) -> bytes:
    """A JWKS."""
    return json.dumps({"keys": entries or (rsa_jwk(), ec_jwk(), ed_jwk())}).encode()


@cache
def keys() -> ProviderKeys:
    """The keys of the good provider."""
    return read_keys(key_set())


def signed(header: Mapping[str, Any], claims: Mapping[str, Any] | bytes) -> str:
    """A token; signed by the key that its ``alg`` names, whatever else the header says."""
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    text = f"{b64(json.dumps(header).encode())}.{b64(payload)}"
    return f"{text}.{b64(signature(str(header.get('alg')), text.encode()))}"


def signature(alg: str, text: bytes) -> bytes:
    """Over *text*."""
    if alg == "ES256":
        r, s = decode_dss_signature(ec_key().sign(text, ec.ECDSA(SHA256())))
        return r.to_bytes(32) + s.to_bytes(32)
    if alg == "EdDSA":
        return ed_key().sign(text)
    if alg == "PS256":
        pss = padding.PSS(padding.MGF1(SHA256()), 32)
        return rsa_key(2048).sign(text, pss, SHA256())
    return rsa_key(2048).sign(text, padding.PKCS1v15(), SHA256())


def half_hash(text: str) -> str:
    """``at_hash`` by SHA-256."""
    return b64(sha256(text.encode()).digest()[:16])


def verified(
    token: str, expected: ExpectedToken = EXPECTED, known: ProviderKeys | None = None
) -> Mapping[str, Any]:
    """The claims of a token, as the provider's part does it.

    Raises:
        SignInRefused: it is bad.
    """
    parts = read_token(token)
    claims = parts.claims(known or keys())
    check_claims(claims, expected, NOW, parts.header.alg)
    return claims
