"""Checks of the policy and the catalog at an Authority, and of the targets at a Connector."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from svc.authority.policy.bundle_room import bundle_size
from svc.errors import SvcError
from svc.messages.snapshot import MAX_BUNDLE_BYTES
from svc.model.cluster.node import NodeState
from svc.model.cluster.target import Target
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import CheckContext, NotChecked
from svc.ops.doctor.room import sized
from svc.ops.doctor.service import private_file
from svc.ops.doctor.trust import state_in_force, verified_state
from svc.policy.child import job
from svc.policy.guard import guard_command
from svc.policy.prescan import PolicyLimits
from svc.policy.vocabulary import Vocabulary

_AUTHORITY, _CONNECTOR = ("authority",), ("connector",)
TRIAL_SECS = 20.0
_NAMED = 5
_MUCH = 0.75
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')
_PERMIT = re.compile(r"\bpermit\b")
_SUPERUSERS = frozenset({"postgres", "rdsadmin", "cloudsqlsuperuser", "root", "admin"})
"""Names that superusers of PostgreSQL have by convention."""


def _active(context: CheckContext) -> Iterator[Finding]:
    try:
        verified = verified_state(context)
    except SvcError:
        raise NotChecked("the stored rows cannot be verified; see audit.unsigned_rows") from None
    policy, stored = verified.state.policy, verified.stored_policy
    version = 0 if policy is None else policy.version
    if stored != version:
        yield fail(
            f"the store calls version {stored or 'none'} of the policy active, and by the signed "
            f"records it is {version or 'none'}",
            "find out who changed the store; docs/how-to/unsigned-rows.md says how to put it right",
        )
    if policy is None:
        yield fail(
            "no policy is in force: nobody can do anything",
            "set one on the Authority's host: svc authority policy set FILE",
        )
        return
    why = why_refused(policy.text, context.vocabulary(context.settings))
    if why:
        yield fail(
            f"version {policy.version} of the policy cannot be put in force by this build: {why}",
            "set a policy that it takes: svc authority policy check FILE tells beforehand",
        )
    if not permits(policy.text):
        yield warn(
            f"version {policy.version} of the policy permits nothing: nobody can do anything",
            "set one that permits something: svc authority policy set FILE",
        )
    yield ok(f"version {policy.version} is in force, is signed, and this build takes it")


def permits(text: str) -> bool:
    """Whether the word stands outside of strings and comments."""
    return _PERMIT.search(_QUOTED.sub("", text)) is not None


def why_refused(text: str, words: Vocabulary) -> str:
    """Why a child process does not take the text; empty if it does.  No other process parses it."""
    try:
        child = subprocess.run(
            guard_command(),
            input=job(text, words, PolicyLimits()),
            capture_output=True,
            env={},
            cwd="/",
            timeout=TRIAL_SECS,
            check=False,
        )
        answer = json.loads(child.stdout) if child.returncode == 0 else None
    except subprocess.TimeoutExpired:
        return f"trying it took longer than {TRIAL_SECS:g} seconds"
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, Mapping):
        return "it crashed the process that tries policies"
    return str(answer.get("text", "")) if "reason" in answer else ""


def _bundle(context: CheckContext) -> Iterator[Finding]:
    """How much of what Proxies take is used."""
    size = bundle_size(state_in_force(context))
    text = (
        f"people, groups, resources and policy take {sized(size)} of the {sized(MAX_BUNDLE_BYTES)} "
        "that a Proxy is sent"
    )
    hint = (
        "remove what is not needed: svc authority persons list, groups list, resources list; "
        "labels count, too"
    )
    if size > MAX_BUNDLE_BYTES:
        yield fail(f"{text}: what makes it more is refused (bundle_full)", hint)
    elif size > _MUCH * MAX_BUNDLE_BYTES:
        yield warn(text, hint)
    else:
        yield ok(text)


def _catalog(context: CheckContext) -> Iterator[Finding]:
    state = state_in_force(context)
    active = {one.id for one in state.nodes.values() if one.state is NodeState.ACTIVE}
    catalog = sorted(state.catalog.values(), key=lambda one: one.id)
    # A discovered one has departed, and is brought back by who finds it.
    free = [one.id for one in catalog if one.assigned_to is None and not one.is_discovered]
    gone = [
        one.id for one in catalog if one.assigned_to is not None and one.assigned_to not in active
    ]
    hint = "assign them: svc authority resources assign ID --node NAME"
    if free:
        yield warn(f"no Connector is assigned to {_shown(free)}", hint)
    if gone:
        yield warn(f"the Connector of {_shown(gone)} is revoked or gone", hint)
    kinds = set(context.settings.plugins.kinds)
    foreign = [one.id for one in catalog if one.kind not in kinds]
    if foreign:
        yield warn(
            f"the kind of {_shown(foreign)} is not enabled here",
            "name it in plugins.kinds of each Authority and Proxy",
        )
    undeclared = context.store.look("doctor catalog", lambda tx: tx.catalog.undeclared())
    # What was declared since is remembered as offered until its Connector registers again.
    assigned = {one.id: one.assigned_to for one in catalog}
    offered = sorted({one.id for one in undeclared if assigned.get(one.id) != one.node_id})
    if offered:
        yield info(
            f"Connectors offer {_shown(offered)}, which they may not serve (not_in_catalog)",
            "add or assign them: svc authority resources add, or svc authority resources assign",
        )
    yield ok(f"resources in the catalog: {len(catalog)}, each assigned to a Connector")


def _shown(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return f"{', '.join(ids[:_NAMED])}{more}"


def _targets(context: CheckContext) -> Iterator[Finding]:
    targets = context.targets(context.settings)
    for target in targets.values():
        for key, path, is_mounted in _secrets(target):
            where = f"{target.id}: {key}"
            finding = private_file(Path(path), where, context.uid, is_mounted=is_mounted)
            if finding is not None:
                yield finding
    if not targets:
        yield info("connector.resources is empty: this Connector serves nothing")
    else:
        yield info(
            f"targets that are declared: {len(targets)}; their credentials can be read; not "
            "checked: whether they answer, because no check connects to a target"
        )


def _secrets(target: Target) -> Iterator[tuple[str, str, bool]]:
    """Files with credentials: the key, the path, and whether an orchestrator mounts it."""
    passwords = target.options.get("password_files")
    if isinstance(passwords, Mapping):
        for role, path in passwords.items():
            if isinstance(path, str) and path:
                yield f"password_files.{role}", path, False
    token = target.options.get("token_file")
    if isinstance(token, str) and token:
        yield "token_file", token, bool(target.options.get("token_is_mounted"))


def _privileges(context: CheckContext) -> Iterator[Finding]:
    """What a target lets the Connector do beyond what a session needs (R33)."""
    count = 0
    for target in context.targets(context.settings).values():
        passwords = target.options.get("password_files")
        roles = sorted(passwords) if isinstance(passwords, Mapping) else []
        strong = [role for role in roles if role.lower() in _SUPERUSERS]
        if strong:
            yield warn(
                f"{target.id}: the Connector has the password of {', '.join(strong)}, by its name "
                "a superuser",
                "give it roles with only the rights that people need",
            )
        elif target.kind == "postgres":
            yield info(
                f"{target.id}: whether its roles are superusers cannot be known without logging in",
                "to see them, at the database server: SELECT rolname FROM pg_roles WHERE rolsuper",
            )
        elif target.kind == "kube":
            yield info(
                f"{target.id}: whether its credential may impersonate anybody cannot be known "
                "without asking the cluster",
                "in Kubernetes, limit impersonation by resourceNames, as docs/how-to/kubernetes.md "
                "shows",
            )
        else:
            count += 1
    yield ok(f"targets that take no credential of the Connector: {count}")


CHECKS = (
    Check("policy.active", _AUTHORITY, _active, needs_state=True),
    Check("policy.bundle", _AUTHORITY, _bundle, needs_state=True),
    Check("policy.catalog", _AUTHORITY, _catalog, needs_state=True),
    Check("policy.targets", _CONNECTOR, _targets),
    Check("policy.privileges", _CONNECTOR, _privileges),
)
