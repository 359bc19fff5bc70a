"""The sign-in page under the public name, wired: a listener of its own, and its certificate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import define, field
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory

from svc.authority.accounts.passkeys import Passkeys
from svc.authority.sign_in_page.listener import FewConnections, sign_in_site
from svc.authority.sign_in_page.pages import SignInPages
from svc.compose.authority.parts import Parts
from svc.compose.listeners.addresses import server_endpoint
from svc.errors import ConfigError
from svc.model.clocks import utc
from svc.pki.public_tls import PublicCertificate
from svc.runtime.services import BoundPort, PeriodicTask
from svc.runtime.threads import InThread, in_pool

CERTIFICATE_SECS = 60.0
DAY = 86_400.0
WARNED = ((14 * DAY, 1 / 3), (3 * DAY, 1 / 12))
"""When the coming end of the certificate is told, in seconds before it, and the most of the
certificate's life that this may be: some live for six days, and are renewed halfway."""

_log = Logger(namespace="svc_authority")


@define
class SignInListener:
    """What serves the page.

    Attributes:
        reading: Looks at the certificate's files again.
    """

    port: BoundPort
    reading: PeriodicTask


def sign_in_listener(p: Parts, passkeys: Passkeys) -> SignInListener | None:
    """The listener, where the configuration asks for one.  Blocks for certificate and key.

    Raises:
        ConfigError: they are refused.
    """
    settings, clock = p.settings.accounts.passkeys, p.runtime.reactor
    if settings.public_name is None or settings.listen is None:
        return None
    certificate = PublicCertificate(Path(settings.cert or ""), Path(settings.key or ""))
    reading = CertificateReading(
        certificate=certificate,
        in_thread=in_pool(clock),
        now=p.runtime.now,
        host=settings.public_name.host,
    )
    certificate.load()
    reading.warn()
    p.metrics.gauge("svc_sign_in_page_certificate_expires_in_seconds").read(
        lambda: reading.seconds_left
    )
    site = sign_in_site(
        pages=SignInPages(p.settings.cluster, passkeys),
        host=passkeys.configured.origin.removeprefix("https://"),
        is_on=lambda: p.serving.is_on,
        clock=clock,
        tasks=p.tasks,
    )
    port = SignInPort(
        key="accounts.passkeys.listen",
        address=str(settings.listen),
        endpoint=server_endpoint(clock, settings.listen),
        factory=FewConnections(TLSMemoryBIOFactory(certificate, False, site), clock),
        origin=passkeys.configured.origin,
    )
    task = PeriodicTask(
        clock=clock,
        interval=CERTIFICATE_SECS,
        call=reading.read,
        what="read the certificate of the sign-in page",
        at_once=False,
    )
    return SignInListener(port, task)


@define(slots=False, eq=False)
class SignInPort(BoundPort):
    """Logs where browsers find the page, once it listens."""

    _origin: str = field(kw_only=True)

    def startService(self) -> None:
        """Bind, and log the address."""
        BoundPort.startService(self)
        _log.info("sign-in page served", url=self._origin)


@define
class CertificateReading:
    """Follows the files, which are replaced every few weeks.

    Attributes:
        host: The name that browsers ask for.
    """

    certificate: PublicCertificate
    in_thread: InThread
    now: Callable[[], float]
    host: str
    _warned: str = field(default="", init=False)
    _told: tuple[float, int] = field(default=(0.0, 0), init=False)
    """The end that was warned of, and how often."""

    async def read(self) -> None:
        """Look once; what was read before stays while the files are no good."""
        try:
            if await self.in_thread(self.certificate.load):
                _log.info("the certificate of the sign-in page was read again")
        except ConfigError as refused:
            _log.warn("the certificate of the sign-in page is not replaced", reason=str(refused))
        self.warn()

    def warn(self) -> None:
        """Say once that browsers refuse the certificate, by its dates or its names."""
        problem = self.certificate.problem(self.now()) or self.certificate.other_name(self.host)
        if problem and problem != self._warned:
            _log.warn("browsers refuse the certificate of the sign-in page", reason=problem)
        self._warned = problem
        self._warn_of_end()

    @property
    def seconds_left(self) -> float:
        """Until the certificate ends; negative after that."""
        return self.certificate.ends_at - self.now()

    def _warn_of_end(self) -> None:
        """Say that it ends soon, at each of the times of ``WARNED`` once."""
        ends_at, lifetime = self.certificate.ends_at, self.certificate.lifetime
        left = self.seconds_left
        due = sum(left <= min(secs, lifetime * share) for secs, share in WARNED)
        ended_at, times = self._told
        if left > 0 and due > (times if ended_at == ends_at else 0):
            log = _log.error if due == len(WARNED) else _log.warn
            log(
                "the certificate of the sign-in page ends soon; renew it, or browsers refuse the "
                "page",
                file=str(self.certificate.cert),
                ends_at=utc(ends_at),
                days=int(left // DAY),
            )
        self._told = ends_at, due
