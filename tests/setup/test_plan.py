"""What ``svc init`` takes and refuses, and the texts it would write."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.config import read_settings
from svc.errors import UsageError
from svc.setup.plan import ALL, ISSUING_CA_DAYS, InitPlan, InitPorts, PlannedResource, read_served
from svc.setup.texts import FIRST_POLICY, configurations

PIN = "ab" * 32
NUMBERS = {"limits.drain_secs": 1, "audit.head_after_secs": 0.25, "limits.handshake_secs": 3}
PLAN = InitPlan(Path("/srv/gate"), "gate.example.org")
_PATHS = st.text(
    st.characters(blacklist_categories=("C", "Z"), blacklist_characters="/?#\\\0"), min_size=1
).filter(lambda text: text not in (".", ".."))


class PlanTests(SynchronousTestCase):
    """Plans are judged before anything is written."""

    def refused(self, *words: str, **changes: object) -> None:
        refusal = self.assertRaises(UsageError, evolve(PLAN, **changes).check)  # type: ignore[arg-type]
        for word in words:
            self.assertIn(word, refusal.text)

    def test_good_plan_passes(self) -> None:
        """Nothing is refused of what the options give by default."""
        PLAN.check()
        evolve(PLAN, roles=(ALL,)).check()

    def test_cluster_must_be_a_dns_name(self) -> None:
        """The option is named, and an example given."""
        self.refused("--cluster", "gate.example.org", cluster="Not A Name")

    def test_path_that_no_store_url_can_hold_is_refused(self) -> None:
        """A directory with a question mark in its path could not be written into the URL."""
        self.refused("DIR", directory=Path("/srv/what?"))
        self.refused("DIR", directory=Path("/srv/two\nlines"))

    def test_one_process_stands_alone(self) -> None:
        """all with another role would be two gateways in one directory."""
        self.refused("--for all", roles=(ALL, "proxy"))
        self.refused("--host", roles=(ALL,), host="192.0.2.1")

    def test_node_of_another_machine_needs_the_pin(self) -> None:
        """Without keys here, what to trust must be said, and only then."""
        self.refused("--ca-pin", roles=("proxy",))
        evolve(PLAN, roles=("proxy",), ca_pin=PIN).check()
        self.refused("--ca-pin", ca_pin=PIN)
        self.refused("--root-key-to", roles=("proxy",), ca_pin=PIN, root_key=Path("/k"))
        days = {ISSUING_CA_DAYS: 7}
        self.refused("--issuing-ca-days", roles=("proxy",), ca_pin=PIN, numbers=days)

    def test_names_are_checked(self) -> None:
        """A public name is a DNS name or an address."""
        self.refused("--public-name", public_names=("no_good name",))
        evolve(PLAN, public_names=("gate.example.org", "192.0.2.1", "::1")).check()

    def test_resource_twice_is_refused(self) -> None:
        """Two targets of one name could not both be dialed."""
        one = PlannedResource("db1", "tcp", "10.0.0.5:5432")
        self.refused("--resource", served=(one, one))
        page = PlannedResource("svc-page", "web", "10.0.0.5:80")
        self.refused("--resource", served=(page,), has_page=True)

    def test_page_needs_both(self) -> None:
        """The page is for a Connector on the Authority's own machine."""
        self.refused("--page", has_page=True, roles=("authority", "proxy"))
        self.refused("--page", has_page=True, roles=("connector",), ca_pin=PIN)

    def test_resources_are_read(self) -> None:
        """An id, a kind and an address; every other form names the option."""
        self.assertEqual(read_served("db1=tcp:[::1]:5"), PlannedResource("db1", "tcp", "[::1]:5"))
        for text in ("db1", "db1=tcp", "=tcp:h:1", "db1=tcp:h", "db1=tcp:h:0", "D=tcp:h:1"):
            self.assertIn("--resource", self.assertRaises(UsageError, read_served, text).text)

    def test_kind_must_exist(self) -> None:
        """A kind that the gateway would not start with is refused with those there are."""
        for text in ("web=http:10.0.0.5:80", "web=https:h:1"):
            told = self.assertRaises(UsageError, read_served, text).text
            self.assertIn("--resource web: unknown kind http", told)
            self.assertIn("the kinds are kube, postgres, ssh, tcp, web", told)


class TextTests(SynchronousTestCase):
    """Every configuration is one that its role takes."""

    def test_another_kind_is_put_in_use(self) -> None:
        """A kind of a drop-in is named in every configuration; ssh and tcp need not be."""
        desk, db = (
            PlannedResource("desk", "vnc", "10.0.0.6:5900"),
            PlannedResource("db1", "tcp", "10.0.0.5:5432"),
        )
        for roles in (PLAN.roles, (ALL,)):
            plan = evolve(PLAN, served=(desk, db), roles=roles)
            for name, text in configurations(plan, PIN).items():
                found = read_settings(text, name.removesuffix(".toml"))
                self.assertEqual(found.plugins.kinds, ("ssh", "tcp", "vnc"), name)
            plain = configurations(evolve(plan, served=(db,)), PIN)
            self.assertFalse(any("[plugins]" in text for text in plain.values()))

    def test_page(self) -> None:
        """The Authority serves the browser page where the Connector finds it, with who asks."""
        for roles in (PLAN.roles, (ALL,)):
            plan = evolve(PLAN, has_page=True, roles=roles)
            plan.check()
            read = {
                name: read_settings(text, name.removesuffix(".toml"))
                for name, text in configurations(plan, PIN).items()
            }
            (served,) = read["all.toml" if plan.is_one else "connector.toml"].connector.resources
            page = read["all.toml" if plan.is_one else "authority.toml"].page
            self.assertEqual((served.id, served.kind), (page.resource, "web"))
            self.assertEqual(served.address, str(page.listen))
            self.assertIs(served.table["identity"], True)
            for one in read.values():
                self.assertIn("web", one.plugins.kinds)

    def test_separate_roles(self) -> None:
        """The Proxy reaches the Authority, the Connector the Proxy, at the ports that listen."""
        plan = evolve(PLAN, served=(PlannedResource("db1", "tcp", "10.0.0.5:5432"),))
        texts = configurations(plan, PIN)
        authority = read_settings(texts["authority.toml"], "authority")
        proxy = read_settings(texts["proxy.toml"], "proxy")
        connector = read_settings(texts["connector.toml"], "connector")
        self.assertEqual(proxy.endpoints.authority, (authority.endpoints.control_listen,))
        self.assertEqual(proxy.join.authority, authority.endpoints.join_listen)
        assert proxy.endpoints.public_listen is not None
        self.assertEqual(connector.endpoints.proxy[0].port, proxy.endpoints.public_listen.port)
        self.assertEqual({proxy.join.ca_pin, connector.join.ca_pin}, {PIN})
        self.assertEqual([one.id for one in connector.connector.resources], ["db1"])
        states = {authority.state_dir, proxy.state_dir, connector.state_dir}
        self.assertEqual(len(states), 3)

    def test_without_public_names_nothing_but_loopback_listens(self) -> None:
        """By default nobody beyond this machine reaches anything."""
        for plan in (PLAN, evolve(PLAN, roles=(ALL,))):
            for name, text in configurations(plan, PIN).items():
                ends = read_settings(text, name.removesuffix(".toml")).endpoints
                for each in ("public", "control", "join", "renewal"):
                    if (address := getattr(ends, f"{each}_listen")) is not None:
                        self.assertTrue(address.is_loopback, f"{name}: {address}")

    def test_public_name_opens_the_proxy_and_nothing_else(self) -> None:
        """With a name that others know, the Proxy listens everywhere; the Authority does not."""
        plan = evolve(PLAN, roles=(ALL,), public_names=("gate.example.org",))
        ends = read_settings(configurations(plan, PIN)["all.toml"], ALL).endpoints
        assert ends.public_listen is not None and ends.control_listen is not None
        self.assertEqual(ends.public_listen.host, "0.0.0.0")
        self.assertTrue(ends.control_listen.is_loopback)

    def test_numbers_are_written(self) -> None:
        """What is not left to its default stands in the file."""
        plan = evolve(
            PLAN,
            roles=(ALL,),
            ports=InitPorts(public=9, control=1, join=2, renewal=3),
            numbers=NUMBERS,
        )
        read = read_settings(configurations(plan, PIN)["all.toml"], ALL)
        self.assertEqual((read.limits.drain_secs, read.limits.handshake_secs), (1, 3))
        self.assertEqual(read.audit.head_after_secs, 0.25)

    @settings(deadline=None, max_examples=50)
    @given(_PATHS)
    def test_any_path_that_passes_is_written_so_that_it_reads_back(self, name: str) -> None:
        """Quotes, emoji and all: what is written is what is read, or the plan was refused."""
        plan = evolve(PLAN, directory=Path("/srv") / name, roles=(ALL,))
        try:
            plan.check()
        except UsageError:
            return
        read = read_settings(configurations(plan, PIN)["all.toml"], ALL)
        self.assertEqual(read.state_dir, f"/srv/{name}/state")

    def test_first_policy_speaks_of_operators(self) -> None:
        """The starter policy can be set: it does not lock its own operator out."""
        self.assertIn("principal is Operator", FIRST_POLICY)
