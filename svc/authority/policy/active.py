"""The policy this Authority decides by, and how a new one replaces it.

A text is put in force only after the guard's child process lived through it,
wherever it came from: an operator, or the store.  What cannot be put in force
leaves the one before in its place (G-POL-02).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from attrs import define, field
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from svc.authority.policy.entity_rows import EntitiesOfRows
from svc.authority.state.cluster import ClusterState
from svc.errors import SvcError
from svc.interfaces.kinds import ServedKind
from svc.model.policy.version import PolicyVersion
from svc.policy.claims import log_claims, refuse_claims
from svc.policy.compile import compile_policy
from svc.policy.engine import CompiledPolicy
from svc.policy.refusals import MAY_PASS_LATER
from svc.policy.vocabulary import Vocabulary
from svc.runtime.threads import InThread

_Row = TypeVar("_Row")
_log = Logger(namespace="svc_authority")


@define
class PolicyInForce:
    """Holds the engine and swaps it whole.

    Attributes:
        guard: Refuses a text that must not be parsed in this process.
        in_force: Given each new engine with the text it was made from, before it
            decides here; awaited, so that what is slow in it can run elsewhere.
    """

    cluster: str
    vocabulary: Vocabulary
    kinds: Mapping[str, ServedKind]
    guard: Callable[[str], Awaitable[object]]
    in_thread: InThread
    in_force: Callable[[CompiledPolicy, str], Awaitable[object]]
    engine: CompiledPolicy | None = None
    _text: str = ""
    _begins_again: bool = False
    _stuck: int = 0
    _absent: frozenset[str] = frozenset()
    _refused: tuple[bytes, int] | None = None
    _lock: DeferredLock = field(factory=DeferredLock)
    _entities: EntitiesOfRows = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._entities = EntitiesOfRows(self.kinds, self.cluster)

    async def follow(self, facts: ClusterState) -> None:
        """Update the engine to these facts; called after each change and in the reload pass.

        Never raises for a text or for entities that are refused: that is logged,
        and the engine stays.  Facts older than those in force change nothing.
        """
        await self._lock.acquire()
        try:
            await self._follow(facts)
        finally:
            self._lock.release()

    def begin_again(self) -> None:
        """Accept the version of the next facts even if it is older: the store was restored."""
        self._begins_again = True

    async def trial(self, text: str, facts: ClusterState, version: int) -> CompiledPolicy:
        """An engine of *text* as it would be in force; nothing changes.

        Raises:
            SvcError: the guard or the compiler refuses the text, or a policy of it reads
                a fact that nothing enforces.
        """
        await self.guard(text)
        made = await self._compiled(text, facts, version)
        refuse_claims(made.claims)
        return made

    async def _follow(self, facts: ClusterState) -> None:
        """The stored text over these facts, or, where it is refused, the one in force over them."""
        stored, engine = facts.policy, self.engine
        if stored is None:
            return
        is_newer = engine is None or self._begins_again or stored.version > engine.version
        if is_newer and await self._new_text(stored, facts):
            return
        if engine is not None and self._differ(engine, facts):
            await self._new_facts(engine, facts)

    def _differ(self, engine: CompiledPolicy, facts: ClusterState) -> bool:
        """Whether the policy looks at other things than these facts hold.

        Rows that are absent, because they are not what was signed for, come and
        go without a revision.
        """
        if facts.revision > max(engine.revision, self._stuck):
            return True
        return facts.revision >= engine.revision and facts.absent != self._absent

    async def _new_text(self, stored: PolicyVersion, facts: ClusterState) -> bool:
        if self._refused == (stored.sha256, facts.revision):
            return False
        try:
            await self.guard(stored.text)
            made = await self._compiled(stored.text, facts, stored.version)
        except SvcError as refusal:
            self._keep_away(stored, facts, refusal)
            return False
        await self._take(made, stored.text, facts)
        if self._begins_again:
            self._stuck, self._begins_again = 0, False
        _log.info("policy in force", version=made.version, sha256=stored.sha256.hex())
        log_claims(made.version, made.claims)
        self._refused = None
        return True

    async def _new_facts(self, engine: CompiledPolicy, facts: ClusterState) -> None:
        try:
            made = await self._with_entities(engine, facts)
        except SvcError as refusal:
            self._stuck, self._absent = facts.revision, facts.absent
            _log.error(
                "the new policy entities were refused; the previous ones stay active",
                version=engine.version,
                revision=facts.revision,
                reason=refusal.reason,
                text=refusal.text,
            )
            return
        await self._take(made, self._text, facts)

    async def _take(self, made: CompiledPolicy, text: str, facts: ClusterState) -> None:
        await self.in_force(made, text)
        self.engine, self._text, self._absent = made, text, facts.absent

    def _keep_away(self, stored: PolicyVersion, facts: ClusterState, refusal: SvcError) -> None:
        """Stay with the engine there is; what the next pass may find otherwise is tried again.

        The refusal's text is not logged: it quotes the policy.
        """
        if refusal.reason not in MAY_PASS_LATER:
            self._refused = (stored.sha256, facts.revision)
        _log.error(
            "a stored policy was refused; the previous one stays active",
            version=stored.version,
            revision=facts.revision,
            reason=refusal.reason,
        )

    async def _with_entities(self, engine: CompiledPolicy, facts: ClusterState) -> CompiledPolicy:
        entities = self._entities.of(facts)
        return await self.in_thread(lambda: engine.with_entities(entities, facts.revision))

    async def _compiled(self, text: str, facts: ClusterState, version: int) -> CompiledPolicy:
        entities = self._entities.of(facts)
        return await self.in_thread(
            lambda: compile_policy(text, self.vocabulary, entities, version, facts.revision)
        )
