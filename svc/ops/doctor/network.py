"""Checks of addresses: who can reach what listens here, and whether what is dialed answers."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from svc.config import Address
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.model.host import is_public
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import NODES, CheckContext, NotChecked
from svc.ops.doctor.probes import answering, bind_refusal, is_running
from svc.ops.doctor.sockets import tcp_sockets

_OF_ROLE = {
    "authority": (
        "control_listen",
        "join_listen",
        "renewal_listen",
        "admin_listen",
        "private_listen",
    ),
    "proxy": ("public_listen", "peer_listen"),
    "connector": (),
}


def _telemetry_bind(context: CheckContext) -> Iterator[Finding]:
    address = context.settings.telemetry.metrics_listen
    if address is None:
        yield info("telemetry.metrics_listen is empty: nothing tells of health and readiness")
    elif is_public("127.0.0.1" if address.host == "localhost" else address.host):
        yield warn(
            f"telemetry.metrics_listen {address} is a public address, where anyone can read every "
            "series without a credential",
            "bind it to loopback or a private address",
        )
    else:
        yield ok(f"telemetry.metrics_listen {address} is not public")


def _trace_collector(context: CheckContext) -> Iterator[Finding]:
    url = context.settings.telemetry.otel_endpoint
    if url is None:
        yield ok("telemetry.otel_endpoint is absent: no trace leaves the process")
        return
    host = urlsplit(url).hostname or ""
    addresses = context.resolve(host)
    public = [one for one in addresses if is_public(one)]
    if not addresses:
        yield warn(
            f"telemetry.otel_endpoint: {host} does not resolve to an address",
            "correct the name, or remove the key",
        )
    elif public:
        yield warn(
            f"telemetry.otel_endpoint: {host} is public ({', '.join(public)}), and traces go "
            "there as plain HTTP",
            "run a collector on loopback or in a private network, and let it pass traces on",
        )
    else:
        yield ok(f"telemetry.otel_endpoint: {host} is not public")


def _listen(context: CheckContext) -> Iterator[Finding]:
    addresses = dict(_listeners(context))
    if not addresses:
        yield ok("nothing to check: this role has no listener of its own")
        return
    fixed = {key: address for key, address in addresses.items() if address.port}
    chosen = [f"{key} {address}" for key, address in addresses.items() if not address.port]
    untold = f"not checked, because each start chooses another port: {', '.join(chosen)}"
    if not fixed:
        yield info(untold)
        return
    running = is_running(context.base_state)
    if running is None:
        raise NotChecked("this system does not tell whether the role runs")
    for finding in (_held if running else _free)(fixed):
        is_last = chosen and not finding.severity
        yield ok(f"{finding.message}; {untold}") if is_last else finding


def _held(addresses: Mapping[str, Address]) -> Iterator[Finding]:
    """Of a role that runs: what is listened on."""
    sockets = tcp_sockets({each.port for each in addresses.values()})
    if sockets is None:
        raise NotChecked("the role runs, and this system does not tell what it listens on")
    for key, address in addresses.items():
        if not sockets.has_listener(address):
            yield info(
                f"{key} {address}: the role runs, and nothing listens there",
                "if the configuration or its environment was changed, restart the role",
            )
    held = ", ".join(str(each) for each in addresses.values() if sockets.has_listener(each))
    yield ok(f"the role runs; there is a listener on {held}")


def _free(addresses: Mapping[str, Address]) -> Iterator[Finding]:
    """Of a role that does not run: whether it could listen."""
    for key, address in addresses.items():
        refused = bind_refusal(address)
        if refused is not None:
            yield _not_free(f"{key} {address}", refused)
    yield ok(f"the role does not run; free: {', '.join(map(str, addresses.values()))}")


def _not_free(what: str, refused: OSError) -> Finding:
    match refused.errno:
        case errno.EADDRINUSE:
            return fail(
                f"{what}: in use by another process, and the role does not run",
                "stop what has the address, or choose another one",
            )
        case errno.EADDRNOTAVAIL:
            return fail(
                f"{what}: is no address of this machine",
                f"correct {what.partition(' ')[0]}, or give this machine the address",
            )
        case errno.EACCES:
            return info(
                f"{what}: not checked, because whoever runs this may not listen there",
                "run this as root; the unit that svc service install writes lets the role listen "
                "below port 1024",
            )
    why = (refused.strerror or type(refused).__name__).lower()
    return fail(f"{what}: cannot be listened on: {why}", f"correct {what.partition(' ')[0]}")


def _listeners(context: CheckContext) -> Iterator[tuple[str, Address]]:
    settings = context.settings
    named = [
        (f"endpoints.{key}", getattr(settings.endpoints, key)) for key in _OF_ROLE[context.role]
    ]
    if context.role == "authority":
        named.append(("page.listen", settings.page.listen))
        named.append(("accounts.passkeys.listen", settings.accounts.passkeys.listen))
    # Of `svc all` it is one listener for the three roles.
    if settings.role != "all" or context.role == "authority":
        named.append(("telemetry.metrics_listen", settings.telemetry.metrics_listen))
    yield from ((key, address) for key, address in named if address is not None)


def _authority(context: CheckContext) -> Iterator[Finding]:
    if not context.authorities:
        yield fail(
            "endpoints.authority is empty: this Proxy knows no Authority",
            "list the control address of each Authority in endpoints.authority",
        )
        return
    yield from _reached(context, context.authorities, "Authority", "endpoints.authority")


def _peers(context: CheckContext) -> Iterator[Finding]:
    """Whether other Proxies can reach what they are told to dial."""
    ends = context.settings.endpoints
    if ends.peer_listen is None:
        yield ok("endpoints.peer_listen is empty: no session is relayed between Proxies")
        return
    key, address = "endpoints.peer_listen", ends.peer_listen
    if ends.peer_address is not None:
        key, address = "endpoints.peer_address", ends.peer_address
    if address.is_loopback:
        yield warn(
            f"{key} {address}: only Proxies on this machine can reach it",
            "give an address that the other Proxies can dial, or leave endpoints.peer_listen empty",
        )
    elif any(is_public(one) for one in context.resolve(address.host)):
        yield warn(
            f"{key} {address} is a public address; the listener is for Proxies only",
            "bind it to a private network of the Proxies",
        )
    if not address.port:
        yield info(f"{key} {address}: not dialed, because each start chooses another port")
    elif is_running(context.base_state):
        yield from _reached(context, (address,), "peer listener", key)
    else:
        yield info(f"{key} {address}: not dialed, because the role does not run")


def _proxies(context: CheckContext) -> Iterator[Finding]:
    addresses = context.settings.endpoints.proxy
    if not addresses:
        yield fail("endpoints.proxy is empty: no Proxy is known", "list the Proxies to dial")
        return
    yield from _reached(context, addresses, "Proxy", "endpoints.proxy")


def _reached(
    context: CheckContext, addresses: Iterable[Address], what: str, key: str
) -> Iterator[Finding]:
    """A role tries again and again, so an address that does not answer is only a warning."""
    answers = answering(addresses, dial=not context.is_within)
    for answer in answers:
        if answer.problem:
            yield warn(
                f"{what} {answer.address}: {answer.problem}",
                f"start it, open the way to it, or correct {key}",
            )
        elif not answer.is_reached:
            yield info(
                f"{what} {answer.address}: no connection is open, and a role that runs checks "
                "none by dialing",
                "svc doctor, run by hand, dials it",
            )
    reached = ", ".join(str(one.address) for one in answers if one.is_reached)
    yield ok(f"{what} {reached}: a TCP connection can be made")


CHECKS = (
    Check("network.telemetry_bind", NODES, _telemetry_bind),
    Check("network.trace_collector", NODES, _trace_collector),
    Check("network.listen", NODES, _listen),
    Check("network.authority", ("proxy",), _authority),
    Check("network.peers", ("proxy",), _peers),
    Check("network.proxies", ("connector", "client"), _proxies),
)
