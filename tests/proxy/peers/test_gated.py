"""Relayed sessions whose requests are decided: how long they last, and who brings checkpoints."""

from __future__ import annotations

from typing import Any

from svc.messages.gated import (
    CHECKPOINT_METHOD,
    CheckpointAnswer,
    checkpoint_message,
    encode_checkpoint,
    encode_extension,
)
from svc.messages.session import decode_grant
from svc.messages.tunnel import OpenNotice
from svc.model.session.checkpoint import GATED_MS, GrantExtension, SessionCheckpoint
from svc.model.session.ranges import first_head
from svc.model.signing import Purpose, Signed
from tests.proxy.peers.pieces import PeersTests
from tests.proxy.pieces import Node, Talk


class GatedTests(PeersTests):
    """A session with a grant of two minutes, which only Authority's extensions prolong."""

    def setUp(self) -> None:
        super().setUp()
        cluster = self.near.cluster
        grants: Any = cluster.grant

        def gated(requested: bytes, **changed: Any) -> Any:
            end = int(cluster.world.now() * 1000) + GATED_MS
            return grants(requested, is_gated=True, end_before_ms=end, **changed)

        self.patch(cluster, "grant", gated)

    def checkpoint(self, node: Node) -> Talk:
        """The Connector's, over its tunnel."""
        grant = decode_grant(node.last(OpenNotice).grant.payload)
        one = SessionCheckpoint(
            cluster=grant.cluster,
            session_uid=grant.session_uid,
            connector_id=grant.connector_id,
            n=1,
            decisions=0,
            head=first_head(grant.session_uid),
        )
        signed = node.identity.sign(Purpose.SESSION_CHECKPOINT, encode_checkpoint(one))
        end = int(self.near.cluster.world.now() * 1000) + GATED_MS
        extension = GrantExtension(
            cluster=grant.cluster,
            session_uid=grant.session_uid,
            n=1,
            end_before_ms=end,
            policy_version=3,
        )
        self.far.authority.checkpoint_answer = CheckpointAnswer(
            extension=Signed(encode_extension(extension), b"signature", (b"chain",))
        )
        talk = Talk(node.wire.channel.stream(CHECKPOINT_METHOD))
        talk.say(checkpoint_message(signed).SerializeToString())
        talk.stream.end()
        self.turn()
        return talk

    def test_not_prolonged(self) -> None:
        """Without an extension it ends where its tunnel is, and so on both."""
        node, client, carry = self.carried()
        self.pass_time(GATED_MS / 1000 - 1, node)
        self.assertEqual(self.active, (1, 1))
        self.pass_time(2, node)
        word = "grant_not_prolonged"
        self.assertEqual((client.reason, carry.reason), (word, word))
        self.assertEqual([one.reason for one in self.near.authority.ended], [word])

    def test_prolonged(self) -> None:
        """The Proxy with the tunnel brings checkpoints with all that the Authority asks for."""
        node, client, _ = self.carried()
        self.pass_time(60, node)
        talk = self.checkpoint(node)
        self.assertEqual((talk.error, len(talk.heard)), (None, 1))
        [ask] = self.far.authority.checkpoints
        [first] = self.near.authority.asked
        self.assertEqual(ask.grant, node.last(OpenNotice).grant)
        self.assertEqual((ask.request, ask.person_chain), (first.request, first.person_chain))
        self.assertEqual(ask.source_address, first.proxy_decision.source_address)
        self.assertEqual(self.near.authority.checkpoints, [])
        self.pass_time(GATED_MS / 1000 - 1, node)
        self.assertEqual((self.active, client.is_over), ((1, 1), False))
        self.pass_time(2, node)
        self.assertEqual(client.reason, "grant_not_prolonged")
