"""What the server still owes, and which text stands behind each name.

Sans-IO.  A client may send many requests before it reads an answer, and the server skips what
follows an error up to the next Sync.  So a name may stand for more than one text until the
server's answer settles it: a map that believed requests alone would let a text through that the
server never took.  One exact queue of owed answers settles it; an answer that does not fit it
ends the session.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from attrs import define, field, frozen

from svc.errors import Malformed
from svc.interfaces.gating import RequestVerdict
from svc.kinds.postgres.effects import NameChange, TextEffects
from svc.kinds.postgres.messages import DENIED_WORD, EXTENDED, denied_word
from svc.kinds.postgres.reading import check_reported

MOST_NAMES = 4096
"""Prepared statements, and portals, of one session."""

MOST_KEPT = 16 << 20
"""Bytes of what they would do, roughly."""

MOST_OWED = 16_384
"""Answers owed at once; the server has sent its first ones long before."""

MOST_DENIED = 1024
"""Answers whose error has not come; those that the server skips are never told."""


IN_NO_BATCH = -1
"""Of what SQL prepared: it stands for its name whatever the protocol's batches are."""

PREPARED, DEALLOCATED = b"PREPARE\0", b"DEALLOCATE\0"


@frozen
class Candidate:
    """One text that a name may stand for.

    Attributes:
        number: Of its Parse, or of its PREPARE.
        batch: How many Syncs came before its Parse.
        alone: Its effects, where no other text may be meant.
    """

    number: int
    effects: TextEffects
    batch: int
    alone: tuple[TextEffects] = field(init=False)

    @alone.default
    def _only_it(self) -> tuple[TextEffects]:
        return (self.effects,)


@define
class Portal:
    """What a Bind made.

    Attributes:
        fresh: The verdict by which it was made, until its first Execute has used it.
    """

    candidates: tuple[TextEffects, ...]
    cycle: int
    fresh: RequestVerdict | None

    @property
    def size(self) -> int:
        """Bytes that it keeps, roughly."""
        if len(self.candidates) == 1:
            return self.candidates[0].size
        return sum([one.size for one in self.candidates])


@frozen
class Decided:
    """A request's verdict, and what it would do, as far as anybody can read it.

    Attributes:
        no_text: Why it has no text that can be asked for, if it has none.
    """

    verdict: RequestVerdict
    effects: TextEffects
    no_text: str = EXTENDED


@frozen
class Renaming:
    """A PREPARE or DEALLOCATE of SQL whose success has not come.

    Attributes:
        number: Of the candidate that it makes, or up to which it removes them.
    """

    name: bytes
    number: int
    prepares: bool


@frozen
class Owed:
    """One answer owed.

    Attributes:
        kind: The answer's own byte, where it has one; ``Z`` ends a simple query, ``S`` a Sync,
            ``x`` is an error and nothing else, ``c`` the end of a COPY that may not be one.
        name: The statement that a Parse or Close is about; None: no statement.
        renamings: Of a simple query, in their order.
    """

    kind: str
    number: int = 0
    name: bytes | None = None
    renamings: deque[Renaming] = field(factory=deque)


_EXTENDED = frozenset("123TCx")

_ASKED, _BOUND, _DESCRIBED, _EXECUTED, _SYNCED = map(Owed, "Z2TCS")
"""They differ in nothing from any other of their kind."""

FORGETTING = frozenset({b"DISCARD ALL\0", b"DEALLOCATE ALL\0"})
"""Bodies of a CommandComplete after which no statement is prepared."""


@define
class Pipeline:
    """The state of one session.

    Attributes:
        is_skipping: The server has failed and reads past everything up to the next Sync.
        is_copying: The server takes rows, and ignores Sync.
        owed: What the server has not answered, in order.
    """

    is_skipping: bool = False
    is_copying: bool = False
    owed: deque[Owed] = field(factory=lambda: deque([Owed("Z")]))
    _names: dict[bytes, list[Candidate]] = field(factory=dict)
    _portals: dict[bytes, Portal] = field(factory=dict)
    _denied: OrderedDict[bytes, Decided] = field(factory=OrderedDict)
    _kept: int = 0
    _number: int = 0
    _confirmed: int = 0
    _syncs: int = 0
    _cycle: int = 0
    _done: int = 0

    @property
    def is_full(self) -> bool:
        """Whether no more may be asked before something was answered."""
        return len(self.owed) >= MOST_OWED

    # -- questions

    def behind(self, name: bytes) -> tuple[TextEffects, ...]:
        """What each text does that a statement's name may stand for; none: it is not known here."""
        candidates = self._names.get(name)
        if not candidates:
            return ()
        last = candidates[-1]
        if len(candidates) == 1 or last.batch == self._syncs:
            # No Sync since that Parse: if the server skips it, it skips what follows, too.
            return last.alone
        return tuple([one.effects for one in candidates])

    def portal(self, name: bytes) -> Portal | None:
        """What a portal's name stands for; None: it is not known here."""
        return self._portals.get(name)

    # -- requests, as they are passed on

    def asked_simply(self, changes: tuple[NameChange, ...] = ()) -> None:
        """A Query, which changes these names in its course, or a FunctionCall."""
        owed = Owed("Z") if changes else _ASKED
        for one in changes:
            self._number += 1
            owed.renamings.append(Renaming(one.name, self._number, one.effects is not None))
            if one.effects is not None:
                self._add(one.name, Candidate(self._number, one.effects, IN_NO_BATCH))
        self.owed.append(owed)
        self._cycle += 1

    def denied(self, denial: Decided, *, simply: bool) -> None:
        """The word of a denial goes in the request's place."""
        word = DENIED_WORD + denial.verdict.decision_id.encode("ascii")
        self._denied[word] = denial
        if len(self._denied) > MOST_DENIED:
            self._denied.popitem(last=False)
        if simply:
            self.asked_simply()
        else:
            self.owed.append(Owed("x"))

    def parsed(self, name: bytes, effects: TextEffects) -> None:
        """A Parse."""
        self._number += 1
        self._add(name, Candidate(self._number, effects, self._syncs))
        self.owed.append(Owed("1", self._number, name))

    def _add(self, name: bytes, candidate: Candidate) -> None:
        if len(self._names) >= MOST_NAMES and name not in self._names:
            raise Malformed(f"a session prepares more than {MOST_NAMES} statements")
        self._more_kept(candidate.effects.size)
        self._names.setdefault(name, []).append(candidate)
        if len(self._names[name]) > MOST_NAMES:
            raise Malformed("a session prepares one statement too often without an answer")

    def bound(
        self, portal: bytes, candidates: tuple[TextEffects, ...], verdict: RequestVerdict
    ) -> None:
        """A Bind."""
        if len(self._portals) >= MOST_NAMES and portal not in self._portals:
            raise Malformed(f"a session opens more than {MOST_NAMES} portals")
        before = self._portals.get(portal)
        made = Portal(candidates, self._cycle, verdict)
        if before is None or before.candidates != candidates:
            self._more_kept(made.size - (before.size if before else 0))
        self._portals[portal] = made
        self.owed.append(_BOUND)

    def _more_kept(self, size: int) -> None:
        self._kept += size
        if self._kept > MOST_KEPT:
            raise Malformed("a session's prepared statements name too much; close some of them")

    def bound_to_nothing(self) -> None:
        """A Bind of a statement that the server does not know."""
        self.owed.append(_BOUND)

    def executed(self, candidates: tuple[TextEffects, ...] = ()) -> None:
        """An Execute of a portal that one of these texts made."""
        for one in candidates:
            for change in one.changes:
                self._may_have_changed(change)
        self.owed.append(_EXECUTED)

    def _may_have_changed(self, change: NameChange) -> None:
        # Which text it was is not known, nor whether it did: each name may stand for it.
        if change.effects is not None:
            # One like it from before may be forgotten by what is on its way; this one stays.
            self._keep(change.name, lambda one, new=change.effects: one.effects != new)
            self._number += 1
            self._add(change.name, Candidate(self._number, change.effects, IN_NO_BATCH))

    def described(self) -> None:
        """A Describe."""
        self.owed.append(_DESCRIBED)

    def closed(self, name: bytes | None) -> None:
        """A Close, of a statement or (None) of a portal."""
        self._number += 1
        self.owed.append(Owed("3", self._number, name))

    def synced(self) -> None:
        """A Sync."""
        self.is_skipping = False
        self._syncs += 1
        if not self.is_copying:
            self.owed.append(_SYNCED)
            self._cycle += 1

    def copied(self) -> None:
        """A CopyDone or CopyFail; a server that takes no rows ignores it."""
        if self.is_copying:
            self.is_copying = False
        elif self.owed:
            self.owed.append(Owed("c"))

    # -- answers

    def answered(self, kind: int, body: bytes) -> Decided | None:
        """An answer of a kind that is looked at; the denial that it tells of, if it does.

        Raises:
            Malformed: nobody asked for it, or it tells that the server reads texts otherwise.
        """
        if kind in b"123":
            self._settled(chr(kind))
        elif kind in b"Tn":
            self._is_head("T", taken=True)
        elif kind in b"CIs":
            is_executed = self._is_head("C", taken=True)
            if kind == ord("C") and body in FORGETTING:
                self._forget_confirmed()
            elif kind == ord("C") and not is_executed and body in (PREPARED, DEALLOCATED):
                # Of an Execute, it says nothing of a Query that was sent behind it.
                self._renamed(prepares=body == PREPARED)
        elif kind == ord("G"):
            self._begins_copy()
        elif kind == ord("E"):
            return self._failed(body)
        elif kind == ord("Z"):
            self._ready(body)
        elif kind == ord("S") and body:  # no value of these is too long to be read
            check_reported(body)
        return None

    def _head(self) -> str:
        while self.owed and self.owed[0].kind == "c":
            self.owed.popleft()
        return self.owed[0].kind if self.owed else ""

    def _is_head(self, kind: str, *, taken: bool) -> bool:
        is_it = self._head() == kind
        if is_it and taken:
            self.owed.popleft()
        return is_it

    def _settled(self, kind: str) -> None:
        if self._head() != kind:
            raise Malformed("the server answers what nobody asked")
        owed = self.owed.popleft()
        if kind == "2" or owed.name is None:
            return
        self._confirmed = owed.number
        self._keep(owed.name, lambda one: one.number >= owed.number)

    def _renamed(self, *, prepares: bool) -> None:
        """A PREPARE or DEALLOCATE has succeeded; of a simple query, the next of its own."""
        if self._head() != "Z" or not self.owed[0].renamings:
            return
        one = self.owed[0].renamings.popleft()
        if one.prepares is not prepares:
            raise Malformed("the server answers what nobody asked")
        self._confirmed = one.number
        self._keep(one.name, lambda each: each.number >= one.number)

    def _never_ran(self, owed: Owed) -> None:
        """What it was to prepare is not there."""
        while owed.renamings:
            one = owed.renamings.popleft()
            if one.prepares:
                self._keep(one.name, lambda each, gone=one.number: each.number != gone)

    def _forget_confirmed(self) -> None:
        for name in list(self._names):
            self._keep(name, lambda one: one.number > self._confirmed)

    def _keep(self, name: bytes, wanted: object) -> None:
        before = self._names.get(name, ())
        kept = [one for one in before if wanted(one)]  # type: ignore[operator]
        self._kept -= sum(one.effects.size for one in before)
        self._kept += sum(one.effects.size for one in kept)
        if kept:
            self._names[name] = kept
        else:
            self._names.pop(name, None)

    def _begins_copy(self) -> None:
        """Every Sync up to the end of the rows is ignored, those on their way, too."""
        if not self._head():
            raise Malformed("the server asks for rows that nobody offers")
        first = self.owed.popleft()
        self.is_copying = True
        while self.is_copying and self.owed and self.owed[0].kind in "Sc":
            if self.owed.popleft().kind == "c":
                self.is_copying = False
            else:
                self._cycle -= 1
        self.owed.appendleft(first)

    def _failed(self, body: bytes) -> Decided | None:
        if self._head() == "Z":
            self._never_ran(self.owed[0])  # the server says of each statement that it is done
        elif self._head() in _EXTENDED:
            while self.owed and self.owed[0].kind != "S":
                owed = self.owed.popleft()
                if owed.kind == "1" and owed.name is not None:
                    number = owed.number
                    self._keep(owed.name, lambda one, gone=number: one.number != gone)
                elif owed.kind == "Z":
                    self._never_ran(owed)
                    self._cycle -= 1
            self.is_skipping = not self.owed
        self.is_copying = False
        return self._denied.pop(denied_word(body), None)

    def _ready(self, body: bytes) -> None:
        if self._head() not in ("Z", "S"):
            raise Malformed("the server answers what nobody asked")
        self.owed.popleft()
        self._done += 1
        if body == b"I" and self._portals:
            last, portals = self._done - 1, self._portals
            for name in [name for name, each in portals.items() if each.cycle < last]:
                self._kept -= portals.pop(name).size
