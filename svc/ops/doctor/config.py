"""Checks of the configuration: what it says, and what of it the documents warn about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from zope.interface import Interface

from svc import __version__
from svc.errors import PluginError, SvcError
from svc.interfaces.checks import IRoleCheck
from svc.interfaces.discovery import IDiscoverySource
from svc.interfaces.kinds import IResourceKind
from svc.interfaces.store import IStoreFactory
from svc.model.clocks import utc
from svc.model.cluster.onward import NEEDS_ONWARD_AUTH
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import NODES, ROLES, CheckContext
from svc.pki import license
from svc.pki.license import LicenseRefused, license_expires
from svc.plugin import installed, load

_LISTENERS = {
    "authority": ("control", "join", "renewal", "admin", "private"),
    "proxy": ("public",),
    "connector": (),
    "client": (),
}
_DIALED = {
    "authority": (),
    "proxy": ("authority", "authority_failover"),
    "connector": ("proxy",),
    "client": ("proxy",),
}


def _file(context: CheckContext) -> Iterator[Finding]:
    """The reading has refused whatever is malformed, so this tells what was read."""
    settings = context.settings
    text = f"svc {__version__}, role {settings.role}, file {settings.path}"
    yield ok(f"{text}, cluster {settings.cluster}" if settings.cluster else text)


def _endpoints(context: CheckContext) -> Iterator[Finding]:
    ends = context.settings.endpoints
    told = []
    for name in _LISTENERS[context.role]:
        address = getattr(ends, f"{name}_listen")
        told.append(f"{name}_listen {address or 'none'}")
    for name in _DIALED[context.role]:
        addresses = getattr(ends, name)
        told.append(f"{name} {', '.join(map(str, addresses)) or 'none'}")
    if context.role in NODES:
        told.append(f"metrics_listen {context.settings.telemetry.metrics_listen or 'none'}")
    yield ok(", ".join(told))


def _plugins(context: CheckContext) -> Iterator[Finding]:
    plugins = context.settings.plugins
    named: list[tuple[str, Sequence[str], type[Interface]]] = [
        ("kind", plugins.kinds, IResourceKind),
        ("check", plugins.checks, IRoleCheck),
    ]
    if context.role == "authority":
        named.append(("store", plugins.stores, IStoreFactory))
    if context.role == "connector":
        named.append(("source", plugins.sources, IDiscoverySource))
    count = 0
    for prefix, words, interface in named:
        known = installed(prefix)
        for word in words:
            count += 1
            try:
                load(interface, prefix, [word])
            except PluginError as refused:
                there = ", ".join(known) or "none"
                yield fail(
                    refused.text,
                    f"install it, or remove it from plugins.{prefix}s; installed: {there}",
                )
    yield ok(f"drop-ins that are named, and can be loaded: {count}")


def _scopes(context: CheckContext) -> Iterator[Finding]:
    """The reading has refused a scope that holds ssh and no way to sign on (G-CFG-14)."""
    scopes = context.settings.discovery.auto_scopes
    for one in scopes:
        missing = sorted(set(one.kinds).difference(context.settings.plugins.kinds))
        if missing:
            yield warn(
                f"discovery.auto_scopes: scope {one.name}: kinds has {', '.join(missing)}, which "
                "plugins.kinds does not enable: nothing of it is admitted",
                "add it to plugins.kinds, or remove it from the scope",
            )
        if len(one.onward_auth) > 1 and NEEDS_ONWARD_AUTH.intersection(one.kinds):
            yield info(
                f"discovery.auto_scopes: scope {one.name}: allows several onward_auth: a resource "
                "whose source names none waits until one is chosen (mode_required)"
            )
    yield ok(f"scopes of the configuration: {', '.join(one.name for one in scopes) or 'none'}")


def _sources(context: CheckContext) -> Iterator[Finding]:
    settings = context.settings
    tables = settings.connector.discovery_sources
    for one in tables:
        if one.source not in settings.plugins.sources:
            yield fail(
                f"{one.key_path}: source {one.source} is not enabled",
                f"add {one.source} to plugins.sources",
            )
            continue
        try:
            [loaded] = load(IDiscoverySource, "source", [one.source])
            loaded.provider.open(one.table, one.key_path, None)  # type: ignore[attr-defined]
        except SvcError as refused:
            yield fail(refused.text, "correct the table; the Connector does not start with it")
    yield ok(f"discovery sources: {', '.join(one.name for one in tables) or 'none'}")


def _audit_requests(context: CheckContext) -> Iterator[Finding]:
    if context.settings.audit.requests == "buffered":
        kinds = ", ".join(context.settings.plugins.kinds) or "none"
        yield info(
            f"audit.requests = buffered: a crash may lose the records of the last second of "
            f"requests, of every kind that is gated (enabled: {kinds})",
            'set audit.requests = "durable" to have each record on the disk before its request '
            "passes",
        )
    else:
        yield ok("audit.requests = durable: a request passes once its record is on the disk")


def _noteworthy(context: CheckContext) -> Iterator[Finding]:
    """Settings that are allowed, and that somebody should know of."""
    settings = context.settings
    if context.role == "authority":
        yield from _of_authority(context)
    if context.role == "proxy" and settings.proxy.public_plaintext:
        yield info("proxy.public_plaintext: the public listener serves only health and joining")
    if context.role == "proxy" and settings.proxy.tls_min_version == "1.2":
        yield info(
            "proxy.tls_min_version = 1.2: the public listener accepts an older TLS",
            "set it to 1.3 once no client or load balancer needs 1.2",
        )
    if context.role == "client" and settings.client.unprotected_loopback:
        yield warn(
            "client.unprotected_loopback: other users of this machine can use your local ports",
            "remove it, unless this machine has no other user",
        )
    yield ok("no setting calls for attention")


def _of_authority(context: CheckContext) -> Iterator[Finding]:
    settings = context.settings
    if settings.store_auto_migrate:
        yield info(
            "store_auto_migrate is true: the next start applies pending migrations by itself",
            "set it to false before an upgrade, and migrate with: svc authority store migrate",
        )
    if settings.policy.break_glass:
        yield info(
            f"policy.break_glass names {len(settings.policy.break_glass)} who may set the policy "
            "whatever it says"
        )
    if "device" in settings.oidc.flows:
        yield info(
            "oidc.flows has device: whoever phishes for a code may sign in as somebody else",
            "remove it where people have a browser on their machine",
        )


def _license(context: CheckContext) -> Iterator[Finding]:
    path = context.settings.license_path
    if path is None:
        yield ok("no license_path: nothing needs a license")
        return
    try:
        expires = license_expires(Path(path), license.PUBLIC_KEY)
    except LicenseRefused as refused:
        yield warn(
            f"license_path: {refused.text}; everything works without it",
            "ask whoever made this build for a license, or remove license_path",
        )
        return
    if expires <= context.at:
        yield warn(
            f"license_path: the license expired at {utc(expires)}; everything goes on working",
            "renew it, and restart the Authority",
        )
    else:
        yield ok(f"the license expires at {utc(expires)}")


CHECKS = (
    Check("config.file", ROLES, _file),
    Check("config.endpoints", ROLES, _endpoints),
    Check("config.plugins", ROLES, _plugins),
    Check("config.scopes", ("authority",), _scopes),
    Check("config.sources", ("connector",), _sources),
    Check("config.audit_requests", ("proxy",), _audit_requests),
    Check("config.license", ("authority",), _license),
    Check("config.settings", ROLES, _noteworthy),
)
