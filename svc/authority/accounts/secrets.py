"""Seals and opens what people without a provider sign in by."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from svc.model.cluster.account import PersonSecret, SecretKind
from svc.model.ids import Entropy, random_id
from svc.pki.credentials import CredentialPlace, CredentialSeal

SECRETS_TABLE = "person_secrets"
_DEVICES = "devices"
MAX_DEVICE_BYTES = 128


@frozen
class OpenedSecret:
    """A row, and what is sealed in it."""

    row: PersonSecret
    value: bytes = field(repr=False)


@define
class SealedSecrets:
    """Seals them for the place where they are kept."""

    cluster: str
    seal: CredentialSeal
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)

    def new(
        self,
        person_id: str,
        kind: SecretKind,
        value: bytes,
        *,
        counter: int | None = None,
        expires_at: float | None = None,
    ) -> PersonSecret:
        """A row that holds *value*."""
        id = random_id(self.entropy)
        return PersonSecret(
            id=id,
            person_id=person_id,
            kind=kind,
            sealed=self.seal.seal(value, self._place(id, person_id, kind)),
            added_at=self.now(),
            counter=counter,
            expires_at=expires_at,
        )

    def open(self, row: PersonSecret) -> OpenedSecret:
        """What a row holds.

        Raises:
            SealBroken: it is another row's, or was sealed by another key.
        """
        place = self._place(row.id, row.person_id, row.kind)
        return OpenedSecret(row, self.seal.open(row.sealed, place))

    def device(self, person_id: str) -> bytes:
        """What a machine shows later, to be known as one where this person has signed in."""
        return self.seal.seal(self.entropy(16), self._device_place(person_id))

    def device_id(self, device: bytes, person_id: str) -> str:
        """Which of a person's machines it is.

        Raises:
            SealBroken: of none of them.
        """
        return self.seal.open(device, self._device_place(person_id)).hex()

    def _place(self, id: str, person_id: str, kind: SecretKind) -> CredentialPlace:
        return CredentialPlace(
            cluster=self.cluster,
            table=SECRETS_TABLE,
            row=id,
            person_id=person_id,
            provider=kind.value,
        )

    def _device_place(self, person_id: str) -> CredentialPlace:
        return CredentialPlace(
            cluster=self.cluster, table=_DEVICES, row="", person_id=person_id, provider=""
        )
