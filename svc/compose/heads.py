"""Signed heads wherever they are kept: who judges them, and where the greatest one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.threads import deferToThreadPool

from svc.audit.checkpoint.latest import GreatestHead
from svc.interfaces.audit import HeadVerifier
from svc.model.signing import Purpose, Signed
from svc.pki.verify import ChainVerifier


def head_verifier(root: bytes, cluster: str) -> HeadVerifier:
    """Judges each head's signature as of the head's own time, under *root*."""
    verifier = ChainVerifier(cluster, root, lambda: 0.0)

    def judge(signed: Signed, at: float) -> object:
        return verifier.verify_signed_at(signed, Purpose.AUDIT_HEAD, at)

    return judge


def greatest_head(reactor: Any, path: Path, root: bytes, cluster: str) -> GreatestHead:
    """Keeps the greatest head of *cluster*'s log in the file *path*; nothing is read yet."""
    return GreatestHead(
        path,
        head_verifier(root, cluster),
        cluster,
        cluster,
        lambda call: deferToThreadPool(reactor, reactor.getThreadPool(), call),
    )
