"""Builds what checks signed heads and keeps the latest one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from svc.audit.checkpoint.latest import LatestCheckpoint
from svc.pki.audit_signatures import head_verifier
from svc.runtime.threads import in_pool


def latest_checkpoint(reactor: Any, path: Path, root: bytes, cluster: str) -> LatestCheckpoint:
    """Keeps the greatest head of *cluster*'s log in the file *path*; nothing is read yet."""
    return LatestCheckpoint(
        path=path,
        verify_head=head_verifier(root, cluster),
        cluster=cluster,
        log_id=cluster,
        in_thread=in_pool(reactor),
    )
