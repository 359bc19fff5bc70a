"""The peers on the same machine: OpenSSH forwarding through a host, HAProxy over three TLS hops."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

_WAIT_SECS = 20.0
_DAEMONS = "/usr/sbin:/sbin"


class Missing(Exception):
    """A stock tool that is not on this machine."""


def tool(name: str) -> str:
    """The path of a stock tool.

    Raises:
        Missing: it is not installed.
    """
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_DAEMONS}")
    if path is None:
        raise Missing(name)
    return path


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """Return once something listens there."""
    deadline = time.monotonic() + _WAIT_SECS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            os.sched_yield()
    raise AssertionError(f"nothing listens on port {port}")


@contextmanager
def running(commands: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """The ids of processes that are ended however the block ends."""
    processes = [
        subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for words in commands
    ]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@frozen
class Ssh:
    """A private sshd, and how to reach it."""

    directory: Path
    port: int
    pid: int

    @property
    def options(self) -> tuple[str, ...]:
        """What every client call needs."""
        return (
            "-F",
            "none",
            "-i",
            str(self.directory / "user"),
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
        )

    @property
    def config(self) -> Path:
        """A configuration of its own, so that a jump host is given the same options."""
        path = self.directory / "client"
        user = os.environ.get("USER") or "root"
        lines = (
            "Host *",
            f"  User {user}",
            f"  IdentityFile {self.directory / 'user'}",
            "  BatchMode yes",
            "  StrictHostKeyChecking no",
            "  UserKnownHostsFile /dev/null",
            "  LogLevel ERROR",
            "Host jump target",
            "  HostName 127.0.0.1",
            f"  Port {self.port}",
        )
        path.write_text("\n".join(lines) + "\n", "utf-8")
        return path


@contextmanager
def sshd(directory: Path) -> Iterator[Ssh]:
    """An OpenSSH server on a free port, for the user that runs this."""
    server, keygen = tool("sshd"), tool("ssh-keygen")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(
            [keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True
        )
    shutil.copy(directory / "user.pub", directory / "authorized")
    port = free_port()
    config = directory / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\n"
        f"AuthorizedKeysFile {directory}/authorized\nPidFile none\nStrictModes no\n"
        "UsePAM no\nMaxStartups 500\nMaxSessions 500\n",
        "utf-8",
    )
    with running([[server, "-D", "-f", str(config)]]) as [pid]:
        await_port(port)
        yield Ssh(directory, port, pid)


@contextmanager
def ssh_chain(ssh: Ssh, port: int) -> Iterator[Hops]:
    """``ssh -L`` to a server to which ``ssh -R`` gave the target's *port*."""
    client, inner, local = tool("ssh"), free_port(), free_port()
    host = ("-p", str(ssh.port), "127.0.0.1")
    behind = [client, *ssh.options, "-N", "-R", f"127.0.0.1:{inner}:127.0.0.1:{port}", *host]
    front = [client, *ssh.options, "-N", "-L", f"127.0.0.1:{local}:127.0.0.1:{inner}", *host]
    with running([behind]) as last:
        await_port(inner)
        with running([front]) as first:
            await_port(local)
            yield Hops(local, [*first, ssh.pid, *last])


@contextmanager
def ssh_forward(ssh: Ssh, port: int) -> Iterator[Hops]:
    """``ssh -L`` to a server that reaches the target's *port* itself."""
    local = free_port()
    way = ("-N", "-L", f"127.0.0.1:{local}:127.0.0.1:{port}", "-p", str(ssh.port), "127.0.0.1")
    with running([[tool("ssh"), *ssh.options, *way]]) as pids:
        await_port(local)
        yield Hops(local, [*pids, ssh.pid])


@frozen
class Hops:
    """A peer at work.

    Attributes:
        port: Where it is reached.
        pids: Of its processes, in the order in which a connection passes them.
    """

    port: int
    pids: list[int]

    @property
    def pid(self) -> int:
        """Of the only one."""
        [pid] = self.pids
        return pid


_HAPROXY = (
    "global\n  nbthread 1\n  maxconn 4000\ndefaults\n  timeout connect 5s\n"
    "  timeout client 60s\n  timeout server 60s\n"
)


@contextmanager
def haproxy_chain(directory: Path, sink_port: int) -> Iterator[Hops]:
    """Three HAProxy processes, TLS between each."""
    program = tool("haproxy")
    pem = _certificate(directory)
    ports = [free_port() for _ in range(3)]
    commands = []
    for hop, port in enumerate(ports):
        bind = f"127.0.0.1:{port}" + ("" if hop == 0 else f" ssl crt {pem}")
        last = hop == len(ports) - 1
        target = f"127.0.0.1:{sink_port}" if last else f"127.0.0.1:{ports[hop + 1]} ssl verify none"
        path = directory / f"haproxy{hop}.cfg"
        path.write_text(
            _HAPROXY + f"  mode tcp\nlisten hop\n  bind {bind}\n  server next {target}\n", "utf-8"
        )
        commands.append([program, "-db", "-q", "-f", str(path)])
    with running(commands) as pids:
        for port in ports:
            await_port(port)
        yield Hops(ports[0], pids)


@contextmanager
def h11_chain(directory: Path, target_port: int) -> Iterator[Hops]:
    """Three processes that parse HTTP and do nothing else, TLS between each.

    Raises:
        Missing: there is no h11.
    """
    if find_spec("h11") is None:
        raise Missing("h11")
    pem = _certificate(directory)
    places = ("first", "middle", "last")
    ports = [free_port() for _ in places] + [target_port]
    commands = [
        [sys.executable, "-m", "contrib.bench.h11_relay", str(here), str(beyond), place, str(pem)]
        for place, here, beyond in zip(places, ports, ports[1:], strict=False)
    ]
    with running(commands) as pids:
        for port in ports[:3]:
            await_port(port)
        yield Hops(ports[0], pids)


@contextmanager
def haproxy_tls(directory: Path, identity: Path) -> Iterator[Hops]:
    """HAProxy on one core that ends TLS and HTTP/2 with an identity of ours.

    Args:
        identity: A state directory; its certificate and key are served, its root is asked of
            callers who show a certificate.
    """
    pem, path = directory / "identity.pem", directory / "haproxy-tls.cfg"
    current = identity / "identity" / "current"
    names = ("leaf.pem", "chain.pem", "key.pem")
    pem.write_bytes(b"".join((current / name).read_bytes() for name in names))
    port, root = free_port(), identity / "trust" / "root.pem"
    path.write_text(
        _HAPROXY + "  mode http\nfrontend tls\n"
        f"  bind 127.0.0.1:{port} ssl crt {pem} alpn h2 ssl-min-ver TLSv1.3"
        f" ca-file {root} verify optional\n  http-request return status 200\n",
        "utf-8",
    )
    with running([[tool("haproxy"), "-db", "-q", "-f", str(path)]]) as pids:
        await_port(port)
        yield Hops(port, pids)


def _certificate(directory: Path) -> Path:
    key, certificate, pem = (directory / name for name in ("h.key", "h.crt", "h.pem"))
    subprocess.run(
        [
            tool("openssl"),
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/CN=bench",
            "-days",
            "2",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
    )
    pem.write_bytes(certificate.read_bytes() + key.read_bytes())
    return pem
