"""The key that signs tokens for targets, and the keys that targets check tokens by.

A target reads the published keys when it meets a token of a key that it does not know.  A newer key
is published for a while before anything is signed with it, for targets that read them at times of
their own; the one before stays published after that.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

from attrs import define, field
from twisted.logger import Logger

from svc.errors import Unavailable
from svc.model.canonical import Json
from svc.model.session.identity import LIFETIME_SECS, UNAVAILABLE
from svc.pki.jwt import WORD, key_id, key_set, signed_token, verified_claims
from svc.pki.root import ClusterKeys, PurposeKey

PUBLISHED_FIRST_SECS = 300.0
"""So long a newer key is published before it signs."""

KEPT_SECS = 3600.0
"""So long the one before is published since the newer one was found."""

_log = Logger(namespace="svc_authority")


@define
class TokenKeys:
    """See the module.

    Attributes:
        keys: Where the newest key is put when it was found.
        write: Puts the published keys where others read them; raises OSError.
    """

    keys: ClusterKeys
    now: Callable[[], float]
    write: Callable[[bytes], Awaitable[object]]
    _newest: PurposeKey | None = field(default=None, init=False)
    _former: PurposeKey | None = field(default=None, init=False)
    _found_at: float = field(default=0.0, init=False)
    _written: bytes = field(default=b"", init=False)

    def sign(self, claims: Mapping[str, Json]) -> str:
        """A token with these claims.

        Raises:
            Unavailable: this Authority has no key for it that is good now.
        """
        self._look()
        key = self._signing()
        if key is None:
            raise Unavailable(
                "this Authority has no good key to sign tokens with; make it with `svc authority "
                "keys renew jwt`, and start an Authority that had none again",
                reason=UNAVAILABLE,
            )
        return signed_token(key, claims)

    def published(self) -> bytes:
        """The JWK set of now."""
        document = key_set(one.certificate for one in self._good())
        return json.dumps(document, indent=2).encode("ascii") + b"\n"

    def verify(self, token: bytes) -> Mapping[str, Json]:
        """The claims of a token that a published key has signed; they are not checked here.

        Raises:
            Unauthenticated: it is not such a token.
        """
        return verified_claims(token, [one.certificate for one in self._good()])

    async def follow(self) -> None:
        """Write what is published where it has changed; called again and again."""
        document = self.published()
        if document == self._written:
            return
        try:
            await self.write(document)
        except OSError as error:
            _log.error("the keys for targets could not be written", error=error.strerror)
        else:
            self._written = document

    def _good(self) -> list[PurposeKey]:
        """The keys whose tokens targets accept now."""
        self._look()
        keys = [self._newest] if self._newest is not None else []
        if self._former is not None and self.now() < self._found_at + KEPT_SECS:
            keys.append(self._former)
        return keys

    def _look(self) -> None:
        """Take note of a newer key."""
        found = self.keys.purposes.get(WORD)
        if found is self._newest or found is None:
            return
        self._former, self._newest, self._found_at = self._newest, found, self.now()
        if self._former is not None:
            _log.info(
                "another key for targets is published, and signs later",
                key=key_id(found.certificate),
                seconds=int(PUBLISHED_FIRST_SECS),
            )

    def _signing(self) -> PurposeKey | None:
        """The key before for a while yet, where it is good."""
        former = self._former
        is_new = self.now() < self._found_at + PUBLISHED_FIRST_SECS
        if former is not None and is_new and self._is_good(former):
            return former
        newest = self._newest
        return newest if newest is not None and self._is_good(newest) else None

    def _is_good(self, key: PurposeKey) -> bool:
        # Nothing that is signed outlives the key.
        return key.begins_at <= self.now() < key.ends_at - LIFETIME_SECS
