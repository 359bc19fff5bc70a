"""Clients of every kind, of which nothing is left when they have ended or were killed."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import field, frozen
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, until
from svc.testing.gateway.settings import CONNECTOR, POLICY, PROXY, GatewayTarget
from tests.support.tools import stock_tool
from tests.system.board import Site
from tests.system.databases import application_database
from tests.system.gated_ssh import GatedHost, gated_target
from tests.system.kube_api.server import Cluster
from tests.system.kube_api.stage import cluster_target
from tests.system.test_kubectl import SPDY, WEBSOCKET
from tests.system.world import around, sshd

RUN_BY = "make fault"

KINDS = ["kube", "postgres", "ssh", "tcp", "web"]
STAYS = "echo here; exec sleep 300"


@frozen
class Use:
    """One client.

    Attributes:
        command: Its words.
        said: What it prints when it is amid its work, and is killed; empty: it runs to its end.
        environ: More of its environment.
        floods: It prints without end, so it is killed as soon as it does.
    """

    command: Sequence[str]
    said: str = ""
    environ: Mapping[str, str] = field(factory=dict)
    floods: bool = False


class NothingStays(SynchronousTestCase):
    """Three processes and a resident, with a target of each kind."""

    gateway: Gateway
    person: GatewayPerson

    def setUp(self) -> None:
        self.numbers = itertools.count()
        site, self.cluster = Site(), Cluster()
        for server in (site, self.cluster):
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
        targets = [
            GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}", "tcp"),
            GatewayTarget("board", f"127.0.0.1:{site.server_address[1]}", "web"),
            GatewayTarget("host", sshd().address, "ssh"),
            gated_target(sshd()),
            cluster_target("prod", self.cluster),
            application_database(self, "GRANT ALL ON SCHEMA public TO app"),
        ]
        self.gateway = make_gateway(targets, numbers={"plugins.kinds": KINDS})
        self.addCleanup(self.gateway.end)
        self.gateway.set_policy(POLICY)
        self.person = self.gateway.add_person("ada", "ops")
        config = self.person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        self.person.up("echo", "board", "host", "gated", "prod", "orders")

    def uses(self) -> Iterator[Use]:
        """Of every kind that stock clients speak."""
        yield from self.of_the_application()
        yield from self.of_the_database()
        yield from self.of_the_cluster()
        yield from self.of_the_hosts()

    def of_the_application(self) -> Iterator[Use]:
        """A page, a file, a file that is read slowly, and events that never end."""
        host, port = self.person.endpoint("board")
        curl = [stock_tool("curl"), "-sSN", "--noproxy", "*"]
        site, nowhere = f"http://{host}:{port}", ("-o", "/dev/null")
        yield Use([*curl, f"{site}/plan"])
        yield Use([*curl, *nowhere, f"{site}/bytes/3000000"])
        yield Use([*curl, "-i", "--limit-rate", "10k", f"{site}/bytes/30000000"], "200 OK")
        yield Use([*curl, f"{site}/events"], "event 2")

    def of_the_database(self) -> Iterator[Use]:
        """A query, one that takes long, one with a long answer, and an idle client."""
        (one,) = [
            each for each in self.person.status()["endpoints"] if each["resource"] == "orders"
        ]
        where = ["-h", one["directory"], "-U", "app", "-d", "postgres"]
        psql = [stock_tool("psql"), "-X", "-w", "-At", *where, "-c"]
        much = "COPY (SELECT 'here' FROM generate_series(1, 100000000)) TO STDOUT"
        yield Use([*psql, "SELECT 1"])
        yield Use([*psql, r"\echo here", "-c", "SELECT pg_sleep(300)"], "here")
        yield Use([*psql, much], "here", floods=True)
        yield Use([*psql, "SELECT 'here'", "-c", r"\! sleep 300"], "here")

    def of_the_cluster(self) -> Iterator[Use]:
        """What is asked once, and what goes on, by WebSocket and by SPDY."""
        config = self.person.directory / "kube" / "prod.yaml"
        kubectl = [stock_tool("kubectl"), "-n", "shop", "--kubeconfig", str(config)]
        for environ in (WEBSOCKET, SPDY):
            yield Use([*kubectl, "exec", "front", "--", "true"], environ=environ)
            yield Use([*kubectl, "exec", "front", "--", "sh", "-c", STAYS], "here", environ)
            yield Use([*kubectl, "port-forward", "pod/front", ":80"], "Forwarding", environ)
        yield Use([*kubectl, "get", "pods"])
        yield Use([*kubectl, "get", "pods", "-w"], "front")
        yield Use([*kubectl, "logs", "-f", "front"], "first line")

    def of_the_hosts(self) -> Iterator[Use]:
        """A host whose SSH ends at its Connector, and one whose SSH only passes."""
        gated = GatedHost(gateway=self.gateway, host=sshd(), person=self.person)
        passing = sshd().options(self.person.proxy_command())
        for name, options in (("gated", gated.options()), ("host", passing)):
            ssh = [stock_tool("ssh"), *options]
            yield Use([*ssh, name, "true"])
            yield Use([*ssh, name, STAYS], "here")
            yield Use([*ssh, "-tt", name, STAYS], "here")
            yield Use([*ssh, name, "echo here; exec cat /dev/zero"], "here", floods=True)

    def begun(self, one: Use) -> Callable[[], None]:
        """Start one; what is returned kills it amid its work, or waits for its end."""
        name = f"use-{next(self.numbers)}"
        child = Child(
            name=name,
            words=list(one.command),
            home=self.person.home,
            log=self.person.home / f"{name}.log",
            environ=one.environ,
        )
        self.addCleanup(child.end)
        child.start()

        def over() -> None:
            if not one.said:
                self.assertEqual(child.wait(), 0, child.text())
                return
            until(f"{one.said} of {child.name}", lambda: one.said in child.text(), alive=[child])
            child.end()

        return over

    def connect(self) -> None:
        """By TCP, with each way to leave."""
        where = self.person.endpoint("echo")
        for end in ("close", "half", "reset"):
            with socket.create_connection(where, 20) as near:
                near.sendall(b"here")
                near.recv(4, socket.MSG_WAITALL)
                if end == "half":
                    near.shutdown(socket.SHUT_WR)
                    self.assertEqual(near.recv(1), b"")
                elif end == "reset":
                    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def held(self) -> dict[str, int]:
        """Descriptors of each process that sessions pass."""
        assert self.person.resident is not None
        passed = (self.gateway.child(PROXY), self.gateway.child(CONNECTOR), self.person.resident)
        return {child.name: len(os.listdir(f"/proc/{child.pid}/fd")) for child in passed}

    def all_used(self) -> None:
        """Use everything once, much of it at the same time, and wait until no session is left."""
        waiting = []
        for one in self.uses():
            over = self.begun(one)
            if one.floods:
                over()
            else:
                waiting.append(over)
        self.connect()
        for over in waiting:
            over()
        listed = ("sessions", "list", "--json")
        until("no session", lambda: not self.gateway.operator(*listed).json, seconds=40)

    def test_every_kind(self) -> None:
        """No session, and in no process a descriptor more than before."""
        self.all_used()
        before = self.held()
        self.all_used()

        def no_more() -> bool:
            return all(count <= before[name] for name, count in self.held().items())

        until(f"no more descriptors than {before}", no_more, seconds=30)
