"""What namespaced policies and pods' own requests may not ask for, unless the server is started to allow it.

These things reach beyond the pod: the node's files and namespaces, root, another account's rights. It works
on a role block as it is written, so that what is wrong elsewhere hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]

EXPLAINED = {
    "hostPath": "gives pods a part of their node's own file system",
    "privileged": "gives a container all rights on its node",
    "capabilities": "gives a container rights beyond those of every container",
    "hostNetwork": "gives pods their node's network",
    "hostPID": "shows pods all processes of their node",
    "hostIPC": "gives pods their node's inter-process communication",
    "runAsRoot": "lets a container run as root",
    "serviceAccount": "gives pods the rights of another service account",
}
"""Each guardrail by its name, and what the guarded thing does."""

_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
# Maps of the author's own keys: nothing in them is a field.
_FREE = frozenset({"labels", "annotations", "nodeSelector", "sparkConf", "properties", "volumeAttributes"})


def broken(block: Any) -> Iterator[tuple[str, Path]]:
    """Each guarded thing of a role block: the guardrail's name, and where it stands."""
    if not isinstance(block, dict):
        return
    yield from _account(block, ())
    template = block.get("podTemplate")
    if isinstance(template, dict):
        yield from _account(template.get("spec"), ("podTemplate", "spec"))
    waiting: list[tuple[Path, Any]] = [((), block)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            yield from _of_object(value, path)
            waiting += [((*path, key), inner) for key, inner in value.items() if key not in _FREE]
        elif isinstance(value, list):
            waiting += [((*path, at), inner) for at, inner in enumerate(value)]


def _account(value: Any, path: Path) -> Iterator[tuple[str, Path]]:
    if isinstance(value, dict):
        for key in ("serviceAccountName", "serviceAccount"):
            if key in value:
                yield "serviceAccount", (*path, key)


def _of_object(value: dict[Any, Any], path: Path) -> Iterator[tuple[str, Path]]:
    if isinstance(value.get("hostPath"), dict):
        yield "hostPath", (*path, "hostPath")
    for field in _HOST_NAMESPACES:
        if value.get(field) is True:
            yield field, (*path, field)
    for field in ("privileged", "hostProcess"):
        if value.get(field) is True:
            yield "privileged", (*path, field)
    if value.get("runAsUser") == 0 and value.get("runAsUser") is not False:
        yield "runAsRoot", (*path, "runAsUser")
    capabilities = value.get("capabilities")
    if isinstance(capabilities, dict) and capabilities.get("add"):
        yield "capabilities", (*path, "capabilities", "add")
