"""The seam of resource kinds: a kind is four sides, and each program resolves only its own.

======== ===================== ==========================================================
Side     Runs at               Is
======== ===================== ==========================================================
terms    every program         its Cedar words; pure data
dialer   Connector             how a target is described and reached
gate     Proxy                 reads a session's requests and asks for each; none: opaque
local    the person's program  what a native tool connects to
======== ===================== ==========================================================

Without a gate a session runs TLS between the person and the Connector, so that
no Proxy reads it (rule R3).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import instance_of
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import Attribute, Interface, implementer

from svc.errors import Malformed, SvcError
from svc.interfaces.recordings import NO_RECORDER, IRecorder
from svc.model.audit.record import Event
from svc.model.cluster.target import Target
from svc.model.session.ending import SessionOver
from svc.model.session.onward import OnwardCredential, OnwardLogin
from svc.model.session.parameters import (
    NOTHING_ASKED,
    AskedParameters,
    Parameters,
    asked_with,
)
from svc.model.session.ranges import RequestReader
from svc.model.session.request import SessionRequest


@frozen
class KindEvent:
    """One sort of audit event that a kind's gate writes.

    Attributes:
        fields: What a record of it may say in ``details``: the shape (``text``, ``number``,
            ``flag``, ``texts``) and how it is kept, as in ``"number public"``.
        severity: ``info``, ``warning`` or ``error``.
    """

    meaning: str
    fields: Mapping[str, str] = field(factory=dict)
    severity: str = "info"


@frozen
class Operation:
    """One sort of request that a kind's dialer tells from the others by itself.

    Attributes:
        action: What every such request is decided by.
        facts: What every such request states; the other facts are open.
    """

    action: str
    facts: Mapping[str, bool | str] = field(factory=dict)


@frozen
class KindTerms:
    """How policies speak of a kind: the names it adds to the Cedar schema.

    Attributes:
        entity_type: Cedar entity type of its resources, such as ``TcpService``.
        open_action: The action that a session's open is decided by.
        actions: Every action of the kind, ``open_action`` among them, and what it counts as:
            ``connect``, ``db_connect``, ``db_query``, ``kube`` or ``web``.
        attributes: Entity attributes beyond those every resource has.
        context: Context facts beyond those every action has; all are
            optional in the schema.
        parameters: What a person may ask for with a session of it, by name.
        events: What its gate records beside requests; each name begins with the kind's.
        protocol: The metric label of its sessions; where it is not one of the
            known ones, or empty, they count as ``other``.
        guarded: Actions outside the group ``use``: a policy that permits the group does not
            permit them.
        operations: The sorts of requests that its dialer lets pass one by one, by name; it
            has to be an :class:`ILimitedDialer` then.  Every request is of at least one of them.
        rights: What a session may do whose protocol ends at the Connector, by name; its dialer has
            to be an :class:`IEndingDialer` then.  Each is decided as the session opens, and stands
            in the grant.  A session of another resource of the kind has none, and its parameters
            are held to nothing.
        reasons: What a person is told of each reason by which the kind's gate refuses a request
            itself, whatever policy says of it: the stable word, and what happened in plain words.
        sign_on: Given a session's ceiling and rights: what a certificate for its target says of
            them.  None: Authority certifies nobody for the kind's targets.

    Attributes and facts map a name to its Cedar type.  A name the core has already is
    used as it is there; one of the kind's own adds how it is kept in the audit log,
    as in ``"String personal"`` or ``"Long public"``.  A fact of a request that is
    the client's word alone, and that neither a gate nor the Connector enforces,
    has a third word: ``"String personal claimed"``.  No policy can rest on it.
    A parameter that policies may read is a fact of every action by itself.
    """

    entity_type: str
    open_action: str
    actions: Mapping[str, str]
    attributes: Mapping[str, str] = field(factory=dict)
    context: Mapping[str, str] = field(factory=dict)
    parameters: Parameters = field(factory=dict)
    events: Mapping[str, KindEvent] = field(factory=dict)
    protocol: str = ""
    guarded: frozenset[str] = frozenset()
    operations: Mapping[str, Operation] = field(factory=dict)
    rights: Mapping[str, Operation] = field(factory=dict)
    reasons: Mapping[str, str] = field(factory=dict)
    sign_on: Callable[[Mapping[str, str], frozenset[str]], OnwardLogin] | None = None


class IResourceKind(Interface):
    """What a drop-in ``kind_<name>`` offers: where the four sides of the kind are.

    A side is ``module:NAME``; ``:NAME`` is in the drop-in's own module.
    """

    name: str = Attribute("The word operators write as ``kind``; the drop-in is ``kind_<name>``.")
    terms: str = Attribute("Where its :class:`KindTerms` are.")
    dialer: str = Attribute("Where its :class:`IDialer` is.")
    gate: str = Attribute("Where its gate is, a :data:`ServeGated`; empty: the kind is opaque.")
    local: str = Attribute("Where its :class:`ILocalEndpoint` is.")


@implementer(IResourceKind)
@frozen(kw_only=True)
class Kind:
    """A kind by its name and where its sides are; see :class:`IResourceKind`."""

    name: str = field(validator=instance_of(str))
    terms: str = field(validator=instance_of(str))
    dialer: str = field(validator=instance_of(str))
    gate: str = field(default="", validator=instance_of(str))
    local: str = field(validator=instance_of(str))


class IDialer(Interface):
    """How a Connector describes and reaches a kind's targets.

    A dialer of a kind with enforced parameters has ``enforces``, their names as a frozenset.
    One of a gated kind has ``requests``: called for each session, it gives a
    :class:`svc.model.session.ranges.RequestReader` of the person's bytes.  Where it has none, the
    Connector cannot tell a request that nobody decided, nor where a request ends.
    """

    def parse(resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """The target that a Connector's configuration describes.

        Pure; called at start by ``compose``, before the reactor runs.

        Args:
            resource_id: Checked already.
            table: The raw table but for ``id`` and ``kind``.
            path: Where the table stands, such as ``connector.resources[2]``;
                refusals name the key below it.

        Raises:
            ConfigError: naming the key, never echoing a value that may be secret.
        """

    def endpoint(
        reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """What the Connector dials; makes an object, does no I/O.

        Args:
            reactor: Use this one: it lets connections pass only to addresses
                within the Connector's reach, and resolves names once.
            target: As :meth:`parse` gave it.
            ceiling: Every enforced parameter of the kind, as Authority granted it;
                the session must not be able to leave it.
        """


class ICancellingEndpoint(IStreamClientEndpoint):
    """What a dialer may give: its connection's target can be asked to stop what it does now."""

    async def cancel() -> None:
        """Ask it, over a connection of its own; return once the target has heard it.

        Called after the connection was made, and never twice at once.

        Raises:
            SvcError: it could not be asked.
        """


def request_reader(dialer: Any) -> RequestReader | None:
    """What reads the requests of one session at the Connector; None: the kind has nothing."""
    requests: Callable[[], RequestReader] | None = getattr(dialer, "requests", None)
    return None if requests is None else requests()


class IPersonalDialer(IDialer):
    """A dialer whose target is told who asks: it dials for one person, and for nobody without."""

    def of(person_id: str) -> IDialer:
        """The dialer of the sessions of this person, whom the grant names."""


Identify = Callable[[str], Awaitable[bytes]]
"""``await identify(named)``: the token that tells a session's target who makes a request, in which
the person asks to be somebody of this name (empty: nobody else).  Raises SvcError."""


class IIdentifyingDialer(IDialer):
    """A dialer whose targets are told, where they want it, who makes each request."""

    def identified(identify: Identify, session_uid: str) -> IDialer:
        """The dialer of one session."""


class ILimitedDialer(IDialer):
    """A dialer that lets only some operations of its kind reach the target (rule R27)."""

    def limited(operations: frozenset[str]) -> IDialer:
        """The dialer of one session, of whose requests no others pass."""


Use = Callable[[str, bool], object]
"""``use(right, is_allowed)``: a session used a right, or asked for it in vain."""


def not_counted(right: str, is_allowed: bool) -> None:
    """For sessions of which nobody is told what they do."""


class IEndingDialer(IDialer):
    """A dialer that ends the protocol of some targets' sessions itself, with rights of theirs."""

    def ends(target: Target) -> bool:
        """Whether it does so for this target."""

    def ending(
        rights: frozenset[str],
        decision_id: str,
        use: Use,
        recorder: IRecorder = NO_RECORDER,
        credential: OnwardCredential | None = None,
    ) -> IDialer:
        """The dialer of one session, which lets it do this and nothing else.

        Args:
            decision_id: Of the decision by which it has these rights, to be told with a denial.
            use: Told the name of a right whenever it is used, or refused.
            recorder: Records the session.
            credential: What Authority gave to log in with; None: nothing.
        """


def ends_here(dialer: Any, target: Target) -> bool:
    """Whether the protocol of this target's sessions ends at the dialer."""
    return bool(IEndingDialer.providedBy(dialer) and dialer.ends(target))


def dialer_for(
    dialer: Any,
    person_id: str,
    identify: Identify,
    operations: frozenset[str] | None,
    decision_id: str = "",
    use: Use = not_counted,
    recorder: IRecorder = NO_RECORDER,
    credential: OnwardCredential | None = None,
    session_uid: str = "",
) -> Any:
    """What dials for this person's session, whatever dialer the kind has.

    Args:
        operations: Those that may pass, or the session's rights; None: all of the kind.
        decision_id: And *use*, *recorder* and *credential*: see :meth:`IEndingDialer.ending`.
        session_uid: Of the session.
    """
    if operations is not None and IEndingDialer.providedBy(dialer):
        dialer = dialer.ending(operations, decision_id, use, recorder, credential)
    elif operations is not None:
        dialer = dialer.limited(operations)
    if IIdentifyingDialer.providedBy(dialer):
        dialer = dialer.identified(identify, session_uid)
    return dialer.of(person_id) if IPersonalDialer.providedBy(dialer) else dialer


class ILocalEndpoint(Interface):
    """The local endpoint that a person's tools connect to."""

    def native_port(labels: Mapping[str, str]) -> int | None:
        """The port that a person's tools expect, from the catalog's labels.

        Called by the resident; None: the kind has none and the resident chooses.
        """


class ILocalDialogue(Interface):
    """What a local endpoint itself says to one tool: before its session, and instead of one.

    Sans-IO, one for each connection.  A tool that must be heard before a session opens names
    the session's parameters in it; one that reads a protocol is told in its words why a session
    was refused or cut.
    """

    parameters: Mapping[str, str] | None = Attribute(
        "What the tool asks for, by the kind's names; None: it has not said so yet."
    )

    key: bytes = Attribute(
        "What the tool was told to name this session by when it cancels; empty: it cannot."
    )
    cancels: bytes = Attribute(
        "The key of the session that this connection asks to cancel; empty: it asks for none."
    )

    tls: bytes = Attribute(
        "Once the tool was answered that TLS begins: the name, in ALPN, of what it speaks inside; "
        "empty before, and where none does."
    )

    def heard(data: bytes) -> bytes:
        """What to answer to bytes that come before the session; nothing of them goes into it.

        Raises:
            Malformed: the tool says what cannot begin a session.
        """

    def answered(data: bytes) -> bytes:
        """What the tool is passed for these bytes of the session: themselves, and words of ours."""

    def refused(error: SvcError) -> bytes:
        """The last words to a tool whose session does not open."""

    def ended(over: SessionOver) -> bytes:
        """The last words to a tool whose session was cut; empty where none fit."""


class ISpeakingEndpoint(ILocalEndpoint):
    """A local endpoint that talks to a tool before its session opens."""

    dialogue: Callable[[], ILocalDialogue] = Attribute("Begins one, for one connection.")


class ILocalCheck(Interface):
    """Looks at what a tool says to a local endpoint before, and while, a session has it.

    Sans-IO, one for each connection.  It passes bytes or refuses, and changes none.
    """

    resource: str = Attribute("The resource that the tool asks for; empty: not said so far.")
    answer: bytes = Attribute("What it is told in place of a session; empty: nothing, so far.")

    def heard(data: bytes) -> None:
        """Look at the next bytes from the tool.

        Raises:
            SvcError: the connection is not to be served any more.
        """

    def refused(error: SvcError) -> bytes:
        """The last words to a tool that is refused, or whose session does not open."""


LISTING = "*"
"""In the place of a resource: the list of those that can be asked for."""


class ICheckedEndpoint(ILocalEndpoint):
    """A local endpoint whose tools are checked."""

    def check(names: Mapping[str, str] | None, resource: str) -> ILocalCheck:
        """Begin the checks of one connection.

        Args:
            names: What a tool may call this endpoint, and the resource that each name is for,
                or ``LISTING``; it can change.  None: any, where nothing but the person's programs
                can ask.
            resource: Of an endpoint that has one; empty where names tell.
        """


class INamedEndpoint(ICheckedEndpoint):
    """A checked endpoint for browsers: its resources have names on a port that they share."""


class IDescribedEndpoint(ILocalEndpoint):
    """A local endpoint that tools find by a file, which the resident keeps in the person's home."""

    directory: str = Attribute("Below the person's directory of svc; one name.")

    def file_name(resource: str) -> str:
        """The file of a resource there; one name."""

    def description(
        cluster: str, resource: str, address: str, *, place: str = "", options: str = ""
    ) -> bytes:
        """What the file says.

        Args:
            address: ``host:port`` of the endpoint.
            place: The whole path of the directory that it is in.
            options: What a command of svc in it ends with, to use this person's identity.

        Raises:
            Malformed: it cannot say that.
        """


class IListedEndpoint(IDescribedEndpoint):
    """Whose tools are given their files in an environment variable, joined by colons."""

    variable: str = Attribute("The variable.")
    usual_file: str = Attribute("What they read without it, below the home directory.")


class IGreetedEndpoint(ILocalEndpoint):
    """A local endpoint of a kind whose Connector, where it ends the protocol, says a line first.

    The resident, or ``svc proxy-ssh``, takes it out, and keeps what it says in a file for tools.
    """

    directory: str = Attribute("As of IDescribedEndpoint.")
    longest_greeting: int = Attribute("Bytes of such a line; a longer one is none.")

    def greeted(resource: str, line: bytes) -> tuple[str, bytes]:
        """The name of the file, and what it says then.

        Raises:
            Malformed: it is no such line.
        """


ServeGated = Callable[[Any], Awaitable[None]]
"""A gate: given a gated session, it serves that session's requests until they end."""


@frozen(kw_only=True)
class ServedKind:
    """A kind as one program has it.

    Attributes:
        dialer: None where this program does not dial; ``gate`` and ``local`` likewise.
        events: Those of its terms, as the audit log knows them.
        request_kind: What opening it counts as.
        protocol: The metric label of its sessions.
    """

    name: str
    terms: KindTerms
    events: Mapping[str, Event] = field(factory=dict)
    opaque: bool = True
    dialer: Any = None
    gate: ServeGated | None = None
    local: Any = None
    request_kind: str = field(init=False)
    protocol: str = field(init=False)

    @request_kind.default
    def _of_its_opening(self) -> str:
        return self.terms.actions[self.terms.open_action]

    @protocol.default
    def _label(self) -> str:
        return self.terms.protocol or "other"

    def taken(self, *, ends: bool | None = None) -> Parameters:
        """What may be asked for; *ends* as of :meth:`asked`."""
        known = self.terms.parameters
        if self.terms.rights and not ends:
            return {name: evolve(one, enforced=False) for name, one in known.items()}
        return known

    def asked(self, request: SessionRequest, *, ends: bool | None = None) -> AskedParameters:
        """What a request asks for, with the kind's defaults.

        Args:
            ends: Of a kind with rights: whether the session's protocol ends at the Connector.  Only
                there is it held to anything, and only what it is held to decides.  None: not known.

        Raises:
            Malformed: it names a parameter that the kind does not take, or one not of its form.
        """
        if not self.terms.parameters and not request.parameters:
            return NOTHING_ASKED
        asked = asked_with(self.taken(ends=ends), request.parameters, self.name)
        if self.terms.rights and ends is False:
            asked = evolve(asked, facts={})
        return asked


def kind_of(
    kinds: Mapping[str, ServedKind], request: SessionRequest
) -> tuple[ServedKind, AskedParameters]:
    """The kind that a request is for, and what it asks for of it.

    Proxy and Authority both look at this before they decide.

    Raises:
        Malformed: ``unknown_kind``: none of these, not the action that opens it, or with or
            without the key of a gated session where that is wrong; or a word of
            :func:`svc.model.session.parameters.resolved`.
    """
    kind = kinds.get(request.kind)
    if kind is None or request.action != kind.terms.open_action:
        raise Malformed("the request names no kind served here", reason="unknown_kind")
    if kind.opaque is bool(request.half):
        raise Malformed(
            f"{kind.name} is gated at one end of the session and not at the other; run the same "
            "version of its plug-in everywhere",
            reason="unknown_kind",
        )
    return kind, kind.asked(request)
