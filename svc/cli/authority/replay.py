"""``svc authority policy replay``: recorded requests, decided again by a policy in a file.

The log is read from the store directly; the Authority says who may, and what is in force.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli.authority.policy_text import given_text
from svc.cli.control import admin, authority_settings
from svc.cli.forms import WORD
from svc.cli.output import json_option, moment, print_result, table
from svc.errors import Fault, Malformed, SvcError
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.proto.gate.v1 import policy_change_pb2
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.interfaces.store import ITransaction
    from svc.ops.replay.run import Replayed
    from svc.ops.replay.span import ReplaySpan
    from svc.ops.store import StorePlace
    from svc.policy.vocabulary import Vocabulary

SHOWN = 50
"""So many sorts of changes, and names of what was not exercised, are printed for people."""

_WHY = {
    "facts_erased": "facts that the policy reads were erased",
    "entities_not_recorded": "the entities that they were decided over are not recorded",
    "not_in_vocabulary": "no enabled kind has such requests",
}
_WORD = {
    "authority": "decided by Authority",
    "proxy": "only reported by a Proxy",
    "recorded": "over the entities recorded with them",
    "of_opening": "over those recorded for the opening of their session",
    "missing": "without recorded entities",
}


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--since",
    type=WORD,
    required=True,
    metavar="TIME",
    help="From 30m, 2h or 7d ago, or a UTC time.",
)
@click.option("--until", type=WORD, metavar="TIME", help="Before this time, in the same form.")
@json_option
@click.pass_context
def replay_policy(
    context: click.Context, file: Path, since: str, until: str | None, as_json: bool
) -> None:
    """Decide recorded requests again by the policy in FILE ("-": stdin); nothing changes.

    Shows which decisions would differ from those of the active policy, by person, resource and
    action, and what the log cannot tell.  The exit status does not depend on what is found.
    The last line names the replay, for `policy set --require-replay`.

    Example:
        svc --config authority.toml authority policy replay new.cedar --since 7d
    """
    from svc.ops.replay.span import ReplaySpan

    span = ReplaySpan(
        _moment("--since", since), None if until is None else _moment("--until", until)
    )
    authority_settings(context)  # before anything is asked: the log is on the Authority's host
    text = given_text(file)
    candidate = CandidateReplay(context, text, _may_replay(context, text))
    found = candidate.replay(span)
    result, lines = _told(found, candidate.place.look("names", _Names), candidate.words)
    print_result(
        as_json, {"replay": replay_id(found), **result}, [*lines, f"replay {replay_id(found)}"]
    )


def replayed_since(
    context: click.Context, text: str, since: str
) -> tuple[Replayed, dict[str, object]]:
    """A replay of *text*, and what it found, as programs are told."""
    from svc.ops.replay.span import ReplaySpan

    span = ReplaySpan(_moment("--since", since), None)
    candidate = CandidateReplay(context, text, _may_replay(context, text))
    found = candidate.replay(span)
    result, _ = _told(found, candidate.place.look("names", _Names), candidate.words)
    return found, result


def replayed_again(
    context: click.Context, answer: policy_change_pb2.ReviewPolicyResponse
) -> tuple[Replayed, dict[str, object]]:
    """The replay of a proposal over the very records that its proposer replayed.

    Raises:
        Malformed: the statement of that replay is none.
    """
    from svc.audit.log.selection import moment_of
    from svc.authority.policy.binding import MAX_STATEMENT
    from svc.model.canonical import decode
    from svc.ops.replay.span import ReplaySpan

    statement = decode(answer.replay, max_bytes=MAX_STATEMENT)
    last = statement.get("last_n") if isinstance(statement, dict) else None
    if not isinstance(statement, dict) or type(last) is not int:
        raise Malformed("policy proposal: its replay's statement is malformed")
    since, until = statement.get("since"), statement.get("until")
    span = ReplaySpan(
        moment_of(str(since), 0.0), None if until is None else moment_of(str(until), 0.0), last=last
    )
    active = pb.ShowPolicyResponse(version=answer.proposal.parent, text=answer.parent_text)
    candidate = CandidateReplay(context, answer.text, active)
    found = candidate.replay(span)
    result, _ = _told(found, candidate.place.look("names", _Names), candidate.words)
    return found, result


class CandidateReplay:
    """Replays one text as often as it takes.

    Args:
        active: The policy in force; None to take it from the store.
    """

    def __init__(
        self, context: click.Context, text: str, active: pb.ShowPolicyResponse | None = None
    ) -> None:
        from svc.compose.drop_ins import load_kinds
        from svc.ops.store import store_place
        from svc.policy.kind_terms import kind_terms
        from svc.policy.vocabulary import vocabulary

        settings = authority_settings(context)
        self.text = text
        self.place: StorePlace = store_place(settings)
        kinds = load_kinds(settings.plugins.kinds).by_name.values()
        self.words: Vocabulary = vocabulary(*(kind_terms(kind.terms) for kind in kinds))
        self._active = active or self.place.look("policy replay", _in_force)

    def replay(self, span: ReplaySpan) -> Replayed:
        """The requests of *span*, decided again."""
        from svc.ops.replay.run import replay
        from svc.policy.replay.lines import ReplayJob

        job = ReplayJob(
            text=self.text, active=self._active.text, active_version=self._active.version
        )
        return replay(self.place, job, self.words, span)


def _may_replay(context: click.Context, text: str) -> pb.ShowPolicyResponse:
    """The policy in force, as the Authority tells it to who may know what people may do.

    Raises:
        SvcError: this operator may not, or the text could not be activated.
    """
    asked = pb.CheckPolicyRequest(candidate=True, text=text, replay=True)
    return admin(context)("CheckPolicy", asked, pb.CheckPolicyResponse).active


def _in_force(tx: ITransaction) -> pb.ShowPolicyResponse:
    stored = tx.policies.active()
    if stored is None:
        raise SvcError("no policy is in force", reason="policy_unavailable")
    return pb.ShowPolicyResponse(version=stored.version, text=stored.text)


def _moment(option: str, text: str) -> float:
    from svc.audit.log.selection import moment_of

    try:
        return float(int(moment_of(text, time.time())))
    except Malformed as refused:
        raise click.UsageError(f"{option} {text}: {refused.text}") from None


def replay_id(found: Replayed) -> str:
    """What names a replay: its range, and the digest over all that it found."""
    span, last = found.span, found.statement["last_n"]
    return f"r1.{int(span.since)}.{int(span.until or 0)}.{last}.{found.digest}"


def span_of(replay: str) -> ReplaySpan:
    """The range that a replay's name tells.

    Raises:
        click.UsageError: it is no such name.
    """
    from svc.ops.replay.span import ReplaySpan

    form, *parts = replay.split(".")
    numbers = [part for part in parts[:3] if part.isascii() and part.isdigit() and len(part) < 16]
    if form != "r1" or len(parts) != 4 or len(numbers) != 3 or len(parts[3]) != 64:
        raise click.UsageError(
            "--require-replay: must be what the last line of `policy replay` names (r1.…)"
        )
    since, until, last = map(int, numbers)
    return ReplaySpan(float(since), float(until) if until else None, last=last)


def confirmed_statement(context: click.Context, text: str, replay: str) -> bytes:
    """The statement of the replay, if it finds today what it found then, and what came since fits.

    Raises:
        SvcError: ``replay_outdated``: the text, the active policy or the log is another one, or
            requests since then would be decided in a way that the replay did not show.
    """
    from svc.model.canonical import encode
    from svc.ops.replay.span import ReplaySpan

    # What is in force is read from the store here, and compared by the Authority at the end.
    span = span_of(replay)
    candidate = CandidateReplay(context, text)
    found = candidate.replay(span)
    if replay_id(found) != replay:
        raise _outdated(
            "it finds something else now: the policy in FILE, the active policy or the log is "
            "not the one that was replayed"
        )
    known = set(map(_sort, found.found["changes"]))
    later = candidate.replay(ReplaySpan(0.0, None, after=int(found.statement["last_n"])))
    new = [each for each in later.found["changes"] if _sort(each) not in known]
    if new or (later.found["beyond"] and found.found["beyond"]):
        seqs = ", ".join(str(each["first_seq"]) for each in new[:SHOWN])
        raise _outdated(f"requests since then would be decided otherwise, too: records {seqs}")
    return encode(dict(found.statement))


def _outdated(what: str) -> SvcError:
    return SvcError(
        f"replay: {what}; run policy replay again, read what it finds, and give its new name",
        reason="replay_outdated",
        fault=Fault.PRECONDITION,
    )


def _sort(change: Mapping[str, Any]) -> tuple[str, ...]:
    """What somebody who read of a change has agreed to."""
    return tuple(
        str(change[name])
        for name in ("person", "resource", "action", "decision_before", "decision_after")
    )


class _Names:
    """What people are called today, and what there is in the catalog."""

    def __init__(self, tx: ITransaction) -> None:
        self.people = {one.id: one.name for one in tx.people.all()}
        self.resources = {one.id for one in tx.catalog.all()}


def _told(found: Replayed, names: _Names, words: Vocabulary) -> tuple[dict[str, object], list[str]]:
    """What a replay found, for programs and for people."""
    counted, coverage = found.found, found.coverage
    changes = [{**each, "name": names.people.get(each["person"])} for each in counted["changes"]]
    sessions = {action.name for action in words.terms.actions if "use" in action.groups}
    never = {
        "unasked_actions": sorted(sessions - set(coverage.actions)),
        "unasked_resources": sorted(names.resources - coverage.resources.keys()),
        "unasking_people": len(names.people.keys() - coverage.people.keys()),
        "unused_policies": counted["unused"],
    }
    result: dict[str, object] = {
        "requests": coverage.requests,
        "decided": counted["decided"],
        "changed_count": counted["changed"],
        "directions": counted["directions"],
        "other_policies": counted["other_policies"],
        "beyond": counted["beyond"],
        "changes": changes,
        "undecidable": counted["undecidable"],
        "told_by": {name: coverage.told_by[name] for name in ("authority", "proxy")},
        "entities": {
            name: coverage.entities[name] for name in ("recorded", "of_opening", "missing")
        },
        "actions": dict(sorted(coverage.actions.items())),
        **never,
        "first_seq": found.statement["first_n"],
        "last_seq": found.statement["last_n"],
        "since_at": found.statement["since"],
        "until_at": found.statement["until"],
    }
    return result, [*_summary(found), *_table(changes), *_coverage(found, never)]


def _summary(found: Replayed) -> list[str]:
    counted, statement = found.found, found.statement
    told = (
        f"{found.coverage.requests} requests since {moment(found.span.since)}, records "
        f"{statement['first_n']} to {statement['last_n']}; {counted['decided']} decided again, "
        f"{counted['changed']} otherwise"
    )
    lines = [told]
    for direction, count in counted["directions"].items():
        before, _, after = direction.partition("_to_")
        lines.append(f"  {count} {after} instead of {before}")
    for why, count in counted["undecidable"].items():
        if count:
            lines.append(f"  {count} undecidable: {_WHY[why]}")
    if counted["beyond"]:
        lines.append(f"  {counted['beyond']} changes of more sorts than are listed")
    return lines


def _table(changes: list[dict[str, Any]]) -> list[str]:
    if not changes:
        return []
    rows = [
        [
            each["count"],
            each["name"] or each["person"],
            each["resource"],
            each["action"],
            f"{each['decision_before']} by {_by(each['policies_before'])}",
            f"{each['decision_after']} by {_by(each['policies_after'])}",
            each["first_seq"],
        ]
        for each in changes[:SHOWN]
    ]
    more = len(changes) - SHOWN
    heads = ["COUNT", "PERSON", "RESOURCE", "ACTION", "ACTIVE POLICY", "THIS POLICY", "FIRST SEQ"]
    tail = [f"and {more} more sorts; --json has them"] if more > 0 else []
    return ["", *table(heads, rows), *tail]


def _by(policies: list[str]) -> str:
    return ",".join(policies) or "default"


def _coverage(found: Replayed, never: Mapping[str, Any]) -> list[str]:
    coverage = found.coverage
    lines = ["", "What this log covers:"]
    for counts in (coverage.told_by, coverage.entities):
        told = [f"{counts[name]} {_WORD[name]}" for name in _WORD if counts[name]]
        if told:
            lines.append(f"  {', '.join(told)}")
    lines += _never("actions", never["unasked_actions"])
    lines += _never("resources", never["unasked_resources"])
    if never["unused_policies"]:
        lines.append(
            f"  policies of FILE that decided nothing: {_listed(never['unused_policies'])}"
        )
    if never["unasking_people"]:
        lines.append(f"  never exercised: {never['unasking_people']} people")
    return lines


def _never(what: str, names: list[str]) -> list[str]:
    return [f"  never exercised: {what} {_listed(names)}"] if names else []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(escaped, names[:SHOWN])) + more
