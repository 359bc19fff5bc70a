"""What the policies of a version say of themselves, also of one that was replaced since.

A decision is explained by the text that decided it: the same ``@id`` may say something else today.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from attrs import define, field

from svc.authority.state.cache import ClusterStateCache
from svc.errors import Denied
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.policy.annotations import annotated_reasons

MOST_REMEMBERED = 16
"""Versions; their reasons are no longer than the text of a policy."""


@define(kw_only=True)
class PolicyReasons:
    """Tells the ``@reason`` of each policy, by version and ``@id``."""

    state_cache: ClusterStateCache
    engine: Callable[[], IPolicyEngine | None]
    store: IReadOnlyStore
    _remembered: OrderedDict[int, Mapping[str, str]] = field(factory=OrderedDict, init=False)

    async def of(self, version: int) -> Mapping[str, str]:
        """What each policy of a version says of itself, by ``@id``.

        Empty if its text is not kept, or is not the one that was signed for (R8).

        Raises:
            StoreUnavailable: the store does not answer.
        """
        engine = self.engine()
        if engine is not None and engine.version == version:
            return engine.reasons()
        known = self._remembered.get(version)
        if known is None:
            text = await self._text(version)
            if not text:
                return {}  # not remembered: the row may be put back
            known = self._remembered[version] = annotated_reasons(text)
        self._remembered.move_to_end(version)
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return known

    async def _text(self, version: int) -> str:
        def look(tx: ITransaction) -> str:
            try:
                stored = self.state_cache.rows(tx).policy(version)
            except Denied:
                return ""  # the reload pass names it
            return "" if stored is None else stored.text

        return await self.store.read("the text of a policy", look)
