"""How an operator's command reaches the Authority from another machine: through a Proxy.

A command goes this way if it is told so (``--proxy``, ``--dir``), if the
configuration it is given is a person's (``client.toml``), or if it is given none
and the user of this machine has signed in.  It asks as that person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from attrs import evolve, frozen

from svc.cli import Globals
from svc.cli.calls import DEADLINE, asked, run, runtime, told
from svc.client.places import CLIENT_FILE, config_path, home
from svc.errors import SvcError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from svc.compose.administration import AdminConnection
    from svc.compose.person import PersonSide
    from svc.config import RoleSettings
    from svc.interfaces.rpc import IRpcChannel

    _Response = TypeVar("_Response", bound=Message)

_T = TypeVar("_T")

Connect = Callable[[Any], Coroutine[Any, Any, "AdminConnection"]]
"""``connect(reactor)``: a connection to the Authority."""

OPTIONS = "svc.cli.lane"
"""Where a click context's ``meta`` holds the :class:`LaneOptions`."""


@frozen
class LaneOptions:
    """What ``svc authority`` was told of the way to take.

    Attributes:
        proxies: Instead of those that the person's configuration names.
        directory: Of the identity to ask with; None: the person's own.
    """

    proxies: tuple[str, ...] = ()
    directory: Path | None = None


@frozen
class AdminLane:
    """The :class:`~svc.cli.calls.Admin` behind a Proxy, asked as a person.

    Attributes:
        settings: Of the person's side.
    """

    globals_: Globals
    settings: RoleSettings

    def __call__(
        self,
        method: str,
        request: Message,
        response_type: type[_Response],
        deadline: float = DEADLINE,
    ) -> _Response:
        """See :class:`~svc.cli.calls.Admin`."""
        return self.over_one(
            lambda channel: asked(channel, method, request, response_type, deadline)
        )

    def over_one(self, main: Callable[[IRpcChannel], Awaitable[_T]]) -> _T:
        """What *main* comes to over one connection; a process can do this once."""
        connect = self.connecting()

        async def connected(reactor: Any) -> _T:
            opened = await connect(reactor)
            try:
                return await main(opened.channel)
            finally:
                await opened.close()

        return run(connected)

    def connecting(self) -> Connect:
        """Gives a connection on the reactor that it is given; identity and files are read now.

        Raises:
            SvcError: there is no identity, or its certificate is not good now.
        """
        from svc.compose.administration import open_administration

        side = self._side()

        async def connect(reactor: Any) -> AdminConnection:
            try:
                return await open_administration(
                    evolve(side, runtime=evolve(side.runtime, reactor=reactor))
                )
            except SvcError as refusal:
                raise told(refusal) from None

        return connect

    def _side(self) -> PersonSide:
        """The person's side, with a certificate that is good now."""
        from svc.client.own_certificate import check_own
        from svc.compose.person import load_person

        side = load_person(runtime(self.globals_, None), self.settings, kinds=())
        check_own(side.identity)
        return side


def lane(context: click.Context) -> AdminLane | None:
    """The way through a Proxy, if this command is to take it; None: the one on this host.

    Raises:
        SvcError: it is to, and the person's configuration is missing or refused.
    """
    given = context.find_object(Globals)
    assert given is not None  # the outermost command makes it
    told: LaneOptions = context.meta.get(OPTIONS, LaneOptions())
    path = client_config(given, told)
    if path is None:
        return None
    from svc.compose.person import client_settings

    settings = client_settings(path, given.environ)
    if told.proxies:
        from svc.join.person import parse_addresses

        proxies = parse_addresses("--proxy", told.proxies)
        settings = evolve(settings, endpoints=evolve(settings.endpoints, proxy=proxies))
    return AdminLane(given, settings)


def client_config(given: Globals, told: LaneOptions) -> str | None:
    """The person's configuration to ask by; None where the Authority's own is to be read."""
    named = given.config or given.environ.get("SVC_CONFIG")
    if told.directory is not None:
        if given.config:
            raise click.UsageError("--dir and --config: give only one of them")
        return str(told.directory / CLIENT_FILE)
    if named and (Path(named).name == CLIENT_FILE or (given.config and told.proxies)):
        return named
    if named and not told.proxies:
        return None
    own = config_path(None, {"HOME": given.environ.get("HOME", "")})
    return own or (f"{home(given.environ)}/{CLIENT_FILE}" if told.proxies else None)
