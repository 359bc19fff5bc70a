"""Fills a new ``svc all`` cluster: the plan's resources, a group, the first policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from svc.proto.gate.v1 import admin_pb2 as pb
from svc.setup.plan import CONNECTOR_NAME, GROUP, InitPlan
from svc.setup.texts import FIRST_POLICY


async def furnish(
    plan: InitPlan,
    asked: Callable[[str, Message, type[Any]], Awaitable[Any]],
    policy: str = FIRST_POLICY,
) -> None:
    """Put them there, each with its audit record."""
    for one in plan.resources:
        request = pb.AddResourceRequest(
            id=one.id, kind=one.kind, node=CONNECTOR_NAME, labels=dict(one.labels)
        )
        await asked("AddResource", request, pb.AddResourceResponse)
    await asked("AddGroup", pb.AddGroupRequest(name=GROUP), pb.AddGroupResponse)
    await asked("SetPolicy", pb.SetPolicyRequest(text=policy), pb.SetPolicyResponse)
