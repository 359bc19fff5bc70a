"""Verifies an ID token: from bytes to claims that may be believed; pure.

The order matters: the size before anything is decoded, the header's words
before a key is looked for, the signature before a claim is read.  Only the
signature's arithmetic is a library's.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256, sha384, sha512
from hmac import compare_digest
from typing import Any, NoReturn

from attrs import field, frozen

from svc.authority.signin.json_web_keys import ALGORITHMS, ProviderKeys
from svc.authority.signin.refusals import SignInRefused
from svc.authority.signin.strict_json import decode_base64url, encode_base64url, read_object

MAX_TOKEN = 16 * 1024
LEEWAY_SECS = 60.0
_MAX_SUBJECT = 255
_MAX_AUDIENCES = 16
_NEVER = ("crit", "b64", "zip", "enc")
"""Members of a header that change what the rest means; none of them is understood."""

_TYPES = ("", "jwt", "id_token+jwt")
_HASHES = {"256": sha256, "384": sha384, "512": sha512, "EdDSA": sha512}


@frozen
class ExpectedToken:
    """What an ID token must say.

    Attributes:
        audience: Our client id; of a machine's token, the cluster.
        nonce: Of this attempt; None where the flow has none.
        access_token: What came with it; ``at_hash``, if there, must be of it.
        only_audience: Whether a further audience is refused, and so is a nonce: of a machine's
            token, which no browser's client asked for.
    """

    issuer: str
    audience: str
    nonce: str | None = field(default=None, repr=False)
    access_token: str | None = field(default=None, repr=False)
    only_audience: bool = False


@frozen
class TokenHeader:
    """What chooses the key."""

    alg: str
    kid: str | None


@frozen
class UnverifiedToken:
    """An ID token in its parts; nothing in it is believed yet."""

    header: TokenHeader
    signed: bytes = field(repr=False)
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def claims(self, keys: ProviderKeys) -> Mapping[str, Any]:
        """The claims, once the signature was verified.

        Raises:
            SignInRefused: ``id_token_key``, ``id_token_signature``, ``id_token_malformed``.
        """
        key = keys.chosen(self.header.kid, self.header.alg)
        if key is None:
            refuse("key", "the provider's key set has no one key of its kid, type and algorithm")
        if not key.verifies(self.header.alg, self.signed, self.signature):
            refuse("signature", "its signature does not verify")
        try:
            return read_object(self.payload)
        except ValueError as error:
            refuse("malformed", str(error))


def read_token(token: str) -> UnverifiedToken:
    """The parts of a token.

    Raises:
        SignInRefused: ``id_token_oversize``, ``_malformed``, ``_encrypted``, ``_critical``,
            ``_type``, ``_unsigned``, ``_alg``.
    """
    if len(token) > MAX_TOKEN:
        refuse("oversize", f"it is longer than {MAX_TOKEN} bytes")
    parts = token.split(".")
    if len(parts) == 5:
        refuse("encrypted", "it is encrypted")
    if len(parts) != 3:
        refuse("malformed", "it does not have three parts")
    try:
        header, payload, signature = map(decode_base64url, parts)
        members = read_object(header)
    except ValueError as error:
        refuse("malformed", str(error))
    signed = f"{parts[0]}.{parts[1]}".encode("ascii")
    return UnverifiedToken(
        header=_header(members), signed=signed, payload=payload, signature=signature
    )


def check_claims(
    claims: Mapping[str, Any], expected: ExpectedToken, now: float, alg: str = ""
) -> None:
    """Return if the claims are what *expected* says, now.

    Args:
        alg: Of the header; it names the hash of ``at_hash``.

    Raises:
        SignInRefused: ``id_token_issuer``, ``_subject``, ``_audience``, ``_azp``, ``_expired``,
            ``_not_yet``, ``_time``, ``_nonce``, ``_at_hash``.
    """
    if claims.get("iss") != expected.issuer:
        refuse("issuer", "it is of another issuer")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT:
        refuse("subject", "its subject is missing or too long")
    if not subject.isascii() or not subject.isprintable():
        refuse("subject", "its subject has other characters than printable ASCII")
    _check_audience(claims, expected)
    check_times(claims, now)
    if expected.nonce is not None and not _same(claims.get("nonce"), expected.nonce):
        refuse("nonce", "it was not issued for this attempt and key")
    if expected.only_audience and "nonce" in claims:
        refuse("nonce", "it is of a sign-in with a browser, not a machine's own")
    access = expected.access_token
    if access is not None and "at_hash" in claims:
        _check_hash(claims["at_hash"], _half_hash(alg, access))


def check_times(claims: Mapping[str, Any], now: float) -> None:
    """Return if the token is in force now.

    Raises:
        SignInRefused: ``id_token_expired``, ``_not_yet``, ``_time``.
    """
    for name in ("exp", "iat", "nbf", "auth_time"):
        if name in claims and not _is_time(claims[name]):
            refuse("time", f"its {name} is not a time")
    if "exp" not in claims or "iat" not in claims:
        refuse("time", "it does not say when it was issued and when it expires")
    if now >= claims["exp"] + LEEWAY_SECS:
        refuse("expired", "it has expired")
    for name in ("iat", "nbf", "auth_time"):
        if claims.get(name, 0) > now + LEEWAY_SECS:
            refuse("not_yet", f"its {name} is in the future; are the clocks right?")


def refuse(word: str, text: str) -> NoReturn:
    """Refuse an ID token.

    Raises:
        SignInRefused: ``id_token_`` and *word*.
    """
    raise SignInRefused(f"the ID token is refused: {text}", reason=f"id_token_{word}")


def _header(members: Mapping[str, Any]) -> TokenHeader:
    alg, kid, kind = members.get("alg"), members.get("kid"), members.get("typ", "")
    named = [name for name in _NEVER if name in members]
    if named:
        refuse("critical", f"its header has {', '.join(named)}")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        refuse("type", "its type is not that of an ID token")
    if isinstance(alg, str) and alg.lower() == "none":
        refuse("unsigned", "it is not signed")
    if not isinstance(alg, str) or alg not in ALGORITHMS:
        refuse("alg", "it is signed by an algorithm that is not accepted")
    if kid is not None and (not isinstance(kid, str) or len(kid) > _MAX_SUBJECT):
        refuse("malformed", "its kid is not a short text")
    return TokenHeader(alg, kid)


def _check_audience(claims: Mapping[str, Any], expected: ExpectedToken) -> None:
    named = claims.get("aud")
    audiences = [named] if isinstance(named, str) else named
    if (
        not isinstance(audiences, list)
        or not 0 < len(audiences) <= _MAX_AUDIENCES
        or not all(isinstance(one, str) for one in audiences)
        or expected.audience not in audiences
    ):
        refuse("audience", "it is for another audience")
    if expected.only_audience and len(audiences) > 1:
        refuse("audience", "it is for further audiences")
    if len(audiences) > 1 and "azp" not in claims:
        refuse("azp", "it is for several audiences and does not say who asked for it")
    asked = {expected.audience}
    if expected.only_audience:
        # OpenID Connect Core 3.1.3.7 leaves to each provider what `azp` means where no client's
        # id is the audience; Google names the service account itself, as in `sub` (RFC 9068 too
        # has `sub` name the client where nobody else is the subject).
        asked.add(claims["sub"])
    if "azp" in claims and (not isinstance(claims["azp"], str) or claims["azp"] not in asked):
        refuse("azp", "another client asked for it")


def _check_hash(given: object, wanted: str) -> None:
    if not _same(given, wanted):
        refuse("at_hash", "it is of another access token than the one beside it")


def _is_time(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < 2**53  # type: ignore[operator]


def _half_hash(alg: str, text: str) -> str:
    made = _HASHES[alg if alg == "EdDSA" else alg[-3:]](text.encode("utf-8")).digest()
    return encode_base64url(made[: len(made) // 2])


def _same(given: object, wanted: str) -> bool:
    if not isinstance(given, str):
        return False
    return compare_digest(given.encode("utf-8", "replace"), wanted.encode())
