"""Versions of the policy text.

Versions count from 1 without a gap and are never changed; going back to an
older text is a new version, so what is in force only ever counts upwards.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class PolicyVersion:
    """One version; ``activated_at`` is None until it is activated."""

    version: int
    text: str
    sha256: bytes
    author: str
    created_at: float
    activated_at: float | None = None
