"""A person on this machine: a home of their own, an identity, a resident, the commands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from attrs import define, field

from svc.client.resident.control import ask_resident
from svc.testing.gateway.processes import TIMEOUT_SECS, Child, Ran, run, svc_command, until


@define(eq=False, slots=False)
class GatewayPerson:
    """One person.

    Attributes:
        home: Their HOME; ``.svc`` is in it.
        resident: The process of ``svc up``, once started.
    """

    name: str
    home: Path
    cluster: str
    resident: Child | None = field(default=None, init=False)

    @property
    def directory(self) -> Path:
        """``~/.svc``."""
        return self.home / ".svc"

    def join(self, proxy: str, pin: str, token: str) -> None:
        """Exchange the token for an identity."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.svc("join", "--proxy", proxy, "--ca-pin", pin, stdin=token.encode()).checked()

    def svc(self, *words: str, stdin: bytes = b"", seconds: float = TIMEOUT_SECS) -> Ran:
        """Run one of the person's commands."""
        return run(svc_command(*words), self.home, stdin=stdin, seconds=seconds)

    def proxy_command(self, *more: str, name: str = "%h") -> str:
        """What stands after ``ProxyCommand=``."""
        return f"{shlex.join(svc_command())} proxy-ssh {shlex.join(more)} {name}"

    def up(self, *resources: str) -> Child:
        """Start the resident (again), and wait for local endpoints of these resources."""
        if self.resident is None:
            self.resident = Child(
                name=f"up-{self.name}",
                words=svc_command("up"),
                home=self.home,
                log=self.home / "up.log",
                environ={"SVC_LOG_FORMAT": "json"},
            )
        self.resident.start()
        for resource in resources:
            self.endpoint(resource)
        return self.resident

    def status(self) -> dict[str, Any]:
        """What the resident tells of itself; empty while none answers."""
        return ask_resident(self.directory / "run", {"ask": "status"}, TIMEOUT_SECS) or {}

    def endpoint(self, resource: str, seconds: float = TIMEOUT_SECS) -> tuple[str, int]:
        """Host and port of a resource here, waited for until it is served."""
        assert self.resident is not None, "the resident was never started"

        def look() -> tuple[str, int] | None:
            for one in self.status().get("endpoints", ()):
                if one["resource"] == resource and one["served"] and one["address"]:
                    host, _, port = one["address"].rpartition(":")
                    return host, int(port)
            return None

        return until(f"endpoint of {resource}", look, seconds, [self.resident])

    def refused(self, resource: str, seconds: float = TIMEOUT_SECS) -> dict[str, Any]:
        """The resident's newest refusal of a resource, waited for."""

        def look() -> dict[str, Any] | None:
            of_it = [one for one in self.status()["refused"] if one["resource"] == resource]
            return of_it[-1] if of_it else None

        return until(f"refusal of {resource}", look, seconds)

    def listed(self) -> list[dict[str, Any]]:
        """``svc resources list``."""
        found: list[dict[str, Any]] = json.loads(
            self.svc("resources", "list", "--json").checked().stdout
        )
        return found
