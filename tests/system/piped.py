"""``svc proxy-ssh`` between two pipes that a test holds, as ssh would."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import begun, environment, svc_command

ITSELF = {"SVC_CLIENT__NATIVE_PORT_OFFSET": "10000"}
"""The default, but from the environment: with it, no resident is asked to carry the session."""


@define(eq=False)
class ProxySsh:
    """One command and its pipes.

    Attributes:
        environ: What it finds in its environment beside a home.
        given: Where its input is written.
        output: Where its output is read.
        errors: Where its stderr is read.
    """

    person: GatewayPerson
    resource: str = "echo"
    environ: Mapping[str, str] = field(factory=dict)
    process: Any = field(init=False)
    given: int = field(init=False)
    output: int = field(init=False)
    errors: int = field(init=False)

    def start(self) -> None:
        """Start it."""
        home = self.person.home
        its_input, self.given = os.pipe()
        self.output, its_output = os.pipe()
        self.errors, its_errors = os.pipe()
        words = svc_command("proxy-ssh", self.resource, "--kind", "tcp")
        with (
            open(its_input, "rb") as stdin,
            open(its_output, "wb") as stdout,
            open(its_errors, "wb") as stderr,
        ):
            self.process = begun(
                words, environment(home, self.environ), home, (stdin, stdout, stderr)
            )

    def open(self) -> None:
        """Start it, and have bytes come back from an echo."""
        self.start()
        os.write(self.given, b"hello")
        came = os.read(self.output, 5)
        if came != b"hello":
            raise AssertionError(f"no echo came back: {came!r}; {self.said()}")

    def said(self) -> str:
        """What stands on stderr when the output ends."""
        while os.read(self.output, 4096):
            pass
        # By then all of it is there: whoever reads on would wait for the end of the process.
        return self.said_so_far()

    def said_so_far(self) -> str:
        """What stands on stderr."""
        os.set_blocking(self.errors, False)
        return os.read(self.errors, 65536).decode()

    def let_go(self) -> None:
        """Close the pipes, as a tool that ends; its input and output are no more there then."""
        for name in ("given", "output"):
            os.close(getattr(self, name))
            setattr(self, name, os.open(os.devnull, os.O_RDWR))

    def close(self) -> None:
        """End it, if it has not ended, and close the pipes."""
        if self.process.poll() is None:
            self.process.kill()
        for pipe in (self.given, self.output, self.errors):
            os.close(pipe)
        self.process.wait()
