"""A machine in a directory, configurations that a unit can serve, and units made of them."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from twisted.trial.unittest import SynchronousTestCase

from svc.setup.units.machine import ServiceHost, ServiceRefused
from svc.setup.units.planning import WantedUnit, plan_unit
from svc.setup.units.program import Program, UnfitPlaces
from svc.setup.units.unit import ServiceUnit

PROGRAM = Program(("/opt/svc/bin/svc",), ("/opt/svc/bin/svc", "/usr/bin/python3"))
PLACES = UnfitPlaces(homes=("/home",), temporary=("/var/tmp",), hidden=("/home",))
ACCOUNT = "daemon"
"""There on every Linux machine, and not the one that systemd warns of."""

_STATE = 'cluster="a.example"\nstate_dir="/var/lib/svc/{role}"\n'
CONFIGURATIONS = {
    "authority": _STATE + 'store_url="sqlite:////var/lib/svc/authority/store.db"\n',
    "proxy": _STATE + 'endpoints.public_listen="0.0.0.0:443"\n',
    "connector": _STATE + 'endpoints.proxy=["127.0.0.1:1"]\n',
    "all": _STATE
    + 'store_url="sqlite:////var/lib/svc/all/store.db"\nendpoints.public_listen="127.0.0.1:7400"\n',
    "client": 'cluster="a.example"\nendpoints.proxy=["127.0.0.1:1"]\n',
}
SERVERS = ("authority", "proxy", "connector", "all")


def text_for(role: str) -> str:
    """A configuration of the role."""
    return CONFIGURATIONS[role].replace("{role}", role)


@define
class RecordedSystemctl:
    """Keeps the words of each call; refuses those that begin with what fails."""

    fails: str = ""
    calls: list[list[str]] = field(factory=list)

    def __call__(self, words: Sequence[str]) -> str:
        self.calls.append(list(words))
        if self.fails and self.fails in words:
            raise ServiceRefused(f"systemctl {' '.join(words)}: failed")
        return ""


class UnitCase(SynchronousTestCase):
    """With a directory that every account can enter, which serves as a machine's root."""

    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="svc-units-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.root.chmod(0o755)
        (self.root / "run/systemd/system").mkdir(parents=True)
        self.systemctl = RecordedSystemctl()
        self.machine = ServiceHost(
            root=self.root, platform="linux", uid=0, environ={}, systemctl=self.systemctl
        )

    def config(self, role: str, text: str | None = None) -> str:
        """The path of a configuration of the role, which everybody may read."""
        path = self.root / "etc/svc" / f"{role}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_for(role) if text is None else text, "utf-8")
        path.chmod(0o644)
        if role == "client" and os.geteuid() == 0:
            os.chown(path.parent, pwd.getpwnam(ACCOUNT).pw_uid, -1)
        return str(path)

    def wanted(self, role: str, text: str | None = None, **changes: Any) -> WantedUnit:
        """The unit of the role, for an account that there is."""
        wanted = WantedUnit(role, self.config(role, text), ACCOUNT)
        return evolve(wanted, **changes)

    def planned(self, role: str, text: str | None = None, **changes: Any) -> ServiceUnit:
        """What would be installed."""
        return plan_unit(self.wanted(role, text, **changes), ACCOUNT, PROGRAM, PLACES)

    def tree(self) -> dict[str, tuple[bytes, int]]:
        """Every file below the root: its bytes and its mode."""
        return {
            str(path.relative_to(self.root)): (path.read_bytes(), os.stat(path).st_mode)
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


def lines_of(unit: ServiceUnit) -> list[str]:
    """Its lines."""
    return unit.text.splitlines()
