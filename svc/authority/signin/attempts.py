"""Sign-ins that have begun and not ended: each is known to this Authority alone, and used once."""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from hashlib import sha256

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svc.authority.signin.once import IssuedOnce
from svc.authority.signin.provider import TokenAnswer
from svc.authority.signin.refusals import SignInRefused
from svc.authority.signin.strict_json import encode_base64url
from svc.model.ids import Entropy

MAX_ATTEMPTS = 4096
"""Past these the oldest is forgotten; beginning one is paid for by the join lane's budget."""

ATTEMPT_SECS = 600.0

_TOLD_SECS = 60.0
"""So long whoever asks too late is told that it took too long; then it is forgotten."""

_NONCE_DOMAIN = b"svc-sign-in-nonce-v1\0"


class Flow(Enum):
    """How a person signs in; the words are in records."""

    CODE = "code"
    DEVICE = "device"
    TOKEN = "token"
    LOCAL = "local"


@define(eq=False)
class Attempt:
    """One sign-in, bound to a key from its first message.

    Attributes:
        csr: DER: the certificate will be for the key in it.
        secret: Never leaves this process; nonce and verifier come from it.
        redirect: Where the browser goes afterwards.
        device_code: The provider's.
        interval: Seconds between two polls.
        due: When the provider may be polled again, on the clock.
        is_polled: Whether the provider is being asked right now, or its answer judged.
        tokens: What it gave, while nobody has been let in by it.
        once: Lets the person in, however often the answer of that is lost.
        enrollment: What a person with a one-time code is about to set.
        browser: What a browser is to do with a passkey.
    """

    id: str
    flow: Flow
    csr: bytes = field(repr=False)
    key_sha256: bytes
    secret: bytes = field(repr=False)
    ends: float
    redirect: str = ""
    device_code: str = field(default="", repr=False)
    interval: int = 0
    due: float = 0.0
    is_polled: bool = False
    tokens: TokenAnswer | None = field(default=None, repr=False)
    once: IssuedOnce = field(factory=IssuedOnce, repr=False)
    enrollment: object | None = field(default=None, repr=False)
    browser: object | None = field(default=None, repr=False)

    @property
    def state(self) -> str:
        """What the redirect must bring back."""
        return encode_base64url(self._derived(b"svc-sign-in-state-v1\0"))

    @property
    def nonce(self) -> str:
        """What the ID token must hold: of this attempt, and of its key (rule R35)."""
        return encode_base64url(self._derived(_NONCE_DOMAIN + self.key_sha256))

    @property
    def verifier(self) -> str:
        """Of PKCE."""
        return encode_base64url(self._derived(b"svc-sign-in-verifier-v1\0"))

    @property
    def challenge(self) -> str:
        """Of PKCE, by S256."""
        return encode_base64url(sha256(self.verifier.encode("ascii")).digest())

    def _derived(self, domain: bytes) -> bytes:
        return sha256(domain + self.secret).digest()


class AttemptOver(SignInRefused):
    """It took too long.

    Attributes:
        attempt: Which; nobody finds it again.
    """

    reason = "attempt_over"

    def __init__(self, attempt: Attempt) -> None:
        super().__init__("this sign-in took too long; run `svc login` again")
        self.attempt = attempt


@define
class Attempts:
    """Those under way."""

    clock: IReactorTime
    entropy: Entropy
    _known: OrderedDict[str, Attempt] = field(factory=OrderedDict, init=False)

    def begin(self, flow: Flow, csr: bytes, key_sha256: bytes, secs: float) -> Attempt:
        """Begin one that lasts *secs*, and no longer than ten minutes."""
        ends = self.clock.seconds() + min(secs, ATTEMPT_SECS)
        made = Attempt(
            id=encode_base64url(self.entropy(32)),
            flow=flow,
            csr=csr,
            key_sha256=key_sha256,
            secret=self.entropy(32),
            ends=ends,
        )
        self._known[made.id] = made
        while len(self._known) > MAX_ATTEMPTS:
            self._known.popitem(last=False)
        return made

    def find(self, attempt_id: str, flow: Flow) -> Attempt:
        """The attempt of this id and flow.

        Raises:
            SignInRefused: ``attempt_unknown``: never begun here, or used.
            AttemptOver: ``attempt_over``.
        """
        found = self._known.get(attempt_id)
        if found is None or found.flow is not flow:
            raise self.unknown()
        if self.clock.seconds() >= found.ends:
            self.end(found)
            raise AttemptOver(found)
        return found

    def take(self, attempt_id: str, flow: Flow) -> Attempt:
        """As :meth:`find`; nobody finds it again."""
        found = self.find(attempt_id, flow)
        self.end(found)
        return found

    def end(self, attempt: Attempt) -> None:
        """Forget it."""
        self._known.pop(attempt.id, None)

    def forget_ended(self) -> None:
        """Forget those that ended a while ago, with what the provider gave for them."""
        late = self.clock.seconds() - _TOLD_SECS
        for one in [one for one in self._known.values() if one.ends <= late]:
            self.end(one)

    def unknown(self) -> SignInRefused:
        """The refusal of one that is not under way here."""
        return SignInRefused(
            "this sign-in is not under way here: it was used, it took too long, or the Authority "
            "was restarted; run `svc login` again",
            reason="attempt_unknown",
        )
