"""The machine that a unit is installed on: its platform, its service manager, its accounts."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from svc.errors import Fault, SvcError
from svc.telemetry.escape import escaped

SYSTEMCTL_SECS = 60.0
_UNITS = "etc/systemd/system"
_OWN_UNITS = "systemd/user"
_IN_CONTAINER = (".dockerenv", "run/.containerenv", "run/systemd/container")
_SAID = 400

Systemctl = Callable[[Sequence[str]], str]
"""Runs ``systemctl`` with these words; what it prints, or :class:`ServiceRefused`."""


class ServiceRefused(SvcError):
    """No unit can be installed, removed or shown; nothing was changed but what the text says."""

    fault = Fault.PRECONDITION
    reason = "service_refused"


@frozen
class ServiceHost:
    """What an installation needs to know of the machine, and the program that it runs.

    Attributes:
        root: The root of the file system.
        platform: As ``sys.platform``.
        uid: The effective user's.
        systemctl: Of the system; of the person's own service manager with ``--user`` among the
            words.
    """

    root: Path
    platform: str
    uid: int
    environ: Mapping[str, str]
    systemctl: Systemctl

    def units(self, is_own: bool) -> Path:
        """The directory of units: the system's, or the person's own."""
        if not is_own:
            return self.root / _UNITS
        home = Path(self.environ.get("HOME") or "/") / ".config"
        return Path(self.environ.get("XDG_CONFIG_HOME") or home) / _OWN_UNITS

    def check(self, role: str, is_own: bool) -> None:
        """Refuse where no unit can be installed, before anything is read.

        Raises:
            ServiceRefused: with what to do instead.
        """
        if self.platform != "linux":
            raise ServiceRefused(
                f"no service manager of {self.platform} is supported, only systemd of "
                f"Linux; run `svc --config FILE {role}` under a supervisor of your own",
                reason="platform",
                fault=Fault.UNIMPLEMENTED,
            )
        if self.is_container():
            raise ServiceRefused(
                "this is a container, in which a role is started by what runs the "
                "container; replace the image there, and keep its mounts, volumes, account and "
                "store_url",
                reason="in_container",
            )
        self._check_user(role, is_own)
        if not (self.root / "run/systemd/system").is_dir():
            raise ServiceRefused(
                "systemd is not the service manager that runs here "
                "(/run/systemd/system does not exist); run the role under your own supervisor",
                reason="no_systemd",
            )

    def _check_user(self, role: str, is_own: bool) -> None:
        if is_own and self.uid == 0:
            raise ServiceRefused(
                "--user: root has no session of its own to run a client in; run this as the "
                "person, or leave --user out to install a unit of the system",
                reason="is_root",
            )
        if is_own or self.uid == 0:
            return
        own = "; or add --user, for a unit of your own session" if role == "client" else ""
        raise ServiceRefused(
            f"only root can change the system's units; run this as root{own}",
            reason="not_root",
            fault=Fault.DENIED,
        )

    def is_container(self) -> bool:
        """Whether this is a container: by the marks of Docker, Podman, systemd and Kubernetes."""
        if any(os.path.lexists(self.root / mark) for mark in _IN_CONTAINER):
            return True
        if self.environ.get("KUBERNETES_SERVICE_HOST"):
            return True
        try:
            first = (self.root / "proc/1/environ").read_bytes()
        except OSError:
            return False  # Only root may read it; the other marks are enough for a person.
        return any(each.startswith(b"container=") for each in first.split(b"\0"))


def run_systemctl(words: Sequence[str]) -> str:
    """Run this machine's ``systemctl``; what it prints.  Blocks, up to a deadline.

    Raises:
        ServiceRefused: it is missing, failed or did not end.
    """
    line = f"systemctl {' '.join(words)}"
    try:
        done = subprocess.run(
            ["systemctl", "--no-ask-password", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SYSTEMCTL_SECS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _failed(line, f"did not end within {SYSTEMCTL_SECS:g} s") from None
    except OSError as error:
        raise _failed(line, f"cannot be run: {error.strerror}") from None
    if done.returncode:
        said = escaped(" ".join(done.stderr.split())[:_SAID])
        raise _failed(line, f"failed with status {done.returncode}: {said}")
    return done.stdout


def _failed(line: str, why: str) -> ServiceRefused:
    return ServiceRefused(
        f"{line}: {why}; run this command again once it is mended",
        reason="service_manager",
        fault=Fault.UNAVAILABLE,
    )


def account_named(name: str, role: str) -> pwd.struct_passwd:
    """The account that is to run the role.

    Raises:
        ServiceRefused: there is none, or it is root's.
    """
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ServiceRefused(
            f"account {name}: does not exist; make it with `useradd --system --user-group "
            f"--no-create-home --home-dir / --shell /usr/sbin/nologin {name}`, or name another "
            "with --account",
            reason="no_account",
        ) from None
    if found.pw_uid == 0:
        raise ServiceRefused(
            f"account {name}: svc {role} does not run as root; name another with --account",
            reason="no_account",
        )
    return found


@contextmanager
def acting_as(account: pwd.struct_passwd) -> Iterator[None]:
    """Let root read files as the account would: what the account cannot read is refused."""
    if os.geteuid() != 0:
        yield
        return
    gid, groups = os.getegid(), os.getgroups()
    os.initgroups(account.pw_name, account.pw_gid)
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)
