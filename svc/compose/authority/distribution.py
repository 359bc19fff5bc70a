"""The distribution root at an Authority, while it leads and while it stands by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from attrs import evolve, frozen

from svc.authority.distribution.admin import RootAdmin
from svc.authority.distribution.ceremony import RootCeremony
from svc.authority.distribution.key_sets import KeySets
from svc.authority.distribution.own import OwnRoots
from svc.authority.distribution.owners import ReceiverRegistry, ReceiverReporting
from svc.authority.distribution.pause import RotationAdmin
from svc.authority.ha.leader_connection import LeaderRoute
from svc.authority.recordings.key import RecordingKeys
from svc.authority.state.writer import StateWriter
from svc.compose.authority.parts import Parts
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.messages.forward import (
    REGISTER_METHOD,
    WORD_METHOD,
    ReceiverReport,
    RootWord,
    read_report,
    read_word,
    report_message,
    word_message,
)
from svc.model.audit.record import Actor
from svc.model.distribution import key_set_digest
from svc.model.principal import Role
from svc.pki.distribution import DIRECTORY, RootFiles, require_root
from svc.pki.issue import der
from svc.pki.keyring import load_keys
from svc.pki.root import ClusterKeys
from svc.proto.gate.v1 import root_pb2 as pb
from svc.runtime.services import PeriodicTask
from svc.runtime.threads import in_pool

LOOK_SECS = 2.0
"""Between two looks whether our credential is registered; a look costs nothing while it is."""

TELL_SECS = 10.0

RECORDING = "recording"
"""The key that recordings are sealed to, in a key set's digest."""

MEANWHILE = tuple(f"/gate.v1.Admin/{name}" for name in ("RootStatus", "AckRoot", "CancelRoot"))
"""Commands that an Authority answers at its control socket while it stands by, too."""


@frozen
class RootRooms:
    """What needs no other Authority: whoever leads, and what is counted of keys."""

    registry: ReceiverRegistry
    ceremony: RootCeremony
    key_sets: KeySets
    rotation: RotationAdmin


@frozen
class DistributionWiring:
    """Who answers operators, and what registers our own credential.

    Attributes:
        meanwhile: Commands that are answered while we stand by, too.
        register: Enters it, as whoever begins to lead; raises SvcError where it was copied.
    """

    admin: RootAdmin
    reporting: PeriodicTask
    register: Callable[[], Awaitable[object]]
    meanwhile: Sequence[str] = MEANWHILE


def loaded_keys(own: ClusterKeys, issuing: ClusterKeys, recording: RecordingKeys) -> bytes:
    """Digest of the keys that a process signs with, and has recordings sealed to.

    Args:
        own: Has the keys that it signs with itself.
        issuing: Has its issuing CAs.
    """
    public = {word: der(one.certificate) for word, one in own.purposes.items()}
    public |= {kind: der(one.certificate) for kind, one in issuing.issuers.items()}
    return key_set_digest({**public, RECORDING: recording.current.public})


def root_rooms(p: Parts, writer: StateWriter, recording: Callable[[], RecordingKeys]) -> RootRooms:
    """Wire what is used while we lead."""
    runtime, cluster = p.runtime, p.settings.cluster
    root_pem = p.state / "keys" / "root.pem"

    def check(directory: Path) -> None:
        require_root(directory, root_pem.read_bytes())
        load_keys(directory, runtime.now, runtime.entropy, cluster=cluster)

    return RootRooms(
        registry=ReceiverRegistry(cluster, writer),
        ceremony=RootCeremony(cluster, writer, runtime.entropy),
        key_sets=KeySets(
            cluster=cluster,
            me=p.identity.principal.id,
            owner=p.receiver.owner,
            state=p.state.path,
            kept=RootFiles(p.state / DIRECTORY),
            writer=writer,
            loaded=lambda: loaded_keys(p.keys, p.issuer.keys, recording()),
            is_automatic=p.settings.keys.automatic_distribution,
            check=check,
            in_thread=in_pool(runtime.reactor),
        ),
        rotation=RotationAdmin(writer),
    )


def distribution_wiring(
    p: Parts, roots: RootRooms, route: LeaderRoute, stopped_by: Callable[[SvcError], object]
) -> DistributionWiring:
    """Wire what an operator asks here, and what goes to the leader from here."""
    me, cache = p.identity.principal.id, roots.ceremony.writer.cache

    async def register(report: ReceiverReport) -> None:
        if p.serving.is_on:
            await roots.registry.take(report, me)
            return
        channel = await route.channel()
        await channel.unary(
            REGISTER_METHOD, report_message(report), pb.ReceiverReceipt, timeout=TELL_SECS
        )

    async def tell(word: RootWord, actor: Actor) -> None:
        if p.serving.is_on:
            await roots.ceremony.take(word, actor)
            return
        channel = await route.channel()
        await channel.unary(WORD_METHOD, word_message(word), pb.RootWordReceipt, timeout=TELL_SECS)

    loaded = roots.key_sets.loaded
    own = OwnRoots(
        cluster=p.settings.cluster,
        credential=p.receiver,
        kept=roots.key_sets.kept,
        state_cache=cache,
        loaded=loaded,
        in_thread=in_pool(p.runtime.reactor),
        deliver=tell,
    )
    reporting = ReceiverReporting(
        cluster=p.settings.cluster,
        credential=p.receiver,
        node_id=me,
        state_cache=cache,
        loaded=loaded,
        deliver=register,
        stopped_by=stopped_by,
    )
    return DistributionWiring(
        admin=RootAdmin(
            ceremony=roots.ceremony,
            own=own,
            rotation=roots.rotation,
            is_automatic=p.settings.keys.automatic_distribution,
        ),
        reporting=PeriodicTask(
            clock=p.runtime.reactor,
            interval=LOOK_SECS,
            call=reporting.look,
            what="register the receiver credential",
        ),
        register=lambda: reporting.enter(roots.registry),
    )


def with_roots(membership: RpcService, p: Parts, roots: RootRooms) -> RpcService:
    """``gate.v1.Membership`` as the private listener serves it: with what other owners say."""

    def caller(call: IRpcCall) -> str:
        return p.identity.verifier.verify(call.peer.chain, {Role.AUTHORITY}).principal.id

    async def register(request: pb.ReceiverReport, call: IRpcCall) -> pb.ReceiverReceipt:
        await roots.registry.take(read_report(request), caller(call))
        return pb.ReceiverReceipt()

    async def take(request: pb.RootWord, call: IRpcCall) -> pb.RootWordReceipt:
        await roots.ceremony.take_from(read_word(request), caller(call))
        return pb.RootWordReceipt()

    methods = {
        "RegisterReceiver": unary(pb.ReceiverReport, register),
        "TakeRootWord": unary(pb.RootWord, take),
    }
    return evolve(membership, methods={**membership.methods, **methods})
