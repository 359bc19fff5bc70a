"""What nodes report of their own health, on its way to Authority."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from svc.errors import Malformed
from svc.messages.forms import (
    NAME,
    PLAIN,
    WORD,
    FieldForm,
    MessageForm,
    SignedForm,
    at_most,
    parts,
    signature_form,
)
from svc.model.cluster.health import (
    MAX_FOUND,
    CheckFound,
    HealthReport,
    NodeHealth,
    is_check_id,
)
from svc.model.doctor import CheckSeverity
from svc.model.signing import Signed
from svc.proto.gate.v1 import admin_pb2, tunnel_pb2
from svc.proto.gate.v1 import control_pb2 as pb

CONTROL_HEALTH_METHOD = "/gate.v1.Control/ReportHealth"
MEMBER_HEALTH_METHOD = "/gate.v1.Membership/ReportHealth"

MAX_REPORTS = 32
"""Reports in one call."""

MAX_REPORT_BYTES = 8 * 1024

_SEVERITIES = {severity.word: severity for severity in CheckSeverity}
_COUNT = at_most(10_000, "more checks than there can be")
_SEVERITY = FieldForm(
    write=lambda severity: severity.word,
    read=_SEVERITIES.__getitem__,
    fits=_SEVERITIES.__contains__,
    refusal=lambda came: "no severity",
)
_FOUND = MessageForm(
    tunnel_pb2.CheckFound,
    CheckFound,
    "health report: check",
    id=FieldForm(fits=is_check_id, refusal=lambda came: "not the id of a check"),
    severity=_SEVERITY,
)
_REPORT = SignedForm(
    tunnel_pb2.HealthReport,
    HealthReport,
    "health report",
    max_bytes=MAX_REPORT_BYTES,
    cluster=NAME,
    node_id=WORD,
    made_at_ms=PLAIN,
    version=WORD,
    worst=FieldForm(
        write=lambda severity: severity.word,
        read=lambda came: _SEVERITIES[came] if came else None,
        fits=lambda came: not came or came in _SEVERITIES,
        refusal=lambda came: "no severity",
    ),
    failed=_COUNT,
    warnings=_COUNT,
    found=parts(_FOUND, MAX_FOUND),
)
encode_health = _REPORT.encode
"""What a node signs about itself."""


def decode_health(data: bytes) -> HealthReport:
    """What a node signed.  Nothing rests on it, so what a newer node adds is let through."""
    return _REPORT.decode(data, relayed=True)


SIGNED_HEALTH = signature_form(
    tunnel_pb2.SignedHealthReport, "report", "health report", most=MAX_REPORT_BYTES
)
"""A signed report inside other messages; as it comes it is unverified."""


def health_reports(reports: Sequence[Signed]) -> pb.HealthReports:
    """Reports in one call, at most :data:`MAX_REPORTS`."""
    return pb.HealthReports(reports=[SIGNED_HEALTH.message(one) for one in reports])


def read_health_reports(message: pb.HealthReports) -> tuple[Signed, ...]:
    """As they came; nothing of them is verified.

    Raises:
        Malformed: there are too many, or one is not of its form.
    """
    if len(message.reports) > MAX_REPORTS:
        raise Malformed(f"health reports: more than {MAX_REPORTS}")
    return tuple(SIGNED_HEALTH.read(one) for one in message.reports)


@frozen
class RefusedReport:
    """A report that was not taken.

    Attributes:
        index: Its place among those that were brought, from 0.
        reason: A stable word.
    """

    index: int
    reason: str


@frozen
class HealthReceipt:
    """What came of reports."""

    refused: tuple[RefusedReport, ...] = ()


_RECEIPT = MessageForm(
    tunnel_pb2.HealthReceipt,
    HealthReceipt,
    "health receipt",
    refused=parts(
        MessageForm(
            tunnel_pb2.RefusedHealthReport,
            RefusedReport,
            "health receipt: refused",
            index=PLAIN,
            reason=WORD,
        ),
        MAX_REPORTS,
    ),
)
receipt_message, read_receipt = _RECEIPT.message, _RECEIPT.read
"""What came of reports."""


def health_row(health: NodeHealth, now: float) -> admin_pb2.NodeHealthRow:
    """The last report of a node, for operators."""
    return admin_pb2.NodeHealthRow(
        at=int(health.at),
        stale=health.is_stale(now),
        version=health.version,
        worst="" if health.worst is None else health.worst.word,
        failed=health.failed,
        warnings=health.warnings,
        found=[
            admin_pb2.CheckFoundRow(id=one.id, severity=one.severity.word) for one in health.found
        ],
        clock_secs=health.clock_secs,
    )
