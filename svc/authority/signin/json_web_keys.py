"""A provider's public keys, read from its JWKS; pure.

A key is chosen by ``kid``, ``kty`` and ``alg`` together, so no header can have
one key used in another's place.  What this program would not verify with (a
short RSA key, a key for encryption, a symmetric or private one) is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import PyJWTError

from svc.authority.signin.refusals import ProviderFault
from svc.authority.signin.strict_json import decode_base64url, read_object

MAX_KEYS = 64
_LEAST_RSA_BYTES = 2048 // 8
_MOST_RSA_BYTES = 8192 // 8


@frozen
class _Kind:
    """A type of key: its ``kty`` and curve."""

    kty: str
    crv: str = ""


_RSA = _Kind("RSA")
ALGORITHMS: Mapping[str, _Kind] = {
    "RS256": _RSA,
    "RS384": _RSA,
    "RS512": _RSA,
    "PS256": _RSA,
    "PS384": _RSA,
    "PS512": _RSA,
    "ES256": _Kind("EC", "P-256"),
    "ES384": _Kind("EC", "P-384"),
    "ES512": _Kind("EC", "P-521"),
    "EdDSA": _Kind("OKP", "Ed25519"),
}
"""The algorithms that an ID token may be signed by, all asymmetric."""

_IMPLEMENTED: Mapping[str, Algorithm] = get_default_algorithms()


@frozen
class ProviderKey:
    """One key, not parsed further until something is verified by it."""

    kid: str
    kind: _Kind
    alg: str
    members: Mapping[str, Any] = field(repr=False)

    def fits(self, kid: str | None, alg: str) -> bool:
        """Whether a signature with this header may be verified by it."""
        return (
            (kid is None or kid == self.kid)
            and self.kind == ALGORITHMS.get(alg)
            and self.alg in ("", alg)
        )

    def verifies(self, alg: str, signed: bytes, signature: bytes) -> bool:
        """Whether *signature* is this key's over *signed*."""
        algorithm: Any = _IMPLEMENTED[alg]
        try:
            key = algorithm.from_jwk(dict(self.members))
            return bool(algorithm.verify(signed, key, signature))
        except (PyJWTError, ValueError, TypeError):
            return False


@frozen
class ProviderKeys:
    """The keys of one JWKS."""

    keys: tuple[ProviderKey, ...] = ()

    def chosen(self, kid: str | None, alg: str) -> ProviderKey | None:
        """The one key that fits; None where there is none, or more than one."""
        found = [key for key in self.keys if key.fits(kid, alg)]
        return found[0] if len(found) == 1 else None


def read_keys(data: bytes) -> ProviderKeys:
    """The keys of a JWKS.

    Raises:
        ProviderFault: ``provider_keys``: it is no JWKS.
    """
    try:
        listed = read_object(data).get("keys")
    except ValueError as error:
        raise _refused(str(error)) from None
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise _refused(f"it does not list at most {MAX_KEYS} keys")
    return ProviderKeys(tuple(filter(None, map(_key, listed))))


def _key(members: object) -> ProviderKey | None:
    """The key of an entry of the list; None for one that we verify nothing with."""
    if not isinstance(members, dict) or "d" in members or "k" in members:
        return None
    if members.get("use", "sig") != "sig":
        return None
    if "verify" not in members.get("key_ops", ["verify"]):
        return None
    kid, alg, kty, crv = (members.get(name, "") for name in ("kid", "alg", "kty", "crv"))
    if not all(isinstance(each, str) for each in (kid, alg, kty, crv)):
        return None
    kind = _Kind(kty, "" if kty == "RSA" else crv)
    if kind not in ALGORITHMS.values() or (kind == _RSA and not _is_long(members.get("n"))):
        return None
    return ProviderKey(kid=kid, kind=kind, alg=alg, members=members)


def _is_long(modulus: object) -> bool:
    try:
        length = len(decode_base64url(modulus)) if isinstance(modulus, str) else 0
    except ValueError:
        return False
    return _LEAST_RSA_BYTES <= length <= _MOST_RSA_BYTES + 1


def _refused(what: str) -> ProviderFault:
    return ProviderFault(f"the identity provider's key set: {what}", reason="provider_keys")
