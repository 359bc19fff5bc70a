"""Conch's classes and words that the gate stands on; Conch has few types, so these have none."""

from __future__ import annotations

from typing import Any

from twisted.conch.ssh import channel, common, connection, keys, service, transport, userauth
from twisted.logger import Logger

SSHChannel: Any = channel.SSHChannel
SSHConnection: Any = connection.SSHConnection
SSHService: Any = service.SSHService
SSHUserAuthClient: Any = userauth.SSHUserAuthClient
SSHServerTransport: Any = transport.SSHServerTransport
SSHClientTransport: Any = transport.SSHClientTransport
SSHCiphers: Any = transport.SSHCiphers
Key: Any = keys.Key
USERAUTH_MESSAGES: Any = userauth.SSHUserAuthServer.protocolMessages

NS: Any = common.NS
getNS: Any = common.getNS  # noqa: N816 (it is known by this name)

QUIET: Any = Logger(namespace="svc_connector", observer=lambda event: None)  # type: ignore[arg-type]
"""In the place of Conch's loggers, which tell of each channel, and of data among it."""
