"""What the machine writes without asking h2 is what h2 would write."""

from __future__ import annotations

from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RemoteSettingsChanged, ResponseReceived, StreamEnded, TrailersReceived
from h2.settings import SettingCodes
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.wire.headers import Headers, response_headers
from svc.wire.limits import WireLimits
from svc.wire.machine import Machine
from tests.support.examples import examples

NAMES = st.from_regex(r"x-[a-z]{1,12}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=3000)
FIELDS = st.lists(st.tuples(NAMES.map(str.encode), VALUES.map(str.encode)), max_size=8)


def plain(*, is_client: bool) -> H2Connection:
    """A stock end."""
    return H2Connection(H2Configuration(client_side=is_client, header_encoding=None))


def written(machine: Machine) -> bytes:
    return b"".join(machine.take_parts())


class MachineTests(SynchronousTestCase):
    def test_first_words(self) -> None:
        """A peer is told the limits of its own connection, and the windows agree."""
        for is_client in (False, True):
            for limits in (WireLimits(), WireLimits(max_streams=8, connection_window=1 << 20)):
                with self.subTest(is_client=is_client, streams=limits.max_streams):
                    machine, peer = (
                        Machine(limits, is_client=is_client),
                        plain(is_client=not is_client),
                    )
                    peer.initiate_connection()
                    peer.clear_outbound_data_buffer()
                    told = peer.receive_data(written(machine))
                    changed: Any = next(e for e in told if isinstance(e, RemoteSettingsChanged))
                    values = {code: one.new_value for code, one in changed.changed_settings.items()}
                    self.assertEqual(
                        values[SettingCodes.MAX_CONCURRENT_STREAMS], limits.max_streams
                    )
                    self.assertEqual(values[SettingCodes.MAX_FRAME_SIZE], limits.max_frame)
                    self.assertEqual(peer.outbound_flow_control_window, limits.connection_window)
                    window = machine.inbound_flow_control_window
                    self.assertEqual(window, limits.connection_window)

    def test_nothing_is_shared(self) -> None:
        """Two connections of the same kind have no state in common."""
        one, other = (Machine(WireLimits(), is_client=False) for _ in range(2))
        fixed = (int, str, bool, type(None), H2Configuration)
        common = [
            name
            for name, value in vars(one).items()
            if value is vars(other)[name] and not isinstance(value, fixed)
        ]
        self.assertEqual(common, [])

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=4))
    def test_answers(self, calls: list[tuple[Headers, Headers]]) -> None:
        """A stock client reads any answer as it was written, call after call."""
        machine, client = Machine(WireLimits(), is_client=False), plain(is_client=True)
        client.initiate_connection()
        self.act(machine, client.data_to_send())
        client.receive_data(written(machine))
        for initial, last in calls:
            stream_id = client.get_next_available_stream_id()
            head = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")]
            client.send_headers(stream_id, head, end_stream=True)
            self.act(machine, client.data_to_send())
            begin = response_headers(initial)
            machine.respond(stream_id, begin)
            machine.respond(stream_id, [(b"grpc-status", b"0"), *last], end_stream=True)
            self.assertFalse(machine.is_open(stream_id))
            told: list[Any] = client.receive_data(written(machine))
            self.assertEqual(
                [type(e) for e in told], [ResponseReceived, TrailersReceived, StreamEnded]
            )
            self.assertEqual(list(told[0].headers), begin)
            self.assertEqual(list(told[1].headers), [(b"grpc-status", b"0"), *last])

    def act(self, machine: Machine, data: bytes) -> None:
        """Let the machine take all of it."""
        machine.feed(data)
        while (frame := machine.take_frame()) is not None:
            machine.act_on(frame)
