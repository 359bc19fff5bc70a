"""The Connector's end of a gated session: its answer to the person, and its keys of the frames."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from attrs import evolve, frozen
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint

from svc.connector.admission import AdmittedSession
from svc.connector.target_cancel import TargetCancel
from svc.interfaces.kinds import ICancellingEndpoint, ServedKind, request_reader
from svc.messages.gated import encode_answer
from svc.model.session.edits import StreamEdits
from svc.model.session.frames import FrameChecker, FrameTagger
from svc.model.session.gated import GatedReceiver
from svc.model.session.halves import SessionAnswer, new_half
from svc.model.session.ranges import RequestChain
from svc.model.signing import Signed
from svc.rpc.gated import GatedEnds


@frozen
class GatedOpening:
    """How one gated session begins.

    Attributes:
        answer: To the person, who accepts no other Connector's.
        ends: What its transport is made of.
        chain: Of the decisions about its requests.
        cancel: Of what its target does; None where the kind has no such thing.
    """

    answer: Signed
    ends: GatedEnds
    chain: RequestChain
    cancel: TargetCancel | None


def gated_opening(
    admitted: AdmittedSession,
    *,
    kind: ServedKind,
    request: bytes,
    sign: Callable[[bytes], Signed],
    clock: IReactorTime,
    target: IStreamClientEndpoint,
) -> GatedOpening:
    """Make our half of the keys, sign it, and forget it.

    Args:
        admitted: The session.
        kind: Its kind.
        request: The person's, as it was signed.
        sign: With our node's key, as a session answer.
        clock: For heartbeats.
        target: What the target was dialed with.

    Raises:
        SvcError: our certificate is no good now, or the person's half is no key.
    """
    grant, half = admitted.grant, new_half()
    answer = sign(
        encode_answer(
            SessionAnswer(
                cluster=grant.cluster,
                session_uid=grant.session_uid,
                connector_id=grant.connector_id,
                request_sha256=sha256(request).digest(),
                half=half.public,
            )
        )
    )
    keys = half.agree(admitted.request.half, request, answer.payload)
    chain = RequestChain(grant.session_uid, request_reader(kind.dialer))
    receiver = GatedReceiver(FrameChecker(keys.requests), StreamEdits(kind.dialer.edits), chain)
    ends = GatedEnds(FrameTagger(keys.answers), receiver, clock)
    cancel = None
    if ICancellingEndpoint.providedBy(target):
        cancelling: Any = target
        cancel = TargetCancel(cancelling.cancel, clock, grant.session_uid)
        ends = evolve(ends, on_cancel=cancel.ask)
    return GatedOpening(answer=answer, ends=ends, chain=chain, cancel=cancel)
