"""The socket of a process, ``process.sock`` in its state directory: serves ``svc reload``."""

from __future__ import annotations

import os

from svc.compose.listeners.rpc import RpcListener, control_listener, rpc_server
from svc.compose.reload.reloading import Reloaded, Reloading
from svc.config import RoleSettings
from svc.errors import Denied, Fault, SvcError
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, unary
from svc.proto.gate.v1 import process_pb2 as pb
from svc.runtime.context import Runtime
from svc.runtime.state_directory import StateDirectory

SOCKET = "process.sock"


def process_listener(
    runtime: Runtime, settings: RoleSettings, state: StateDirectory, reloading: Reloading
) -> RpcListener:
    """The listener; only root and the process's own user may call (rule R19)."""
    own_uid = os.geteuid()

    def admit(_method: str, peer: Peer) -> None:
        if peer.uid not in (0, own_uid):
            raise Denied("only root and the role's own user may reload it", reason="not_the_owner")

    async def reload(request: pb.ReloadRequest, call: IRpcCall) -> pb.ReloadResponse:
        _check_meant(request, settings.role, reloading)
        return _response(await reloading.reload(call.peer.uid))

    service = RpcService("gate.v1.Process", {"Reload": unary(pb.ReloadRequest, reload)})
    server = rpc_server(runtime, settings, [service], admit, plaintext=True, listener="state_dir")
    return control_listener(runtime, settings, state.path, server, SOCKET, binds_early=False)


def _check_meant(request: pb.ReloadRequest, role: str, reloading: Reloading) -> None:
    """Refuse a command that means another process: that of another role, or file."""
    if request.role != role:
        raise SvcError(
            f"this process runs {role}, not {request.role}; reload it with --role {role}",
            reason="another_role",
            fault=Fault.PRECONDITION,
        )
    if os.path.realpath(request.config) != os.path.realpath(reloading.path):
        raise SvcError(
            f"the role that runs here reads {reloading.path}, not {request.config}; name the "
            "file that it reads with --config",
            reason="another_config",
            fault=Fault.PRECONDITION,
        )


def _response(done: Reloaded) -> pb.ReloadResponse:
    return pb.ReloadResponse(
        generation=done.generation,
        digest=done.digest,
        changed=done.changed,
        restart=done.restart,
    )
