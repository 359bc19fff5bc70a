"""What the Kubernetes project's Python client sees: ``python FILE KUBECONFIG``, one JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from kubernetes import client, config, watch  # type: ignore[import-untyped]
from kubernetes.stream import stream  # type: ignore[import-untyped]

SPACE = "shop"
MAP = {"metadata": {"name": "python", "namespace": SPACE}, "data": {"sky": "blue"}}


def outcome(call: Callable[[], Any]) -> Any:
    """What it returned, or status and message of its refusal."""
    try:
        return call()
    except client.ApiException as refused:
        try:
            said = json.loads(refused.body)
        except (TypeError, ValueError):
            return [refused.status, str(refused.reason)]
        return [refused.status, said["reason"], said["message"]]


def watched(api: Any) -> list[str]:
    """What happens to one object, from the moment of a list on."""
    seen = []
    since = api.list_namespaced_config_map(SPACE).metadata.resource_version
    api.create_namespaced_config_map(SPACE, MAP)
    api.delete_namespaced_config_map("python", SPACE)
    watching = watch.Watch()
    events = watching.stream(
        api.list_namespaced_config_map, SPACE, resource_version=since, _request_timeout=20
    )
    for event in events:
        seen.append(f"{event['type']} {event['object'].metadata.name}")
        if event["type"] == "DELETED":
            watching.stop()
    return seen


def executed(api: Any) -> list[Any]:
    """What a command in a pod printed, and its status."""
    asked = stream(
        api.connect_get_namespaced_pod_exec,
        "front",
        SPACE,
        command=["sh", "-c", "read word; echo $word; exit 3"],
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
        _request_timeout=20,
    )
    asked.write_stdin("typed\n")
    asked.run_forever(timeout=20)
    return [asked.read_stdout(), asked.returncode]


def main(path: str) -> None:
    """Do it all."""
    config.load_kube_config(path)
    api = client.CoreV1Api()
    told = {
        "list": outcome(
            lambda: [one.metadata.name for one in api.list_namespaced_pod(SPACE).items]
        ),
        "watch": outcome(lambda: watched(api)),
        "exec": outcome(lambda: executed(api)),
        "denied": outcome(lambda: api.list_namespaced_secret(SPACE)),
        "by the cluster": outcome(lambda: api.list_namespaced_service(SPACE)),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
