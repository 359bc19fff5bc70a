"""Find the stock tools that some tests drive, and say plainly what is missing.

On a bare machine a test that needs such a tool skips and names the Debian
package that brings it.  Where ``SVC_REQUIRE_TOOLS=1`` is set (continuous
integration) the same test fails instead, so that nothing is skipped unseen.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import NoReturn
from unittest import SkipTest

from svc.testing.gateway.postgres import find_programs

#: What the static file of a release is made and looked at with, and of.
STATIC: Mapping[str, str] = {
    "gcc": "gcc",
    "readelf": "binutils",
    "ldd": "libc-bin",
    "dpkg-query": "dpkg",
    "/usr/lib/python3.11/asyncio/__init__.py": "libpython3.11-stdlib",
    "/usr/lib/x86_64-linux-musl/libc.a": "musl-dev",
    "/usr/include/sha2.h": "libmd-dev",
    "/usr/include/zlib.h": "zlib1g-dev",
}

#: Every stock tool a test may ask for, and the Debian package that brings it: a command, or the
#: absolute path of a file.
PACKAGES: Mapping[str, str] = {
    "ssh-agent": "openssh-client",
    "ssh": "openssh-client",
    "scp": "openssh-client",
    "sftp": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "nc": "netcat-openbsd",
    "curl": "curl",
    "promtool": "prometheus",
    "strace": "strace",
    "pgbouncer": "pgbouncer",
    "psql": "postgresql-client",
    "haproxy": "haproxy",
    "openssl": "openssl",
    "kubectl": "kubernetes-client",
    "script": "bsdutils",
    "make": "make",
    "node": "nodejs",
    "npm": "npm",
    "go": "golang-go",
    "keytool": "default-jre-headless",
    "java": "default-jre-headless",
    "/usr/share/java/postgresql.jar": "libpostgresql-jdbc-java",
    "chromium": "chromium",
    "systemctl": "systemd",
    "systemd-analyze": "systemd",
    **STATIC,
}

#: Daemons live where an ordinary user's PATH does not look.
_SYSTEM_PLACES = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def find_tool(name: str) -> str | None:
    """Return the absolute path of a stock tool, or None when it is not installed."""
    if os.path.isabs(name):
        return name if os.path.exists(name) else None
    found = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_PLACES))
    path = shutil.which(name, path=found)
    return None if path is None else os.path.abspath(path)


def stock_tool(
    name: str, package: str | None = None, environ: Mapping[str, str] = os.environ
) -> str:
    """Return the absolute path of a stock tool that the calling test needs.

    Args:
        name: The tool's command name, or the absolute path of a file.
        package: The Debian package that brings it; from `PACKAGES` if absent.
        environ: Where ``SVC_REQUIRE_TOOLS`` is looked up.

    Raises:
        SkipTest: It is not installed; the reason names the package.
        AssertionError: Likewise, where ``SVC_REQUIRE_TOOLS=1`` is set.
    """
    package = package or PACKAGES[name]
    path = find_tool(name)
    if path is None:
        missing(f"{name} is not installed; the Debian package {package} brings it", environ)
    return path


def missing(reason: str, environ: Mapping[str, str] = os.environ) -> NoReturn:
    """Skip the calling test for this reason.

    Raises:
        SkipTest: Always, but
        AssertionError: where ``SVC_REQUIRE_TOOLS=1`` is set.
    """
    if environ.get("SVC_REQUIRE_TOOLS") == "1":
        raise AssertionError(reason)
    raise SkipTest(reason)


def missing_tools() -> list[tuple[str, str]]:
    """Return ``(tool, package)`` for every known stock tool that is not installed."""
    return [(name, package) for name, package in PACKAGES.items() if find_tool(name) is None]


if __name__ == "__main__":
    for tool, brought_by in missing_tools():
        print(f"skipped: tests that need {tool} (not installed; Debian package {brought_by})")
    if find_programs() is None:
        print("skipped: tests that need PostgreSQL (no server; Debian package postgresql)")
