"""Asks the security key (FIDO2) that is plugged into this machine.

The relying party and the origin come from Authority, and so does the judgement:
nothing is trusted here.  Calls block until the key answers or its time is over;
no connection is open meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Event, Timer
from typing import Any

from attrs import define
from fido2.client import (
    ClientDataCollector,
    ClientError,
    Fido2Client,
    UserInteraction,
)
from fido2.ctap import CtapDevice, CtapError
from fido2.webauthn import (
    AuthenticatorSelectionCriteria,
    CollectedClientData,
    PublicKeyCredentialCreationOptions,
    PublicKeyCredentialParameters,
    PublicKeyCredentialRequestOptions,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from svc.errors import Fault, SvcError
from svc.join.account import Ask, KeyRequest, SecurityKey
from svc.proto.gate.v1 import account_pb2 as pb

KEY_SECS = 60.0
_ALGORITHMS = (-7, -8)


class SecurityKeyFailed(SvcError):
    """No security key, or one that did not answer as asked."""

    fault = Fault.PRECONDITION
    reason = "security_key"


class _Origin(ClientDataCollector):
    """Names the origin that Authority asks for; a page of a browser can have no such one."""

    def __init__(self, wanted: KeyRequest, type: CollectedClientData.TYPE) -> None:
        self._wanted, self._type = wanted, type

    def collect_client_data(self, options: Any) -> tuple[CollectedClientData, str]:
        """Called by the client of the key."""
        wanted = self._wanted
        data = CollectedClientData.create(self._type, wanted.challenge, wanted.origin)
        return data, wanted.rp_id


class _Holder(UserInteraction):
    def __init__(self, show: Callable[[str], object], ask: Ask) -> None:
        self._show, self._ask = show, ask

    def prompt_up(self) -> None:
        self._show("touch your security key")

    def request_pin(self, permissions: Any, rp_id: str | None) -> str | None:
        return self._ask("PIN of the security key", True)

    def request_uv(self, permissions: Any, rp_id: str | None) -> bool:
        self._show("verify yourself at your security key")
        return True


@define
class PluggedKeys:
    """The keys of this machine.

    Attributes:
        devices: Lists those that are plugged in.
    """

    devices: Callable[[], Iterable[CtapDevice]]
    show: Callable[[str], object]
    ask: Ask

    async def register(self, wanted: KeyRequest) -> pb.KeyRegistration:
        """Make a credential that the key finds by itself.

        Raises:
            SecurityKeyFailed: there is no key, or it refused.
        """
        options = PublicKeyCredentialCreationOptions(
            rp=PublicKeyCredentialRpEntity(id=wanted.rp_id, name=wanted.rp_id),
            user=PublicKeyCredentialUserEntity(
                id=wanted.user_handle, name=wanted.user, display_name=wanted.user
            ),
            challenge=wanted.challenge,
            pub_key_cred_params=[
                PublicKeyCredentialParameters(type=PublicKeyCredentialType.PUBLIC_KEY, alg=alg)
                for alg in _ALGORITHMS
            ],
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
        )
        client = self._client(wanted, CollectedClientData.TYPE.CREATE)
        made = _within(lambda event: client.make_credential(options, event))
        return pb.KeyRegistration(
            client_data=bytes(made.response.client_data),
            attestation=bytes(made.response.attestation_object),
        )

    async def sign(self, wanted: KeyRequest) -> pb.KeyAssertion:
        """Have the key sign with the credential of this person.

        Raises:
            SecurityKeyFailed: there is no key, or it has none for this person.
        """
        options = PublicKeyCredentialRequestOptions(
            challenge=wanted.challenge,
            rp_id=wanted.rp_id,
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        client = self._client(wanted, CollectedClientData.TYPE.GET)
        selection = _within(lambda event: client.get_assertion(options, event))
        listed = selection.get_assertions()
        # Without names there is one account only on the key.
        at = _index_of(wanted.user, [one.user for one in listed])
        made = selection.get_response(at)
        return pb.KeyAssertion(
            credential_id=made.raw_id,
            client_data=bytes(made.response.client_data),
            authenticator_data=bytes(made.response.authenticator_data),
            signature=made.response.signature,
        )

    def _client(self, wanted: KeyRequest, type: CollectedClientData.TYPE) -> Fido2Client:
        devices = list(self.devices())
        if not devices:
            raise SecurityKeyFailed("no security key is plugged in, or this user may not open it")
        if len(devices) > 1:
            raise SecurityKeyFailed("several security keys are plugged in; leave one")
        try:
            return Fido2Client(
                devices[0], _Origin(wanted, type), user_interaction=_Holder(self.show, self.ask)
            )
        except (ClientError, CtapError, OSError, ValueError) as failed:
            raise SecurityKeyFailed(f"the security key does not answer: {failed}") from None


def _index_of(name: str, users: Sequence[Any]) -> int:
    for at, user in enumerate(users):
        if user is not None and user.get("name") == name:
            return at
    return 0


def _within(ask: Callable[[Event], Any]) -> Any:
    event = Event()
    timer = Timer(KEY_SECS, event.set)
    timer.daemon = True
    timer.start()
    try:
        return ask(event)
    except (ClientError, CtapError, OSError, ValueError) as failed:
        raise SecurityKeyFailed(f"the security key did not answer as asked: {failed}") from None
    finally:
        timer.cancel()


def usb_security_key(show: Callable[[str], object], ask: Ask) -> SecurityKey:
    """The key that is plugged in."""
    from fido2.hid import CtapHidDevice

    keys = PluggedKeys(CtapHidDevice.list_devices, show, ask)
    return SecurityKey(keys.register, keys.sign)
