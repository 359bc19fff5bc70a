"""Shows until when the license is valid, if there is one; refuses nothing."""

from __future__ import annotations

from pathlib import Path

from twisted.logger import Logger

from svc.config import RoleSettings
from svc.model.clocks import utc
from svc.pki import license
from svc.pki.license import LicenseRefused, license_expires
from svc.telemetry.metrics import Metrics

_log = Logger(namespace="svc_authority")


def show_license(settings: RoleSettings, metrics: Metrics) -> None:
    """Set the gauge from the license file; say in the log why there is none.  Blocks."""
    path = settings.license_path
    if path is None:
        return
    try:
        expires = license_expires(Path(path), license.PUBLIC_KEY)
    except LicenseRefused as refused:
        _log.warn("the license is not used; everything works without it", why=refused.text)
        return
    metrics.gauge("svc_license_expires_unix").set(expires)
    _log.info("license read", expires=utc(expires))
