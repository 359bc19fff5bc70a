"""The commands to type next, with the real paths, in their order; pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from svc.client.own_options import OWN_COMMANDS, path_lines
from svc.client.places import ADMINISTRATOR
from svc.config.keys import BUILT_IN_KINDS
from svc.model.cluster.account import CODE_FILE
from svc.setup.making import POLICY
from svc.setup.plan import (
    AUTHORITY,
    CONNECTOR,
    CONNECTOR_NAME,
    GROUP,
    PAGE,
    PROXY,
    PROXY_NAME,
    InitPlan,
)

PERSON = "ada"
_SPARE = "db1"
"""Its own directory: the person who joined before has ``~/.svc`` itself."""


@frozen
class Next:
    """Says the commands that follow a plan that was made.

    Attributes:
        program: How ``svc`` is called, as words of the shell.
    """

    plan: InitPlan
    program: str
    ca_pin: str

    def lines(self) -> Iterator[str]:
        """Every line; comments begin with ``#``, all else can be pasted into a shell."""
        if not self.plan.makes_keys:
            yield from self._joiners()
            return
        steps = self._one() if self.plan.is_one else self._separate()
        for number, (what, commands) in enumerate(steps, 1):
            yield f"# {number}. {what}"
            yield from commands
            yield ""

    def _one(self) -> Iterator[tuple[str, list[str]]]:
        yield "run the gateway; it keeps this terminal", [f"{self._svc('all')} all"]
        if not self.plan.resources:
            yield "add the resources (their addresses are in all.toml)", self._served()
        yield (
            f"in another terminal, add a person to the group {GROUP} and join as that person",
            self._person(),
        )
        yield from self._uses()

    def _separate(self) -> Iterator[tuple[str, list[str]]]:
        roles = self.plan.roles
        yield "run the Authority; it keeps this terminal", [f"{self._svc(AUTHORITY)} authority"]
        for role, name in ((PROXY, PROXY_NAME), (CONNECTOR, CONNECTOR_NAME)):
            if role in roles:
                run = f"{self._svc(role)} {role}"
                what = f"create a one-use token for the {role.title()}, and run the {role.title()}"
                yield f"{what}, in another terminal", [self._node(role, name), run]
            else:
                yield (
                    f"create a token for a {role.title()} on another machine",
                    self._elsewhere(role, name),
                )
        what = "add the resources, and set who may use them"
        policy = _quoted(self.plan.directory / POLICY)
        authority = f"{self._svc(AUTHORITY)} authority"
        who = [f"{authority} groups add {GROUP}", f"{authority} policy set {policy}"]
        yield what, [*self._served(), *who]
        yield f"add a person to the group {GROUP} and join as that person", self._person()
        yield from self._uses()

    def _joiners(self) -> Iterator[str]:
        """Where only nodes of a cluster made elsewhere are set up."""
        for role in self.plan.roles:
            token = self.plan.state[role] / "join.token"
            yield f"# Put the token that `svc authority nodes add` printed into {token}:"
            yield f"(umask 077; cat > {_quoted(token)})"
            yield f"{self._svc(role)} {role}"
            yield ""

    def _node(self, role: str, name: str) -> str:
        names = "".join(
            f" --public-name {each}" for each in self.plan.public_names if role == PROXY
        )
        add = f"{self._svc(AUTHORITY)} authority nodes add {name} --role {role}{names}"
        return f"(umask 077; {add} > {_quoted(self.plan.state[role] / 'join.token')})"

    def _elsewhere(self, role: str, name: str) -> list[str]:
        add = self._node(role, name).removeprefix("(umask 077; ").rpartition(" > ")[0]
        option = f" --host {self.plan.host}" if role == PROXY else ""
        there = (
            f"# there: {self.program} init DIR --for {role} --cluster {self.plan.cluster} "
            f"--ca-pin {self.ca_pin}{option} --public-name {self.plan.public_names[0]}"
        )
        return [add, there]

    def _served(self) -> list[str]:
        authority = f"{self._svc(AUTHORITY)} authority resources add"
        served = [(one.id, one.kind) for one in self.plan.resources] or [(_SPARE, "tcp")]
        return [f"{authority} {id} --kind {kind} --node {CONNECTOR_NAME}" for id, kind in served]

    def _person(self) -> list[str]:
        token = _quoted(self.plan.directory / f"{PERSON}.token")
        add = f"{self._svc(AUTHORITY)} authority persons add {PERSON} --group {GROUP}"
        cluster = f"--proxy {self.plan.public} --ca-pin {self.ca_pin}"
        return [
            f"(umask 077; {add} > {token})",
            f"{self.program} join {cluster} --token-file {token}",
            *self._enabled(),
        ]

    def _enabled(self) -> Iterator[str]:
        """What a person's own configuration needs for kinds that do not come with svc."""
        foreign = set(self.plan.more_kinds) - set(BUILT_IN_KINDS)
        if foreign:
            line = f"plugins.kinds = {json.dumps(sorted({*BUILT_IN_KINDS, *foreign}))}"
            config = '"$HOME/.svc/client.toml"'
            yield f"# enable the kinds there too, in the first line of {config}:"
            yield f"printf '%s\\n' {shlex.quote(line)} \"$(cat {config})\" > {config}"

    def _uses(self) -> Iterator[tuple[str, list[str]]]:
        yield (
            "open a local port for every resource that person may use; it keeps this terminal",
            [f"{self.program} up"],
        )
        yield "in another terminal, list these resources and use one", self._use()
        what = (
            "to administer from any machine, become the first administrator within an hour of the "
            "first start; you choose a name and a password, and need an authenticator app"
        )
        yield what, self._administrator()

    def _administrator(self) -> list[str]:
        code = _quoted(self.plan.state[AUTHORITY] / CODE_FILE)
        cluster = f"--proxy {self.plan.public} --ca-pin {self.ca_pin}"
        first = f"{self.program} login --first-administrator --code-file {code} {cluster}"
        return [
            f"{first} --dir {ADMINISTRATOR}",
            f"{self.program} authority --dir {ADMINISTRATOR} status",
        ]

    def _use(self) -> list[str]:
        lines = [*path_lines(self.program), f"{self.program} resources list"]
        ssh = next((one for one in self.plan.resources if one.kind == "ssh"), None)
        first = ssh or next(iter(self.plan.resources), None)
        lines.append(self._use_of(first.id, first.kind) if first else _ANY_CLIENT)
        return [*lines, f"{self.program} open {PAGE}"] if self.plan.has_page else lines

    def _use_of(self, id: str, kind: str) -> str:
        """What uses a resource; a comment where only the person can complete it."""
        if kind == "ssh":
            proxy = shlex.quote(f"ProxyCommand={self.program} proxy-ssh --user %r %h")
            return f"ssh -o {proxy} {id}"
        if kind not in OWN_COMMANDS:
            return _ANY_CLIENT
        command = OWN_COMMANDS[kind].format(id).replace("svc", self.program, 1)
        return (
            f"# then: {command} --role ROLE --database DATABASE" if " db " in command else command
        )

    def _svc(self, role: str) -> str:
        return f"{self.program} --config {_quoted(self.plan.config(role))}"


_ANY_CLIENT = "# then let a client connect to the ADDRESS of one"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
