"""The issuing CAs that this Authority signs with, and how it loads a newer revision.

Which revision of a kind is in force stands in the store, with its signed record
(rule R8); its key lies in ``keys/`` of each Authority.  The one that leads enters
what it finds there and nobody has had before; each loads what is in force.  Who
cannot goes on with what it has, and says so.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.logger import Logger

from svc.authority.enroll.revisions import enter_revision, in_force, known, pem
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import StateUnsigned
from svc.errors import SvcError
from svc.interfaces.store import IStore
from svc.model.cluster.key_revision import KeyRevision
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import IssuingAuthority
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_authority")


@define
class IssuerRotation:
    """Follows the revisions of the issuing CAs.

    Attributes:
        issuer: Signs with the CAs; given the newer ones.
        load: Reads the CA of a kind from ``keys/``; blocks, raises SvcError.
        is_stale: Told for each kind whether what is in force could not be loaded.
    """

    issuer: CertificateIssuer
    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    load: Callable[[str], IssuingAuthority]
    in_thread: InThread
    is_stale: Callable[[str, bool], object]
    _reported: dict[str, str] = field(factory=dict)

    async def follow(self, *, leads: bool) -> None:
        """One pass, after the facts were read.

        Args:
            leads: Whether we may enter a revision.

        Raises:
            StoreUnavailable: a revision was not entered; the next pass tries again.
        """
        for kind, used in dict(self.issuer.keys.issuers).items():
            there = await self._read(kind)
            if leads:
                for one in (used, there):
                    await self._enter(one)
            self._settle(kind, used, there)

    async def _read(self, kind: str) -> IssuingAuthority | SvcError:
        def read() -> IssuingAuthority | SvcError:
            try:
                return self.load(kind)
            except SvcError as refused:
                return refused

        return await self.in_thread(read)

    async def _enter(self, found: IssuingAuthority | SvcError) -> None:
        """Put a CA in force that no revision has yet; an earlier one is never put back."""
        state = self.state_cache.state
        if isinstance(found, SvcError) or _text(found) in known(state.keys, found.kind):
            return
        if state.pause is not None and in_force(state.keys, found.kind) is not None:
            self._report(found.kind, "rotation is paused")
            return
        try:
            entered = await self.store.run(
                "enter an issuing CA",
                lambda tx: enter_revision(
                    tx, self.recorder, found.kind, found.certificate, self.now()
                ),
            )
        except StateUnsigned as refused:
            self._report(found.kind, refused.text)
            return
        _log.info("issuing CA in force", kind=found.kind, revision=entered.revision)
        await self.state_cache.refresh()

    def _settle(
        self, kind: str, used: IssuingAuthority, there: IssuingAuthority | SvcError
    ) -> None:
        """Load what is in force, or say that it cannot be."""
        wanted = in_force(self.state_cache.state.keys, kind)
        if wanted is None or wanted.certificate == _text(used):
            self._reported.pop(kind, None)
            self.is_stale(kind, False)
        elif isinstance(there, SvcError):
            self._stale(wanted, there.text)
        elif _text(there) != wanted.certificate:
            self._stale(wanted, "keys/ holds the certificate of another revision")
        else:
            self.issuer.take(there)
            self._reported.pop(kind, None)
            self.is_stale(kind, False)
            _log.info("issuing CA loaded", kind=kind, revision=wanted.revision)

    def _stale(self, wanted: KeyRevision, why: str) -> None:
        self.is_stale(wanted.kind, True)
        self._report(wanted.kind, why, revision=wanted.revision)

    def _report(self, kind: str, why: str, **more: object) -> None:
        if self._reported.get(kind) != why:
            self._reported[kind] = why
            _log.error(
                "an issuing CA cannot be loaded; the previous one stays in use",
                kind=kind,
                reason=why,
                **more,
            )


def _text(found: IssuingAuthority) -> str:
    return pem(found.certificate)
