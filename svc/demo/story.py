"""What the demo does and what it prints, line by line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field

from svc.client.own_options import path_lines
from svc.client.resident.peer_uid import AVAILABLE
from svc.compose.person import client_settings, load_person
from svc.config import load_settings
from svc.demo.endpoints import LocalEndpoints
from svc.demo.gateway import DemoGateway
from svc.demo.log import Log
from svc.demo.scene import (
    CLOSED_PATH,
    DATABASE,
    DATABASE_NAME,
    DATABASE_ROLE,
    DROPS,
    ECHO,
    FIRST_ITEM,
    KUBE,
    NAMESPACE,
    PERSON,
    READS,
    SSH,
    VAULT,
    WEB,
    DemoResource,
)
from svc.demo.statements import LocalDatabase
from svc.demo.waiting import until
from svc.errors import SvcError
from svc.messages.session import Explanation
from svc.runtime.context import Runtime
from svc.runtime.threads import in_pool
from svc.telemetry.escape import escaped

_READY_SECS = 20.0
_HEAD_SECS = 10.0
_DENIED_CODE = "42501"
_DENIED = re.compile(
    r".*\(reason: (?P<reason>\w+)\)\nPolicy: (?P<policies>[\w, -]+)\..*\n"
    r"svc why (?P<decision>[0-9a-f]{32})(?: --dir .+)?"
)
_DENIED_CALL = re.compile(
    r"the access policy does not allow this request \(policies (?P<policies>[\w, -]+)\); "
    r"to see why: svc why (?P<decision>[0-9a-f]{32})(?: --dir .+)?"
)
_HELLO = b"hello through the gateway\n"


class NotAsExpected(SvcError):
    """The demo's gateway did something else than it should."""

    reason = "demo_failed"


@define
class Story:
    """Tells what a gateway does.

    Attributes:
        write_line: Takes one line.
        denied: The decision id of the refusal, once there was one.
        program: How ``svc`` is called, as words of the shell.
    """

    runtime: Runtime
    gateway: DemoGateway
    write_line: Callable[[str], object]
    program: str
    denied: str = field(default="", init=False)

    async def tell(self) -> dict[str, Any]:
        """All of it; the local endpoints by resource, for the commands to try.

        Raises:
            NotAsExpected: saying what should have come.
            SvcError: something did not answer.
        """
        reactor = self.runtime.reactor
        local = LocalEndpoints(reactor, reactor, self.gateway.client_config.parent)
        there = {}
        for role in self.gateway.scene.resources:
            what = f"the local endpoint of {role.id}"
            look = _look(local, role)
            there[role.id] = await until(reactor, _READY_SECS, look, what)
        await self._allowed(local, ECHO, there, _HELLO, _HELLO)
        await self._allowed(local, WEB, there, _get(there[WEB.id], "/"), b"HTTP/1.1 200 OK")
        await self._allowed(local, SSH, there, b"", b"SSH-2.0-")
        await self._denied_request(local, there)
        pods, secrets = (f"/api/v1/namespaces/{NAMESPACE}/{name}" for name in ("pods", "secrets"))
        await self._allowed(local, KUBE, there, _get(there[KUBE.id], pods), b"HTTP/1.1 200 OK")
        await self._denied_call(local, there, secrets)
        if DATABASE.id in there:
            await self._statements(LocalDatabase(there[DATABASE.id]))
        await self._denied(local, VAULT, there)
        await self._verified()
        return there

    async def _allowed(
        self,
        local: LocalEndpoints,
        role: DemoResource,
        there: dict[str, Any],
        said: bytes,
        expected: bytes,
    ) -> None:
        heard = await local.talk(there[role.id], said, len(expected))
        if not heard.startswith(expected):
            raise NotAsExpected(
                f"{role.id}: {len(heard)} bytes came back, but not the expected ones"
            )
        await self._tell_allowed(role, repr(expected.splitlines()[0].decode("ascii")))

    async def _tell_allowed(self, role: DemoResource, shown: str) -> None:
        record = await in_pool(self.runtime.reactor)(lambda: self._log.decision(role.id))
        if record is None or record["decision"] != "allow":
            raise NotAsExpected(f"{role.id}: a session was opened without a record that allows it")
        policies = ", ".join(record["policies"])
        self.write_line(
            f"ALLOW  {PERSON} → {role.id:<8}  {shown} came back  policies [{policies}]  "
            f"decision {record['decision_id']}"
        )

    async def _statements(self, database: LocalDatabase) -> None:
        """Two statements in one session: what may be read is read, and the table stays."""
        read, dropped = await in_pool(self.runtime.reactor)(lambda: database.run(READS, DROPS))
        if read.value != FIRST_ITEM:
            raise NotAsExpected(f"{DATABASE.id}: {READS} did not give {FIRST_ITEM!r}")
        await self._tell_allowed(DATABASE, f"{READS}: {FIRST_ITEM!r}")
        said = _DENIED.fullmatch("\n".join((dropped.text, dropped.detail, dropped.hint)))
        if dropped.code != _DENIED_CODE or said is None or said["policies"] != "no-ddl":
            raise NotAsExpected(f"{DATABASE.id}: {DROPS} was not denied by its policy")
        self.write_line(
            f"DENY   {PERSON} → {DATABASE.id:<8}  {DROPS}: SQLSTATE {dropped.code}, reason "
            f"{said['reason']}  policies [{said['policies']}]  decision {said['decision']}"
        )

    async def _denied_request(self, local: LocalEndpoints, there: dict[str, Any]) -> None:
        """A request that is refused amid the application's others, in HTTP's own words."""
        heard = await local.talk(there[WEB.id], _get(there[WEB.id], CLOSED_PATH, "close"), 0)
        head, _, body = heard.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 403 ") or b"no-admin" not in body:
            raise NotAsExpected(f"{WEB.id}: GET {CLOSED_PATH} was not denied by its policy")
        told = json.loads(body)["error"]
        policies = escaped(", ".join(told["policies"]))
        self.write_line(
            f"DENY   {PERSON} → {WEB.id:<8}  GET {CLOSED_PATH}: 403, reason "
            f"{escaped(told['reason'])}  policies [{policies}]  decision "
            f"{escaped(told['decision_id'])}"
        )

    async def _denied_call(self, local: LocalEndpoints, there: dict[str, Any], path: str) -> None:
        """One of a cluster's API, in the words that kubectl prints."""
        heard = await local.talk(there[KUBE.id], _get(there[KUBE.id], path, "close"), 0)
        head, _, body = heard.partition(b"\r\n\r\n")
        told = json.loads(body) if head.startswith(b"HTTP/1.1 403 ") else {"message": ""}
        said = _DENIED_CALL.fullmatch(told["message"])
        if said is None or said["policies"] != "no-secrets":
            raise NotAsExpected(f"{KUBE.id}: GET {path} was not denied by its policy")
        self.write_line(
            f"DENY   {PERSON} → {KUBE.id:<8}  GET {path}: {told['reason']}  "
            f"policies [{said['policies']}]  decision {said['decision']}"
        )

    async def _denied(
        self, local: LocalEndpoints, role: DemoResource, there: dict[str, Any]
    ) -> None:
        heard = await local.talk(there[role.id], b"open\n", 0)
        if heard:
            raise NotAsExpected(f"{role.id}: {len(heard)} bytes came through; expected none")
        refused = (await local.status())["refused"]
        if not refused or refused[-1]["resource"] != role.id:
            raise NotAsExpected(
                f"{role.id}: the connection ended for a reason other than a refusal"
            )
        one = refused[-1]
        policies = escaped(", ".join(one["policies"]))
        self.write_line(
            f"DENY   {PERSON} → {role.id:<8}  reason {escaped(one['reason'])}  "
            f"policies [{policies}]  decision {escaped(one['decision_id'])}"
        )
        self.denied = one["decision_id"]
        why = await self._why(self.denied)
        if not why.explained or why.decision != "deny" or "vault-is-closed" not in why.policies:
            raise NotAsExpected(f"{role.id}: why {self.denied} does not explain the refusal")
        self.write_line(
            f"why    {why.decision_id}: {why.decision} {why.action} on {why.resource}: "
            f"{escaped(why.reason)}; policies [{escaped(', '.join(why.policies))}], "
            f"policy version {why.policy_version}"
        )
        for name, text in sorted(why.why.items()):
            self.write_line(f"       {escaped(name)} says: {escaped(text)}")

    async def _why(self, decision_id: str) -> Explanation:
        """What ``svc why`` asks, on a connection of its own."""
        config = str(self.gateway.client_config)
        side = load_person(self.runtime, client_settings(config, {}))
        channel = await side.connect()
        try:
            return await side.dialer(lambda: channel).why(decision_id)
        finally:
            await channel.close()

    async def _verified(self) -> None:
        """Every record is signed over within a moment; then an outsider finds the log whole."""

        async def covered() -> Any:
            found = await in_pool(self.runtime.reactor)(self._log.verified)
            return found if found.anchored == found.records else None

        found = await until(self.runtime.reactor, _HEAD_SECS, covered, "a signed head of the log")
        self.write_line(f"audit verify: {found.text}")

    @property
    def _log(self) -> Log:
        return Log(load_settings(str(self.gateway.all_config), "all", {}))

    def by_hand(self, there: dict[str, Any]) -> Iterator[str]:
        """The commands to try while it runs; each can be pasted into a shell."""
        config = shlex.quote(str(self.gateway.client_config))
        mine = f"{self.program} --config {config}"
        yield from path_lines(self.program)
        if not AVAILABLE:
            yield "# this platform cannot tell whose process connects: unix sockets only"
        yield _curl(there[WEB.id])
        yield f"{_curl(there[WEB.id], CLOSED_PATH)}   # denied: 403, with the policy"
        yield f"{_curl(there[VAULT.id])}   # refused; `svc why` below tells why"
        yield _ssh(there[SSH.id], mine)
        if DATABASE.id in there:
            yield (
                f"{mine} db {DATABASE.id} --role {DATABASE_ROLE} --database {DATABASE_NAME}"
                f"   # then: {DROPS};"
            )
        yield from self._kubectl(there[KUBE.id])
        yield f"{mine} resources list"
        yield f"{mine} why {self.denied}"
        yield from self.kept()

    def _kubectl(self, there: dict[str, Any]) -> Iterator[str]:
        if there["address"]:
            file = self.gateway.client_config.parent / "kube" / f"{KUBE.id}.yaml"
            call = f"kubectl --kubeconfig {shlex.quote(str(file))} -n {NAMESPACE}"
            yield f"{call} get pods"
            yield f"{call} get secrets   # Forbidden, with the policy"
            yield f"{call} auth can-i get secrets   # no: the policy answers before the cluster"

    def kept(self) -> Iterator[str]:
        """The commands that need the state only, and no running gateway."""
        whole = f"{self.program} --config {shlex.quote(str(self.gateway.all_config))}"
        yield f"{whole} authority audit show {self.denied} --long"
        yield f"{whole} authority audit verify"


def _look(local: LocalEndpoints, role: DemoResource) -> Callable[[], Any]:
    return lambda: local.endpoint(role.id)


def _get(there: dict[str, Any], path: str, connection: str = "keep-alive") -> bytes:
    host = there["address"] or WEB.id
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: {connection}\r\n\r\n"
    return head.encode("ascii")


def _curl(there: dict[str, Any], path: str = "/") -> str:
    if there["address"]:
        return f"curl http://{there['address']}{path}"
    return f"curl --unix-socket {shlex.quote(there['socket'])} http://{WEB.id}{path}"


def _ssh(there: dict[str, Any], mine: str) -> str:
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    if there["address"]:
        host, _, port = there["address"].rpartition(":")
        return f"ssh {options} -p {port} {PERSON}@{host}"
    proxy = shlex.quote(f"ProxyCommand={mine} proxy-ssh --user %r %h")
    return f"ssh {options} -o {proxy} {PERSON}@{SSH.id}"
