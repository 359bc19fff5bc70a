"""What ``svc status`` and ``svc why`` say to a person.  Pure."""

from __future__ import annotations

from typing import Any

from svc.model.clocks import since
from svc.telemetry.escape import escaped


def facts(told: dict[str, Any]) -> list[tuple[str, object]]:
    """The rows of `svc status`."""
    certificate = told["certificate"]
    left = f"until {certificate['expires_at']}"
    if certificate["problem"]:
        left = (
            "ended"
            if certificate["seconds_left"] <= 0
            else "not valid yet: this machine's clock is wrong"
        )
    elif certificate["ends_soon"]:
        left = f"{left}, in {since(certificate['seconds_left'])}: run `svc join` with a new token"
    rows: list[tuple[str, object]] = [
        ("cluster", told["cluster"]),
        ("person", told["person"]),
        ("certificate", left),
        ("resident", "running" if told["running"] else "not running (svc up)"),
    ]
    if told["running"]:
        proxy = told["proxy"]
        rows += [
            ("proxy", proxy["address"] if proxy["connected"] else "not connected"),
            ("resources", len(told["endpoints"])),
            *(("no new sessions", one["text"]) for one in told["no_new_sessions"]),
            ("sessions", told["sessions"]),
            ("refused", len(told["refused"])),
            ("ended", len(told["ended"])),
        ]
        audit = told.get("audit")
        if audit and audit["records"]:
            rows.append(("audit log", f"{audit['records']} records at {audit['time']}"))
    return rows


def able(told: dict[str, Any]) -> bool:
    """Whether sessions open, as far as the resident knows; true where none runs to ask."""
    return not told["running"] or (told["proxy"]["connected"] and not told["no_new_sessions"])


def reasons(told: dict[str, Any]) -> list[str]:
    """Why a Proxy is not connected, endpoints are incomplete, sessions were refused."""
    lines = []
    if told["certificate"]["problem"]:
        lines.append(f"certificate: {escaped(told['certificate']['problem'])}")
    if not told["running"]:
        return lines
    if told["proxy"]["problem"]:
        lines.append(f"proxy: {escaped(told['proxy']['problem'])}")
    if told.get("audit", {}).get("problem"):
        lines.append(f"audit log: {escaped(told['audit']['problem'])}")
    for endpoint in told["endpoints"]:
        if endpoint["problem"]:
            lines.append(f"{escaped(endpoint['resource'])}: {escaped(endpoint['problem'])}")
        elif not endpoint["served"]:
            lines.append(f"{escaped(endpoint['resource'])}: no such resource is connected")
    for one in told["ended"]:
        decision = f", decision {one['decision_id']}" if one["decision_id"] else ""
        said = f"{one['at']} {one['resource']}: session ended: {one['text']}"
        lines.append(escaped(f"{said} ({one['reason']}{decision})"))
    for one in told["refused"]:
        decision = f", decision {one['decision_id']}" if one["decision_id"] else ""
        policies = f", policies {','.join(one['policies'])}" if one["policies"] else ""
        said = f"{one['at']} {one['resource']}: {one['text']} ({one['reason']}{decision}{policies})"
        often = "" if one["count"] == 1 else f"; {one['count']} times since {one['first_at']}"
        lines.append(escaped(f"{said}{often}"))
    return lines


def session_end(told: Any) -> list[tuple[str, object]]:
    """How the session ended that the decision opened."""
    from svc.model.session.ending import ENDINGS

    if not told.session_ended:
        return [("session", "not ended")] if told.decision == "allow" else []
    return [
        ("session ended", told.session_ended),
        ("because", f"{ENDINGS[told.session_reason]} ({told.session_reason})"),
        ("lane", told.session_lane),
    ]
