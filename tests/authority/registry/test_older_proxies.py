"""Proxies and Authorities of different versions: kinds that are lost on the way, and fields."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from svc.messages.control import (
    RegistrationVerdict,
    decode_connector_down,
    decode_connector_up,
    encode_connector_up,
)
from svc.messages.tunnel import decode_registration
from svc.model.signing import Signed
from svc.proto.gate.v1 import tunnel_pb2 as pb
from tests.authority.registry.support import IntakeTestCase
from tests.support.logged import logged
from tests.support.proof import proves


def without_kinds(registration: bytes) -> bytes:
    """What a Proxy that knows no kinds makes of a registration when it writes it anew."""
    form = pb.Registration.FromString(registration)
    for one in form.resources:
        one.ClearField("kind")
    return form.SerializeToString()


class OldProxyTests(IntakeTestCase):
    """A Proxy of before 0.8.19 between a Connector and this Authority."""

    def through(self, *, rewrites: bool) -> RegistrationVerdict:
        """What the Authority says to the Connector's registration, brought by a Proxy."""
        call, _, nonce = self.begin()
        data = self.signed(nonce)
        if rewrites:
            signed = decode_connector_up(data)
            assert isinstance(signed, Signed)
            data = encode_connector_up(
                Signed(without_kinds(signed.payload), signed.signature, signed.chain)
            )
        call.give(data)
        verdict = decode_connector_down(call.sent[1])
        assert isinstance(verdict, RegistrationVerdict)
        return verdict

    @proves("U-FLT-01")
    def test_kinds_stripped(self) -> None:
        """Every registration through it is refused, and the log says whose and why."""
        events = logged(self)
        said = self.through(rewrites=True)
        self.assertEqual((said.accepted, said.reason), (False, "bad_signature"))
        (told,) = [one for one in events if one.get("log_format") == "registration refused"]
        self.assertEqual((told["reason"], told["proxy"]), ("bad_signature", self.house.proxy.id))
        # One that signed none itself, so that nothing was rewritten, is told of the kinds.
        said = self.verdict(resources=self.declared(("db1", "")))
        self.assertEqual((said.accepted, said.reason), (False, "no_resource_kinds"))
        self.assertIn("carries no resource kinds", said.text)
        self.assertFalse(self.house.registrations.is_served(self.db1))

    @proves("U-FLT-02")
    def test_proxy_upgraded(self) -> None:
        """Once the Proxy brings what was signed, the Connector's next registration is accepted."""
        self.assertFalse(self.through(rewrites=True).accepted)
        self.assertTrue(self.through(rewrites=False).accepted)
        self.assertTrue(self.house.registrations.is_served(self.db1))


class OldAuthorityTests(IntakeTestCase):
    """An Authority that knows fewer fields than the Proxy and the Connector."""

    @proves("U-FLT-03")
    def test_fields_it_does_not_know(self) -> None:
        """It reads what it knows; what is brought on by it is what was signed, byte for byte."""
        _, _, nonce = self.begin()
        signed = decode_connector_up(self.signed(nonce))
        assert isinstance(signed, Signed)
        older = self.older()
        read = older.FromString(signed.payload)
        self.assertEqual([one.id for one in read.resources], ["db1"])
        self.assertEqual(read.node_id, self.house.connector.id)
        again = decode_registration(read.SerializeToString())
        self.assertEqual(again, decode_registration(signed.payload))
        self.assertEqual(again.resources[0].kind, "tcp")

    def older(self):  # type: ignore[no-untyped-def]
        """The message as a build knew it that had no kinds, and no field after the nonce."""
        form = FileDescriptorProto()
        pb.DESCRIPTOR.CopyToProto(form)
        del form.dependency[:], form.service[:]
        kept = {"Registration": {1, 2, 3, 4, 5}, "DeclaredResource": {1}}
        for message in list(form.message_type):
            if message.name not in kept:
                form.message_type.remove(message)
                continue
            for field in list(message.field):
                if field.number not in kept[message.name]:
                    message.field.remove(field)
        pool = DescriptorPool()
        pool.Add(form)
        return GetMessageClass(pool.FindMessageTypeByName("gate.v1.Registration"))
