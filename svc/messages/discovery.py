"""``gate.v1.Discovery``: what a source of a Connector finds, and what the Authority made of it."""

from __future__ import annotations

from hashlib import sha256

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.forms import (
    DIGEST,
    PAIRS,
    PLAIN,
    WORD,
    FieldForm,
    MessageForm,
    octets,
    parts,
)
from svc.model.canonical import encode
from svc.model.cluster.labels import check_found_labels
from svc.model.cluster.onward import read_onward_auth
from svc.model.cluster.scope import MAX_PUBLISHED, PublishedResource
from svc.model.ids import is_resource_id
from svc.proto.gate.v1 import discovery_pb2 as pb

PUBLISH_METHOD = "/gate.v1.Discovery/Publish"

MAX_REFUSED = MAX_PUBLISHED


@frozen
class PublishAsk:
    """What one source of a Connector finds.

    Attributes:
        unchanged: The digest of the last answer, if nothing changed since; then without resources.
    """

    source: str
    resources: tuple[PublishedResource, ...] = ()
    unchanged: bytes = b""


@frozen
class Refused:
    """A published resource that is not served, and why, as a word."""

    id: str
    reason: str


@frozen
class PublishAnswer:
    """What the Authority made of a publication.

    Attributes:
        again: It does not know what it is told is unchanged.
    """

    lease_secs: int
    refused: tuple[Refused, ...] = ()
    digest: bytes = field(default=b"")
    again: bool = False


def publication_digest(resources: tuple[PublishedResource, ...]) -> bytes:
    """Of what was published, whatever its order."""
    rows = sorted(
        [
            one.id,
            one.kind,
            [list(pair) for pair in sorted(one.labels.items())],
            "" if one.onward_auth is None else one.onward_auth.value,
        ]
        for one in resources
    )
    return sha256(encode(rows)).digest()


_RESOURCE = MessageForm(
    pb.PublishedResource,
    PublishedResource,
    "published resource",
    id=FieldForm(fits=is_resource_id, refusal=lambda came: "not a DNS label"),
    kind=WORD,
    labels=PAIRS,
    onward_auth=FieldForm(
        write=lambda mode: mode.value, read=lambda word: read_onward_auth(word) if word else None
    ),
)
_ASK = MessageForm(
    pb.PublishRequest,
    PublishAsk,
    "publication",
    source=FieldForm(fits=is_resource_id, refusal=lambda came: "not a DNS label"),
    resources=parts(_RESOURCE, MAX_PUBLISHED),
    unchanged=octets(32, empty=True),
)
publish_request = _ASK.message


def read_publish_request(message: pb.PublishRequest) -> PublishAsk:
    """What came, bounded; what is true of it nobody but the Connector knows.

    Raises:
        Malformed: a field is not of its form, or a resource is in it twice.
    """
    ask = _ASK.read(message)
    ids = {one.id for one in ask.resources}
    if len(ids) != len(ask.resources):
        raise Malformed("publication: a resource is in it twice")
    for one in ask.resources:
        check_found_labels(one.labels)
    return ask


_REFUSED = MessageForm(pb.RefusedResource, Refused, "refused resource", id=WORD, reason=WORD)
_ANSWER = MessageForm(
    pb.PublishResponse,
    PublishAnswer,
    "publish response",
    lease_secs=PLAIN,
    refused=parts(_REFUSED, MAX_REFUSED),
    digest=DIGEST,
    again=PLAIN,
)
publish_response, read_publish_response = _ANSWER.message, _ANSWER.read
