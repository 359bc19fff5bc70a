"""What a browser is to do with a passkey for one attempt, and what came of it; pure.

The browser leaves with a code for 127.0.0.1, where the command waits.  So whoever has
somebody else open the address of an attempt of their own learns nothing: the code goes
to a port of the machine on which the passkey was used.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import urlencode

from attrs import define, field, frozen

from svc.authority.accounts.opened import FoundAccount, SecondFactor
from svc.authority.accounts.security_keys import KeySite, RegisteredKey
from svc.authority.signin.attempts import Attempt
from svc.authority.signin.redirect import read_redirect
from svc.authority.signin.refusals import SignInRefused
from svc.errors import Malformed
from svc.model.cluster.account import PersonSecret

MOST_TRIES = 5
"""Answers of a browser to one attempt; none is judged after them."""

PATH = "/sign-in/"
_CALLBACK = "http://127.0.0.1:{port}/callback"


@frozen
class NewPasskey:
    """A passkey that was made, and its signature count."""

    key: RegisteredKey
    count: int


@frozen
class UsedPasskey:
    """A passkey that was used, judged."""

    account: FoundAccount
    factor: SecondFactor


@frozen
class PasskeyOwner:
    """For whom a passkey is made.

    Attributes:
        handle: By which browsers give it back: the person's id.
        password: Of the account that gets one more; None with an enrollment.
        has: The ids of the passkeys that are there.
    """

    name: str
    handle: bytes
    password: PersonSecret | None = None
    has: Sequence[bytes] = ()


@define(eq=False)
class BrowserStep:
    """One step in a browser; in memory only.

    Attributes:
        port: Where the command waits.
        owner: None: somebody signs in.
    """

    port: int
    owner: PasskeyOwner | None = None
    tries: int = 0
    _done: NewPasskey | UsedPasskey | None = field(default=None, init=False)
    _code: str = field(default="", init=False, repr=False)

    @property
    def is_done(self) -> bool:
        """Whether the browser has left with a code."""
        return self._done is not None

    @property
    def is_over(self) -> bool:
        """Whether no answer of a browser is judged any more; one that is good may be complete."""
        return self.is_done or self.tries >= MOST_TRIES

    def leave(
        self, attempt: Attempt, site: KeySite, done: NewPasskey | UsedPasskey, code: str
    ) -> str:
        """Where the browser goes with the code."""
        self._done, self._code = done, code
        query = urlencode({"code": code, "state": attempt.state, "iss": site.origin})
        return f"{_CALLBACK.format(port=self.port)}?{query}"

    def taken(self, attempt: Attempt, site: KeySite, query: str) -> NewPasskey | UsedPasskey:
        """What was done, for the code that the browser left with.

        Raises:
            SignInRefused: ``redirect_...``.
        """
        code = read_redirect(query, state=attempt.state, issuer=site.origin, names_issuer=True)
        if self._done is None or not compare_digest(code.encode(), self._code.encode()):
            raise SignInRefused(
                "the browser's return is refused: its code is not of this sign-in; run `svc login` "
                "again",
                reason="redirect_code",
            )
        return self._done


def begin_step(attempt: Attempt, port: int, owner: PasskeyOwner | None = None) -> BrowserStep:
    """Have a browser do it.

    Raises:
        Malformed: there is no such port.
    """
    if not 0 < port < 65536:
        raise Malformed("sign-in: the port of the browser's return is missing")
    attempt.browser = made = BrowserStep(port, owner)
    return made


def step_of(attempt: Attempt) -> BrowserStep:
    """The step of an attempt.

    Raises:
        Malformed: the attempt is for no browser.
    """
    if not isinstance(attempt.browser, BrowserStep):
        raise Malformed("sign-in: no browser takes part in this attempt")
    return attempt.browser


def passkey_challenge(attempt: Attempt) -> bytes:
    """What a passkey signs: of this attempt, and of the key to be certified (rule R35)."""
    return sha256(b"svc-sign-in-passkey-v1\0" + attempt.key_sha256 + attempt.secret).digest()
