"""The identity provider as Authority knows it: its metadata, its keys, its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from attrs import define, field, frozen
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.signin.http import ProviderAnswer, ProviderHttp
from svc.authority.signin.id_token import ExpectedToken, check_claims, read_token, refuse
from svc.authority.signin.json_web_keys import ALGORITHMS, ProviderKeys, read_keys
from svc.authority.signin.refusals import ProviderFault, SignInRefused, printable
from svc.authority.signin.strict_json import read_object

METADATA_SECS = 3600.0
KEYS_SECS = 3600.0
"""What is older is fetched again before it is used, or nobody is signed in by it."""

KEYS_AGAIN_SECS = 60.0
"""An unknown key has the keys fetched again, once in this time for all callers together."""

FAILED_SECS = 5.0
"""So long a failure to fetch either is every caller's answer, and no other try is made."""

_log = Logger(namespace="svc_authority")

_T = TypeVar("_T")
_MAX_URL = 2048
_MAX_SECRET = 8192
PENDING, SLOW_DOWN = "authorization_pending", "slow_down"
SESSION_OVER = "invalid_grant"
"""What a provider says of a refresh token that is good no more (RFC 6749, 5.2)."""

_TOO_MANY = 429


@frozen
class ProviderMetadata:
    """What a provider says of itself; ``device`` and ``revocation`` may be empty."""

    authorization: str
    token: str
    keys: str
    device: str
    revocation: str
    names_issuer: bool
    """Whether every redirect names the issuer (RFC 9207)."""


@frozen
class TokenAnswer:
    """Tokens; ``refresh`` may be empty."""

    id_token: str = field(repr=False)
    access_token: str = field(repr=False)
    refresh: str = field(repr=False)


@frozen
class DeviceCode:
    """What a provider gives a device that waits for its person."""

    device_code: str = field(repr=False)
    user_code: str
    url: str
    complete_url: str
    interval: int
    expires_in: int


class ProviderRefused(SignInRefused):
    """The token endpoint's refusal.

    Attributes:
        error: The OAuth error code, as the provider sent it.
        description: Its text, as the provider sent it.
    """

    reason = "provider_refused"

    def __init__(self, error: str, description: str) -> None:
        told = ": ".join(filter(None, (printable(error), printable(description))))
        super().__init__(f"the identity provider refused the sign-in ({told or 'no reason'})")
        self.error = error
        self.description = description


@define
class Provider:
    """One identity provider.

    Attributes:
        issuer: As configured; what the provider names must be equal.
        now: Wall time, for tokens.
        signs_in: Whether people sign in there; else only its keys are of interest.
    """

    issuer: str
    client_id: str
    http: ProviderHttp
    clock: IReactorTime
    now: Callable[[], float]
    signs_in: bool = True
    _metadata: ProviderMetadata | None = field(default=None, init=False)
    _metadata_at: float = field(default=0.0, init=False)
    _keys: ProviderKeys | None = field(default=None, init=False)
    _keys_at: float = field(default=0.0, init=False)
    _again_at: float | None = field(default=None, init=False)
    _fetching: DeferredLock = field(factory=DeferredLock, init=False)
    _failed: tuple[str, float, ProviderFault] | None = field(default=None, init=False)

    async def metadata(self) -> ProviderMetadata:
        """What the provider says of itself, not older than an hour.

        Raises:
            ProviderFault: it is not reached, or is not what a provider must be.
        """
        known = self._known_metadata()
        if known is not None:
            return known
        await self._fetching.acquire()
        try:
            known = self._known_metadata()
            if known is None:
                url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
                known = await self._fetched(
                    url, partial(read_metadata, issuer=self.issuer, signs_in=self.signs_in)
                )
                self._metadata, self._metadata_at = known, self.clock.seconds()
            return known
        finally:
            self._fetching.release()

    async def redeem(self, form: Mapping[str, str]) -> TokenAnswer:
        """The tokens of a grant; *form* names it.

        Raises:
            ProviderRefused: the provider does not give them; ProviderFault: as :meth:`metadata`.
        """
        metadata = await self.metadata()
        asked = {**form, "client_id": self.client_id}
        return read_tokens(await self.http.post(metadata.token, asked))

    async def device_code(self, form: Mapping[str, str]) -> DeviceCode:
        """A new device code.

        Raises:
            SignInRefused: ``device_not_offered``; others as :meth:`redeem`.
        """
        metadata = await self.metadata()
        if not metadata.device:
            raise SignInRefused(
                "the identity provider offers no sign-in by device code; sign in with a browser",
                reason="device_not_offered",
            )
        asked = {**form, "client_id": self.client_id}
        return read_device_code(await self.http.post(metadata.device, asked))

    async def revoke(self, refresh: str) -> None:
        """Have the provider forget a refresh token, if it offers that."""
        metadata = await self.metadata()
        if metadata.revocation:
            form = {"token": refresh, "token_type_hint": "refresh_token"}
            await self.http.post(metadata.revocation, {**form, "client_id": self.client_id})

    async def verified(self, token: str, expected: ExpectedToken) -> Mapping[str, Any]:
        """The claims of an ID token.

        Raises:
            SignInRefused: it is refused; ProviderFault: the keys are not to be had.
        """
        claims = await self.signed_claims(token)
        check_claims(claims, expected, self.now(), read_token(token).header.alg)
        return claims

    async def signed_claims(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that the provider signed; nothing in them is checked.

        Raises:
            SignInRefused: it did not; ProviderFault: the keys are not to be had.
        """
        parts = read_token(token)
        keys = await self._usable_keys()
        if keys.chosen(parts.header.kid, parts.header.alg) is None:
            keys = await self._keys_again(keys)
        return parts.claims(keys)

    def _known_metadata(self) -> ProviderMetadata | None:
        is_old = self.clock.seconds() - self._metadata_at >= METADATA_SECS
        return None if is_old else self._metadata

    async def _fetched(self, url: str, read: Callable[[bytes], _T]) -> _T:
        """What *read* makes of *url*; a failure is the answer to whoever asks soon after.

        Raises:
            ProviderFault: it is not to be had, or was not just now.
        """
        if self._failed is not None:
            where, at, failed = self._failed
            if where == url and self.clock.seconds() - at < FAILED_SECS:
                raise ProviderFault(failed.text, reason=failed.reason)
        try:
            return read(await self.http.get(url))
        except ProviderFault as fault:
            self._failed = url, self.clock.seconds(), fault
            _log.warn("identity provider not usable", reason=fault.reason, text=fault.text)
            raise

    async def _usable_keys(self) -> ProviderKeys:
        keys = self._keys
        if keys is not None and self.clock.seconds() - self._keys_at < KEYS_SECS:
            return keys
        return await self._fetch_keys(keys)

    async def _keys_again(self, known: ProviderKeys) -> ProviderKeys:
        if self._keys is not known:
            return self._keys or known  # somebody else has just fetched them
        at = self._again_at
        if at is not None and self.clock.seconds() - at < KEYS_AGAIN_SECS:
            refuse("key", "the provider's key set does not have its key; it was fetched just now")
        fetched = await self._fetch_keys(known)
        # Keys that did not come say nothing of what the provider has now.
        self._again_at = self.clock.seconds()
        return fetched

    async def _fetch_keys(self, known: ProviderKeys | None) -> ProviderKeys:
        metadata = await self.metadata()
        await self._fetching.acquire()
        try:
            if self._keys is None or self._keys is known:
                self._keys = await self._fetched(metadata.keys, read_keys)
                self._keys_at = self.clock.seconds()
            return self._keys
        finally:
            self._fetching.release()


def read_metadata(data: bytes, issuer: str, *, signs_in: bool = True) -> ProviderMetadata:
    """The metadata of a provider; where nobody signs in there, its keys alone must be named.

    Raises:
        ProviderFault: ``provider_metadata``, ``provider_issuer``, ``provider_no_pkce``,
            ``provider_url``.
    """
    try:
        found = read_object(data)
    except ValueError as error:
        raise ProviderFault(
            f"{issuer}: its metadata: {error}", reason="provider_metadata"
        ) from None
    if found.get("issuer") != issuer:
        raise ProviderFault(
            f"{issuer}: its metadata names another issuer; oidc.issuer must be exactly what the "
            "provider names itself",
            reason="provider_issuer",
        )
    if signs_in and "S256" not in _words(found, "code_challenge_methods_supported"):
        raise ProviderFault(
            f"{issuer}: it does not offer PKCE with S256, without which nobody is signed in",
            reason="provider_no_pkce",
        )
    algorithms = _words(found, "id_token_signing_alg_values_supported")
    if not ALGORITHMS.keys() & set(algorithms):
        raise ProviderFault(
            f"{issuer}: it signs ID tokens by no algorithm that is accepted",
            reason="provider_metadata",
        )
    return ProviderMetadata(
        authorization=_url(found, "authorization_endpoint", issuer, required=signs_in),
        token=_url(found, "token_endpoint", issuer, required=signs_in),
        keys=_url(found, "jwks_uri", issuer),
        device=_url(found, "device_authorization_endpoint", issuer, required=False),
        revocation=_url(found, "revocation_endpoint", issuer, required=False),
        names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
    )


def read_tokens(answer: ProviderAnswer) -> TokenAnswer:
    """The tokens in an answer of the token endpoint.

    Raises:
        ProviderRefused, ProviderFault, SignInRefused: ``id_token_missing``.
    """
    found = _object(answer)
    texts = {}
    for name in ("id_token", "access_token", "refresh_token"):
        value = found.get(name, "")
        if not isinstance(value, str):
            raise _malformed()
        texts[name] = value
    if len(texts["refresh_token"]) > _MAX_SECRET:
        raise _malformed()
    if not texts["id_token"]:
        refuse("missing", "the provider's answer has none")
    return TokenAnswer(texts["id_token"], texts["access_token"], texts["refresh_token"])


def read_device_code(answer: ProviderAnswer) -> DeviceCode:
    """The device code in an answer.

    Raises:
        ProviderRefused, ProviderFault.
    """
    found = _object(answer)
    device, user = found.get("device_code"), printable(found.get("user_code"))
    url = found.get("verification_uri", found.get("verification_url"))
    complete = found.get("verification_uri_complete", "")
    interval, expires_in = found.get("interval", 5), found.get("expires_in")
    if (
        not isinstance(device, str)
        or not 0 < len(device) <= _MAX_SECRET
        or not 0 < len(user) <= 64
        or not _is_https(url)
        or not (complete == "" or _is_https(complete))
        or not _is_whole(interval)
        or not _is_whole(expires_in)
    ):
        raise _malformed()
    return DeviceCode(
        device_code=device,
        user_code=user,
        url=str(url),
        complete_url=str(complete),
        interval=int(interval),
        expires_in=int(expires_in or 0),
    )


def _object(answer: ProviderAnswer) -> Mapping[str, Any]:
    try:
        found = read_object(answer.body)
    except ValueError:
        if answer.status == 200:
            raise _malformed() from None
        raise ProviderFault(
            f"the identity provider answered {answer.status}", reason="provider_answer"
        ) from None
    if answer.status != 200 or "error" in found:
        error, text = found.get("error"), found.get("error_description")
        # Some providers say `slow_down` to a device with 429; anything else of these will pass.
        if answer.status >= 500 or (answer.status == _TOO_MANY and error != SLOW_DOWN):
            told = f"{answer.status} {printable(error)}".rstrip()
            raise ProviderFault(f"the identity provider answered {told}; try again later")
        raise ProviderRefused(
            error if isinstance(error, str) else "", text if isinstance(text, str) else ""
        )
    return found


def _words(found: Mapping[str, Any], name: str) -> list[str]:
    listed = found.get(name)
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []


def _url(found: Mapping[str, Any], name: str, issuer: str, *, required: bool = True) -> str:
    url = found.get(name, "")
    if not (_is_https(url) or (url == "" and not required)):
        raise ProviderFault(f"{issuer}: its {name} is no https URL", reason="provider_url")
    return str(url)


def _is_https(url: object) -> bool:
    if not isinstance(url, str) or len(url) > _MAX_URL or not printable_url(url):
        return False
    try:
        parts = urlsplit(url)
        is_placed = parts.port != 0 and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False
    return parts.scheme == "https" and is_placed and not parts.fragment


def printable_url(url: str) -> bool:
    """Whether a URL is of visible ASCII characters only."""
    return url.isascii() and all(32 < ord(mark) < 127 for mark in url) and '"' not in url


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31


def _malformed() -> ProviderFault:
    return ProviderFault(
        "the identity provider's answer is not of the form of its protocol",
        reason="provider_answer",
    )
