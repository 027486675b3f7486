"""RFC 6902 operations and JSON Pointers: the only place that writes paths.

Operations are recorded while the pod is changed, never found by comparing afterwards. `remove` is only for
what Kubernetes derived from a field that is being set: nothing that an author wrote is taken away.
"""

from __future__ import annotations

from typing import Any

Operation = dict[str, Any]
"""{"op": "add" | "replace", "path": JSON Pointer, "value": any JSON}, or {"op": "remove", "path": ...}."""


def escape(segment: str) -> str:
    """One reference token of a JSON Pointer (RFC 6901 section 3: `~` first, then `/`)."""
    return segment.replace("~", "~0").replace("/", "~1")


class Patch:
    """The operations recorded so far, in the order in which they must be applied.

    A value is recorded by reference. Whoever records a list or map that was absent before may go on filling
    it without recording more: the recorded value is the very object that stands in the pod.
    """

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def add(self, path: str, value: Any) -> None:
        """Record an addition; a path ending in `/-` appends, one ending in an index inserts there."""
        self.operations.append({"op": "add", "path": path, "value": value})

    def replace(self, path: str, value: Any) -> None:
        """Record that what stands at the path becomes the value."""
        self.operations.append({"op": "replace", "path": path, "value": value})

    def remove(self, path: str) -> None:
        """Record that what stands at the path goes away."""
        self.operations.append({"op": "remove", "path": path})

    def amend(self, old: Any, new: Any) -> bool:
        """Let an operation that wrote this very object write another; False if none did."""
        for operation in self.operations:
            if operation.get("value") is old:
                operation["value"] = new
                return True
        return False
