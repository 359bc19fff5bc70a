"""Reads the configuration of a running role again, and changes all or nothing.

The file is read and checked as at a start.  If every key that changed takes effect without a
restart, all of them do; otherwise none does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from attrs import define, field, frozen
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.compose.reload.keys import ReloadableKeys, changed_keys, is_reloadable
from svc.config import RoleSettings
from svc.config.reading import read_settings
from svc.config.source import read_file
from svc.errors import Fault, SvcError, Unavailable
from svc.runtime.services import AsyncService, BackgroundTasks, bounded
from svc.runtime.threads import InThread

RECORD_SECS = 5.0
"""How long the record of a reload may take; without it nothing is changed."""

_log = Logger(namespace="svc")


@frozen
class Reloaded:
    """What came of a reload.

    Attributes:
        generation: How often the configuration took effect in this process; 1 at the start.
        digest: SHA-256 of the file in force, in hex.
        changed: The keys that took effect now.
        restart: The keys that changed and need a restart; if there are any, nothing was changed.
    """

    generation: int
    digest: str
    changed: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


@define(slots=False, eq=False)
class Reloading(AsyncService):
    """See the module.

    Attributes:
        environ: Of the process; it overrides the file, as at the start.
        in_thread: Where the file is read.
    """

    keys: ReloadableKeys
    environ: Mapping[str, str]
    clock: IReactorTime
    in_thread: InThread
    path: Path = field(init=False)
    _generation: int = field(default=1, init=False)
    _digest: str = field(init=False)
    _turn: DeferredLock = field(factory=DeferredLock, init=False)
    _is_hung_up: bool = field(default=False, init=False)
    _tasks: BackgroundTasks = field(factory=BackgroundTasks, init=False)

    @path.default
    def _absolute(self) -> Path:
        # The process may change its working directory, as under twistd.
        return Path(self.keys.settings.path).absolute()

    @_digest.default
    def _at_start(self) -> str:
        with suppress(SvcError):
            return _digest_of(read_file(str(self.path)))
        return ""

    async def stop(self) -> None:
        """Let go of a reload that a signal began."""
        await self._tasks.stopService()

    def hang_up(self) -> None:
        """SIGHUP came: reload; what comes of it is in the log alone.

        One that comes while another waits for its turn is answered by that.
        """
        if not self._is_hung_up:
            self._is_hung_up = True
            self._tasks.spawn("reload", self._hung_up())

    async def reload(self, uid: int | None) -> Reloaded:
        """Read the file again and let it take effect.

        Args:
            uid: Of who asked; None: a signal.

        Raises:
            ConfigErrors: the file is refused; the configuration in force stays.
            SvcError: it could not be recorded, or part of the role has not begun; likewise.
        """
        await self._turn.acquire()
        try:
            return await self._reload(uid)
        finally:
            self._turn.release()

    async def _reload(self, uid: int | None) -> Reloaded:
        text = await self.in_thread(lambda: read_file(str(self.path)))
        before = self.keys.settings
        settings = await self.in_thread(lambda: self._read(text, before))
        changed = tuple(changed_keys(before, settings))
        restart = tuple(path for path in changed if not is_reloadable(path))
        if restart:
            _log.warn(
                "the configuration was not reloaded: keys that changed need a restart",
                keys=list(restart),
                reason="restart_required",
            )
            return Reloaded(self._generation, self._digest, restart=restart)
        absent = [path for path in changed if path not in self.keys.paths]
        if absent:
            raise Unavailable(
                f"the role has not begun what {', '.join(absent)} belongs to, as before it has "
                "joined; try again later, or restart the role",
                reason="not_begun",
            )
        applies = self.keys.prepared(changed, settings)
        digest = _digest_of(text)
        if changed:
            recording = self.keys.record(uid, changed, digest)
            await bounded(self.clock, RECORD_SECS, recording, "the record of the reload")
        # From here on nothing is awaited: the role never runs by half of a configuration.
        self._take(changed, settings, applies)
        self._digest = digest
        if changed:
            self._generation += 1
        _log.info(
            "configuration reloaded",
            generation=self._generation,
            sha256=digest,
            keys=list(changed),
        )
        return Reloaded(self._generation, digest, changed)

    def _take(
        self,
        changed: Collection[str],
        settings: RoleSettings,
        applies: Sequence[Callable[[], object]],
    ) -> None:
        """Have it take effect.

        Raises:
            SvcError: a part could not, which is a fault of ours; what was in force is so again.
        """
        before = self.keys.settings
        self.keys.take(settings)
        try:
            for apply in applies:
                apply()
        except Exception:
            _log.failure("a key of the configuration could not take effect")
            self._back(changed, before)
            raise SvcError(
                "a key could not take effect, so none did; see the role's log",
                reason="reload_failed",
                fault=Fault.INTERNAL,
            ) from None

    def _back(self, changed: Collection[str], before: RoleSettings) -> None:
        """Have what was in force take effect again, each part whatever becomes of the others."""
        self.keys.take(before)
        for prepare in self.keys.preparing(changed):
            try:
                prepare(before)()
            except Exception:
                _log.failure("a key of the configuration could not be put back")

    def _read(self, text: str, before: RoleSettings) -> RoleSettings:
        return read_settings(text, before.role, self.environ, before.path)

    async def _hung_up(self) -> None:
        await self._turn.acquire()
        self._is_hung_up = False  # What is written from now on is a further signal's.
        try:
            await self._reload(None)
        except SvcError as refused:
            _log.error(
                "the configuration was not reloaded", reason=refused.reason, text=refused.text
            )
        finally:
            self._turn.release()


def _digest_of(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()
