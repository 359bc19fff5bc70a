"""What an Authority tells the targets of sessions: who makes requests, and by which keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from attrs import frozen

from svc.authority.enroll.token_keys import TokenKeys
from svc.authority.limits import AskRates
from svc.authority.policy.active import PolicyInForce
from svc.authority.refusals import RefusalRecords
from svc.authority.sessions.identity import SessionIdentities
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.parts import Parts, engine_of
from svc.runtime import durable
from svc.runtime.threads import InThread, in_pool

KEY_SET = "jwks.json"
"""In the state directory: the keys that targets check tokens by."""


@frozen
class IdentityWiring:
    """The tokens that targets are given, and the keys that they are signed with."""

    token_keys: TokenKeys
    service: SessionIdentities


def session_identities(
    p: Parts,
    state_cache: ClusterStateCache,
    policy: PolicyInForce,
    refusals: RefusalRecords,
    rates: AskRates,
) -> IdentityWiring:
    """Wire both."""
    now = p.runtime.now
    token_keys = TokenKeys(
        keys=p.keys,
        now=now,
        write=_key_set_file(p.state / KEY_SET, in_pool(p.runtime.reactor)),
    )
    identities = SessionIdentities(
        cluster=p.settings.cluster,
        state_cache=state_cache,
        engine=engine_of(policy),
        kinds=p.kinds.by_name,
        verifier=p.identity.verifier,
        store=p.store,
        recorder=p.recorder,
        refusals=refusals,
        sign=token_keys.sign,
        asks=rates.identities,
        now=now,
        entropy=p.runtime.entropy,
    )
    return IdentityWiring(token_keys, identities)


def _key_set_file(path: Path, in_thread: InThread) -> Callable[[bytes], Awaitable[object]]:
    """Writes the keys that targets check tokens by, whole, where an operator copies them."""

    async def write(document: bytes) -> None:
        await in_thread(lambda: durable.replace(path, document))

    return write
