"""HTTP to the identity provider: bounded in time and size, no redirect followed."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from service_identity import VerificationError
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import FileBodyProducer
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent

from svc.authority.signin.refusals import ProviderFault
from svc.errors import Fault, SvcError
from svc.runtime.dial_failure import dial_failure
from svc.runtime.services import bounded

MAX_ANSWER = 256 * 1024
ANSWER_SECS = 10.0
_UNVERIFIED = "certificate verify failed"
"""What OpenSSL says of a chain that ends in no authority which is trusted."""

_HEADERS = {b"accept": [b"application/json"], b"user-agent": [b"svc"]}
_FORM = {b"content-type": [b"application/x-www-form-urlencoded"]}


@frozen
class ProviderAnswer:
    """A whole answer."""

    status: int
    body: bytes


class _BoundedBody(Protocol):
    """Collects a body; one that is too long is cut."""

    transport: Any

    def __init__(self) -> None:
        self.ended: Deferred[bytes | None] = Deferred(lambda _: self._cut())
        self._parts: list[bytes] = []
        self._length = 0

    def dataReceived(self, data: bytes) -> None:
        self._length += len(data)
        if self._length > MAX_ANSWER:
            self._parts.clear()
            self._cut()
        else:
            self._parts.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.ended.called:
            is_whole = self._length <= MAX_ANSWER
            self.ended.callback(b"".join(self._parts) if is_whole else None)

    def _cut(self) -> None:
        if self.transport is not None:
            self.transport.abortConnection()


@frozen
class ProviderHttp:
    """Asks a provider.

    Attributes:
        agent: Follows no redirect, decompresses nothing, and judges the server's certificate.
    """

    agent: IAgent
    clock: IReactorTime

    async def get(self, url: str) -> bytes:
        """The body of a GET that was answered with 200.

        Raises:
            ProviderFault: ``provider_unreachable``, ``_redirect``, ``_oversize``, ``_answer``.
        """
        answer = await self._ask(url, None)
        if answer.status != 200:
            raise ProviderFault(f"{url}: answered {answer.status}", reason="provider_answer")
        return answer.body

    async def post(self, url: str, form: Mapping[str, str]) -> ProviderAnswer:
        """What a form was answered with, whatever the status but a redirect.

        Raises:
            ProviderFault: as :meth:`get`.
        """
        return await self._ask(url, form)

    async def _ask(self, url: str, form: Mapping[str, str] | None) -> ProviderAnswer:
        asked = Deferred.fromCoroutine(self._exchange(url, form))
        try:
            answer = await bounded(self.clock, ANSWER_SECS, asked, "the identity provider")
        except CancelledError:
            raise
        except SvcError as refused:
            if refused.fault is not Fault.DEADLINE:
                raise
            raise ProviderFault(f"{url}: did not answer in time") from None
        except Exception as failed:
            raise ProviderFault(f"{url}: {_words(failed)}"[:300]) from None
        if 300 <= answer.status < 400:
            raise ProviderFault(
                f"{url}: answered with a redirect, which is not followed",
                reason="provider_redirect",
            )
        return answer

    async def _exchange(self, url: str, form: Mapping[str, str] | None) -> ProviderAnswer:
        place = url.encode("ascii")
        if form is None:
            answer: Any = await self.agent.request(b"GET", place, Headers(_HEADERS))
        else:
            sent = FileBodyProducer(BytesIO(urlencode(form).encode("ascii")))
            answer = await self.agent.request(b"POST", place, Headers(_HEADERS | _FORM), sent)
        body = _BoundedBody()
        answer.deliverBody(body)
        data = await body.ended
        if data is None:
            raise ProviderFault(
                f"{url}: answered with more than {MAX_ANSWER} bytes", reason="provider_oversize"
            )
        return ProviderAnswer(int(answer.code), data)


def _words(failed: BaseException) -> str:
    """What broke the exchange; Twisted keeps the causes of a broken request in a list."""
    for cause in getattr(failed, "reasons", ()):
        return _words(cause.value)
    if isinstance(failed, VerificationError):
        return "the server's certificate is for another host"
    words = dial_failure(failed)
    if _UNVERIFIED in words:
        words += (
            "; if the certificate is of an authority of your own, the operator names that in "
            "oidc.ca_file"
        )
    return words
