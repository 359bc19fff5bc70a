"""What ``svc status`` and ``svc why`` say to a person.  Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svc.model.clocks import since
from svc.model.ids import is_random_id
from svc.model.policy.requested import known_command, why_command
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.messages.session import Explanation

NOT_SERVED = (
    "no Connector that serves it is connected to your Proxy now: try again in a minute; if that "
    "does not help, an operator sees why with `svc --config FILE authority resources list`"
)
"""The problem of a resource that may be viewed and that nobody serves."""

_WHOSE = ("cluster", "person", "agent", "name")
"""What tells an identity from others, in a status; the name is for people."""


def facts(status: dict[str, Any]) -> list[tuple[str, object]]:
    """The rows of `svc status`."""
    rows: list[tuple[str, object]] = [
        ("cluster", status["cluster"]),
        _whose(status),
        ("certificate", _certificate(status["certificate"])),
        ("svc up", _runs(status)),
    ]
    if not status["running"]:
        return [*rows, *_asked(status)]
    proxy = status["proxy"]
    rows += [
        ("proxy", proxy["address"] if proxy["connected"] else "not connected"),
        ("resources", len(status["endpoints"])),
        *_no_new_sessions(status),
        ("sessions", status["sessions"]),
        ("refused", _counted(status["refused"])),
        ("ended", _counted(status["ended"])),
    ]
    waiting = status.get("requests_to_decide")
    if waiting:
        rows.append(("requests", f"{waiting} wait for you (svc requests list --to-decide)"))
    audit = status.get("audit")
    if audit and audit["records"]:
        rows.append(("audit log", f"{audit['records']} records, signed at {audit['time']}"))
    return rows


def another_identity(resident: dict[str, Any], own: dict[str, Any]) -> dict[str, Any] | None:
    """Whose identity `svc up` has where it is not the one on disk; None where it is that one.

    It goes on with the one that it began with, whoever joins in its directory meanwhile.
    """
    if all(resident.get(key) == own[key] for key in _WHOSE[:3]):
        return None
    return {key: resident.get(key, "") for key in _WHOSE}


def still_as(another: dict[str, Any]) -> str:
    """That `svc up` has this identity, and what to do about it."""
    who = another["name"] or another["agent"] or another["person"]
    return (
        f"still runs as {who} of {another['cluster']}, whose identity was here before; stop it, "
        "and start it again"
    )


def _runs(status: dict[str, Any]) -> str:
    if status.get("resident"):
        return still_as(status["resident"])
    return "running" if status["running"] else "not running"


def _counted(found: list[Any]) -> str:
    """How many there are, and how to see them."""
    return f"{len(found)} (svc status --explain says why)" if found else "0"


def _certificate(certificate: dict[str, Any]) -> str:
    """Until when it is valid, and what follows then."""
    until = f"until {certificate['expires_at']}"
    if certificate["problem"]:
        has_ended = certificate["seconds_left"] <= 0
        return "ended" if has_ended else "not valid yet: this machine's clock is wrong"
    if certificate.get("renew_until"):
        return f"{until}; `svc up` renews it until {certificate['renew_until']}"
    if certificate.get("is_renewed"):
        return f"{until}; `svc up` renews it"
    if certificate["ends_soon"]:
        left = f"{until}, in {since(certificate['seconds_left'])}"
        return f"{left}: run `svc join` with a new token, or `svc login`"
    return until


def _whose(status: dict[str, Any]) -> tuple[str, object]:
    """Whose identity it is, by name; by the id where the name is not known."""
    kind = "agent" if status.get("agent") else "person"
    return kind, status.get("name") or status[kind]


def _no_new_sessions(status: dict[str, Any]) -> list[tuple[str, object]]:
    return [("no new sessions", one["text"]) for one in status["no_new_sessions"]]


def _asked(status: dict[str, Any]) -> list[tuple[str, object]]:
    """What a Proxy said, which was asked because no resident runs."""
    proxy = status.get("proxy")
    if proxy is None:
        return [("proxy", "not asked, because your certificate is not valid now")]
    if proxy["connected"]:
        return [
            ("proxy", f"{proxy['address']} accepts you"),
            ("resources", status["resources"]),
            *_no_new_sessions(status),
        ]
    if status["no_new_sessions"]:
        return [("proxy", f"{proxy['address']} refuses you"), *_no_new_sessions(status)]
    return [("proxy", f"not reached: {proxy['problem']}")]


def able(status: dict[str, Any]) -> bool:
    """Whether sessions open, as far as the resident knows, or the Proxy that was asked."""
    proxy = status["proxy"]
    return proxy is None or (proxy["connected"] and not status["no_new_sessions"])


def with_problem(endpoints: list[dict[str, Any]], why: list[str]) -> list[dict[str, Any]]:
    """Endpoints with the problem that each has while no session opens; its own, if it has one."""
    if not why:
        return endpoints
    return [{**one, "problem": one["problem"] or "; ".join(why)} for one in endpoints]


def with_unserved(endpoints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Endpoints with the problem of each that nobody serves; its own, if it has one."""
    return [
        one if one["served"] else {**one, "problem": one["problem"] or NOT_SERVED}
        for one in endpoints
    ]


def reasons(status: dict[str, Any]) -> list[str]:
    """Why a Proxy is not connected, endpoints are incomplete, sessions were refused."""
    lines = []
    if status["certificate"]["problem"]:
        lines.append(f"certificate: {escaped(status['certificate']['problem'])}")
    if not status["running"]:
        return lines  # the rows say all that is known
    if status["proxy"]["problem"]:
        lines.append(f"proxy: {escaped(status['proxy']['problem'])}")
    if status.get("audit", {}).get("problem"):
        lines.append(f"audit log: {escaped(status['audit']['problem'])}")
    for endpoint in status["endpoints"]:
        if endpoint["problem"]:
            lines.append(f"{escaped(endpoint['resource'])}: {escaped(endpoint['problem'])}")
        elif not endpoint["served"] and status["proxy"]["connected"]:
            lines.append(f"{escaped(endpoint['resource'])}: {NOT_SERVED}")
    for one in status["ended"]:
        line = f"{one['at']} {one['resource']}: session ended: {one['text']} ({one['reason']})"
        lines.append(escaped(f"{line}{_to_see_why(one)}"))
    for one in status["refused"]:
        policies = f", policies {','.join(one['policies'])}" if one["policies"] else ""
        # Whoever worded it may have begun with the name.
        text = one["text"].removeprefix(f"{one['resource']}: ")
        line = f"{one['at']} {one['resource']}: {text} ({one['reason']}{policies})"
        ask = f"; to ask for access: {one['request_hint']}" if one["request_hint"] else ""
        often = "" if one["count"] == 1 else f"; {one['count']} times since {one['first_at']}"
        lines.append(escaped(f"{line}{often}{ask}{_to_see_why(one)}"))
    return lines


def _to_see_why(one: dict[str, Any]) -> str:
    """What to type, without options; nothing where nothing was decided."""
    is_known = is_random_id(one["decision_id"])  # a Proxy said it
    return f"; to see why: {why_command(one['decision_id'])}" if is_known else ""


def policies_say(told: Explanation) -> list[tuple[str, object]]:
    """The reasons that policies give: those that decided, and those that people may ask for."""
    return [
        (f"says {name}" if name in told.policies else f"on request, {name}", text)
        for name, text in sorted(told.why.items())
    ]


def rights_say(told: Explanation) -> list[tuple[str, object]]:
    """What a session may do that ends at its Connector, and what the policy keeps it from."""
    if not told.rights and not told.rights_denied:
        return []
    return [("may", told.rights), ("may not", told.rights_denied)]


def how_to_ask(told: Explanation) -> list[str]:
    """What to type to ask for what was denied, where another person can approve it."""
    command = known_command(told.request_hint)
    return [f"to ask for access: {command}"] if command else []


def session_end(status: Any) -> list[tuple[str, object]]:
    """How the session ended that the decision opened."""
    from svc.model.session.ending import ENDINGS

    if not status.session_ended:
        return [("session", "not ended")] if status.decision == "allow" else []
    return [
        ("session ended", status.session_ended),
        ("because", f"{ENDINGS[status.session_reason]} ({status.session_reason})"),
        ("lane", status.session_lane),
    ]
