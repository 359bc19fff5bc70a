"""Which changes of a policy are security-sensitive, by the parsed texts."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.model.policy.access import EntityUid
from svc.model.policy.requests import user
from svc.policy.sensitive import policy_changes
from tests.authority.house import POLICY, WORDS

ADA = "a" * 26
VIEW = 'permit (principal in Group::"dev", action == Action::"view", resource == Server::"h1");'


def found(
    before: str, after: str, break_glass: tuple[EntityUid, ...] = ()
) -> dict[str, tuple[str, ...]]:
    """Each changed policy, with how it changed and why that is sensitive."""
    return {
        one.policy: (one.change, *(why.value for why in one.sensitive))
        for one in policy_changes(before, after, WORDS, break_glass)
    }


class SensitiveTests(SynchronousTestCase):
    """One policy is added to, taken from or changed in a text."""

    def added(self, policy: str) -> tuple[str, ...]:
        return found(POLICY, f'{POLICY}@id("x") {policy}')["x"]

    def changed(self, before: str, after: str) -> tuple[str, ...]:
        return found(f'{POLICY}@id("x") {before}', f'{POLICY}@id("x") {after}')["x"]

    def test_what_is_added(self) -> None:
        """A permit within a scope is plain; one without, and one that administers, are not."""
        dev = 'permit (principal in Group::"dev"'
        view = f'{dev}, action == Action::"view"'
        for policy, words in (
            (VIEW, ()),
            (f"{view}, resource);", ("any_resource",)),
            (VIEW.replace('principal in Group::"dev"', "principal"), ("any_principal",)),
            (
                'permit (principal in Group::"dev", action, resource == Server::"h1");',
                ("any_action",),
            ),
            (
                "permit (principal, action, resource);",
                ("administrative", "any_principal", "any_action", "any_resource"),
            ),
            (
                f'{dev}, action == Action::"viewAudit", resource is Cluster);',
                ("administrative",),
            ),
            (
                f'{dev}, action in [Action::"view", Action::"administer"], resource);',
                ("administrative", "any_resource"),
            ),
            ("forbid (principal, action, resource is Server);", ()),
            ("forbid (principal, action, resource);", ("administrative",)),
        ):
            self.assertEqual(self.added(policy), ("added", *words), policy)

    def test_what_is_removed(self) -> None:
        """Taking away a forbid is sensitive; taking away a plain permit is not."""
        text = f'{POLICY}@id("x") {VIEW}'
        self.assertEqual(found(text, POLICY), {"x": ("removed",)})
        begin = POLICY.index('@id("nobody-production")')
        without = POLICY[:begin] + POLICY[POLICY.index(";", begin) + 1 :]
        self.assertEqual(
            found(POLICY, without), {"nobody-production": ("removed", "forbid_removed")}
        )

    def test_what_is_changed(self) -> None:
        """A scope that becomes wider, a forbid that is changed, a policy that turns around."""
        narrow = f'forbid (principal == User::"{ADA}", action == Action::"view", resource);'
        wide = VIEW.replace('resource == Server::"h1"', "resource")
        self.assertEqual(self.changed(VIEW, wide), ("changed", "any_resource"))
        self.assertEqual(self.changed(wide, VIEW), ("changed",))
        self.assertEqual(self.changed(wide, wide.replace('"dev"', '"ops"')), ("changed",))
        self.assertEqual(
            self.changed(narrow, narrow.replace("resource);", "resource is Server);")),
            ("changed", "forbid_changed"),
        )
        self.assertEqual(
            self.changed(narrow, narrow.replace("forbid", "permit")),
            ("changed", "forbid_changed", "any_resource"),
        )

    def test_no_change(self) -> None:
        """Comments, annotations, order and spaces are none."""
        text = f'// new\n@id("x") @reason("r")\n{VIEW.replace(", ", ",   ")}\n{POLICY}'
        self.assertEqual(found(f'{POLICY}@id("x") {VIEW}', text), {})

    def test_renamed(self) -> None:
        """Another id is a removal and an addition."""
        text = POLICY.replace("nobody-production", "nobody-prod")
        self.assertEqual(
            found(POLICY, text),
            {"nobody-production": ("removed", "forbid_removed"), "nobody-prod": ("added",)},
        )

    def test_break_glass(self) -> None:
        """Naming a break-glass principal counts in the scope and in a condition."""
        named = (user(ADA), EntityUid("Operator", "local:0"))
        scoped = VIEW.replace('in Group::"dev"', f'== User::"{ADA}"')
        inside = VIEW.replace(";", f' when {{ principal == User::"{ADA}" }};')
        for policy in (scoped, inside):
            text = f'{POLICY}@id("x") {policy}'
            self.assertEqual(found(POLICY, text, named)["x"], ("added", "break_glass"))
            self.assertEqual(found(POLICY, text)["x"], ("added",))

    def test_base_that_is_none(self) -> None:
        """Over a text that is refused, all is new."""
        changed = found("permit (", POLICY)
        self.assertEqual({one[0] for one in changed.values()}, {"added"})
        self.assertEqual(len(changed), 4)
