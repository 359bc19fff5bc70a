"""Checkpoints on their way to Authority: one Connector's do not keep others from being heard."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from svc.messages.gated import CHECKPOINT_METHOD, checkpoint_message, encode_checkpoint
from svc.model.principal import Role
from svc.model.session.checkpoint import SessionCheckpoint
from svc.model.session.ranges import first_head
from svc.model.signing import Purpose
from svc.proxy.tunnels.queue import MAX_CHECKPOINTS, CheckpointQueue
from tests.proxy.pieces import Node, ProxyTests, Talk


class CheckpointTests(ProxyTests):
    """Connectors that bring checkpoints while Authority does not answer."""

    def setUp(self) -> None:
        super().setUp()
        self.waiting: Deferred[None] = Deferred()
        self.authority.checkpoints_wait = self.waiting

    def checkpoint(self, node: Node) -> Talk:
        """One of no session in particular."""
        identity = node.identity
        uid = self.site.uid()
        one = SessionCheckpoint(
            cluster=self.site.cluster.world.verifier.cluster,
            session_uid=uid,
            connector_id=identity.facts.principal.id,
            n=1,
            decisions=0,
            head=first_head(uid),
        )
        signed = identity.sign(Purpose.SESSION_CHECKPOINT, encode_checkpoint(one))
        talk = Talk(node.wire.channel.stream(CHECKPOINT_METHOD))
        talk.say(checkpoint_message(signed).SerializeToString())
        talk.stream.end()
        return talk

    def test_a_flood(self) -> None:
        """Of one Connector a few are before Authority at once; others are heard beside them."""
        flooding = Node(self.site)
        other = Node(self.site, self.site.cluster.world.identity(Role.CONNECTOR, id="d" * 26))
        talks = [self.checkpoint(flooding) for _ in range(200)]
        self.site.turn()
        self.assertEqual(len(self.authority.checkpoints), MAX_CHECKPOINTS)
        self.checkpoint(other)
        self.site.turn()
        self.assertEqual(len(self.authority.checkpoints), MAX_CHECKPOINTS + 1)
        talks.pop().stream.cancel()
        self.authority.checkpoints_wait = None
        self.waiting.callback(None)
        for _ in range(20):
            self.site.turn()
        self.assertEqual({(one.is_over, one.reason) for one in talks}, {(True, "")})
        self.assertEqual(len(self.authority.checkpoints), 200)

    def test_nothing_is_kept(self) -> None:
        """A Connector whose checkpoints were all answered, or given up, is forgotten."""
        queue, answer = CheckpointQueue(), Deferred[None]()

        async def ask() -> None:
            await answer

        def bring() -> Deferred[None]:
            return Deferred.fromCoroutine(queue.bring("n", ask))

        bringing = [bring() for _ in range(MAX_CHECKPOINTS + 2)]
        for one in (bringing[-1], bringing[0]):
            one.addErrback(lambda _: None)
            one.cancel()
        answer.addErrback(lambda _: None)
        for one in bringing:
            one.addErrback(lambda _: None)
        self.assertEqual(queue._turns, {})
