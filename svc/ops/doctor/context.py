"""What a check is given: one role, where its files are, and how its store is read.

Everything that a check needs from outside is passed in here, the time included.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from attrs import define, field, frozen

from svc.config import Address, RoleSettings
from svc.errors import StoreUnavailable, SvcError
from svc.interfaces.copies import IStoreCopies
from svc.interfaces.store import ITransaction
from svc.model.cluster.target import Target
from svc.model.store.migration import MigrationStatus, StoreStanding
from svc.ops.doctor.probes import resolved
from svc.ops.store import StorePlace, legible, store_place
from svc.ops.verify.log import owner_of
from svc.pki.identity_store import IdentityStore
from svc.policy.vocabulary import Vocabulary

T = TypeVar("T")

NODES = ("authority", "proxy", "connector")
ROLES = (*NODES, "client")


AS_THE_ROLE = "run this as the user of the role, or as root"

_MOST_FAILED = 3
"""Looks at the store that may fail: each may have waited for a deadline."""


class NotChecked(Exception):
    """A check cannot be made here; ``str`` says why.  Its result is an info."""


@define
class StoreView:
    """The Authority's store, read only; a store that does not answer is asked once.

    Several checks read it, and each would wait for the same deadline.
    """

    settings: RoleSettings
    _place: StorePlace | None = field(default=None, init=False)
    _status: MigrationStatus | None = field(default=None, init=False)
    _refused: SvcError | None = field(default=None, init=False)
    _failed: int = field(default=0, init=False)
    _made: dict[str, Callable[[], Any]] = field(factory=dict, init=False)

    @property
    def place(self) -> StorePlace:
        """Where it is.  Raises SvcError: its drop-in cannot be loaded, or the URL is malformed."""
        if self._place is None:
            self._place = store_place(self.settings)
        return self._place

    def status(self) -> MigrationStatus:
        """How its schema compares with this build.

        Raises:
            SvcError: it cannot be read; the same one each time.
        """
        if self._refused is not None:
            raise self._refused
        if self._status is None:
            try:
                with legible("doctor"):
                    self._status = self.place.factory.migration_status(self.place.url)
            except SvcError as refused:
                self._refused = refused
                raise
        return self._status

    @property
    def files(self) -> tuple[Path, ...]:
        """Where its files are or would be, the first one first; none of a database server."""
        factory = self.place.factory
        if not IStoreCopies.providedBy(factory):
            return ()
        return tuple(Path(each) for each in factory.files(self.place.url))

    @property
    def is_missing(self) -> bool:
        """A store in a file that is not there; a database has told so by itself."""
        return bool(self.files) and not self.files[0].exists()

    def look(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        """Run *fn* over one snapshot.

        Raises:
            NotChecked: it cannot be read, or has another schema; checks of their own say so.
            StoreUnavailable: this very look failed.
        """
        try:
            status = self.status()
        except SvcError:
            raise NotChecked("the store cannot be read") from None
        if self.is_missing:
            raise NotChecked("the store does not exist")
        if status.standing is not StoreStanding.CURRENT:
            raise NotChecked("the store does not have the schema of this build")
        if self._failed >= _MOST_FAILED:
            raise NotChecked("the store failed several times")
        try:
            return self.place.look(desc, fn)
        except StoreUnavailable:
            self._failed += 1
            raise

    def once(self, what: str, make: Callable[[], T]) -> T:
        """What *make* gave or raised at its first call under this name: several checks use it."""
        if what not in self._made:
            try:
                made = make()
            except (NotChecked, SvcError) as refused:
                self._made[what] = partial(_again, refused)
            else:
                self._made[what] = lambda: made
        result: T = self._made[what]()
        return result


def _again(refused: Exception) -> NoReturn:
    raise refused


@frozen
class RunningProgram:
    """The program that runs, and where the services of this machine are described.

    Attributes:
        path: Of the program, with links resolved.
        unit_directories: Where systemd units are, the first one first.
    """

    path: Path
    unit_directories: tuple[Path, ...]


@frozen(kw_only=True)
class CheckContext:
    """One role to check.

    Attributes:
        role: ``authority``, ``proxy``, ``connector`` or ``client``; the settings may be of ``all``.
        state: The role's own directory.
        at: Seconds since the epoch.
        targets: Reads the targets of a Connector's configuration; may raise SvcError.
        vocabulary: The words of policies with the kinds that are enabled; may raise SvcError.
        resolve: The addresses of a name, within a deadline; none if it has none.
        is_within: Whether the role itself makes the checks: then nothing is dialed, because each
            time would be a line in the log of whoever was.
    """

    settings: RoleSettings
    role: str
    state: Path
    at: float
    program: RunningProgram
    targets: Callable[[RoleSettings], Mapping[str, Target]]
    vocabulary: Callable[[RoleSettings], Vocabulary]
    store: StoreView
    resolve: Callable[[str], tuple[str, ...]] = resolved
    is_within: bool = False

    @property
    def uid(self) -> int:
        """Who has to own the role's files."""
        return owner_of(self.state) if os.path.exists(self.state) else os.geteuid()

    @property
    def identities(self) -> IdentityStore:
        """The role's identity on the disk."""
        return IdentityStore(self.state, uid=self.uid)

    @property
    def base_state(self) -> Path:
        """The directory that the process has: of ``svc all`` the one around the roles' own."""
        configured = self.settings.state_dir
        return Path(configured) if configured else self.state

    def require_state(self) -> None:
        """Go on only where there is a state directory that can be looked into.

        Raises:
            NotChecked: there is none; a check of its own says so.
        """
        if not os.path.isdir(self.state):
            raise NotChecked("the state directory does not exist")
        if not os.access(self.state, os.R_OK | os.X_OK, effective_ids=True):
            raise NotChecked("the state directory cannot be read by whoever runs this")

    @property
    def was_never_started(self) -> bool:
        """Whether an Authority has what ``svc init`` makes, and nothing that its first start makes.

        Without its keys, or with an anchor, its store may be lost, and not only not made yet.
        """
        made = any(os.path.lexists(self.state / name) for name in ("anchor", "identity", "trust"))
        return self.role == "authority" and not made and self.keys_root.is_file()

    @property
    def keys_root(self) -> Path:
        """The root's certificate in an Authority's key directory."""
        return self.state / "keys" / "root.pem"

    @property
    def authorities(self) -> tuple[Address, ...]:
        """The Authorities that a Proxy dials, those for failover last."""
        ends = self.settings.endpoints
        return tuple(dict.fromkeys((*ends.authority, *ends.authority_failover)))


def own_state(settings: RoleSettings, role: str) -> Path:
    """The directory of *role*: ``svc all`` keeps one for each of its roles in ``state_dir``."""
    alone = Path(settings.state_dir)
    within = alone / role
    # What may not be looked at is not there: a check of its own tells.
    if settings.role == "all" or (os.path.isdir(within) and not os.path.isdir(alone / "identity")):
        return within
    return alone
