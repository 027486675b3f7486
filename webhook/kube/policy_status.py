"""The status of policy objects: whether each is in force, whom it concerns, and which policy goes before it.

Written by the leader alone, slowly, and only where it differs from what is there. It must never be waited for
by an admission, never create an object, and never put a value of a policy into a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from webhook.kube.client import KubeClient, KubeError
from webhook.kube.lease import Leadership
from webhook.logs import fields, frames
from webhook.namespaces import Namespace
from webhook.policy import conflicts
from webhook.policy.conflicts import Conflict
from webhook.policy.model import API_VERSION, CLUSTER_KIND
from webhook.sources.cluster import CLUSTER_POLICIES, ClusterSource, Verdict
from webhook.spark import DRIVER, EXECUTOR

_log = logging.getLogger(__name__)

OPT_IN_LABEL, OPT_IN_VALUE = "sparkwebhook.dev/inject", "enabled"

_SETTLE = 0.3  # seconds to wait for more changes after the first one
_PAUSE = 0.05  # seconds between two writes
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0  # seconds before what failed is tried again
_MESSAGE = 1024  # characters
_CONFLICTS_NAMED = 3
_OUTDATED = (404, 409)  # deleted or changed meanwhile: the watch will tell, and then it is looked at again
_UNREACHABLE = (0, 401, 429)

Json = dict[str, Any]


class StatusWriter:
    """Keeps the status of the source's policies right while this replica leads."""

    def __init__(self, client: KubeClient, source: ClusterSource, leadership: Leadership) -> None:
        self._client = client
        self._source = source
        self._leadership = leadership
        self._changed = asyncio.Event()
        self._known: tuple[Any, Any] | None = None
        self._wanted: dict[str, Json] = {}
        self._problem = ""

    def wake(self) -> None:
        """Something changed: policies, namespaces, or who leads."""
        self._changed.set()

    async def run(self) -> None:
        """Write for ever."""
        wait = _FIRST_WAIT
        while True:
            await self._changed.wait()
            await asyncio.sleep(_SETTLE)
            self._changed.clear()
            if not self._leadership.holding:
                continue
            try:
                failed = await self._write_all()
            except Exception as error:
                _log.error(
                    "writing the policies' status failed, this is a bug",
                    extra=fields(traceback=frames(error)),
                )
                failed = True
            if failed:
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
                self._changed.set()
            else:
                wait = _FIRST_WAIT

    async def _write_all(self) -> bool:
        """Write what differs; True if anything could not be written."""
        verdicts, namespaces = self._source.verdicts, _opted_in(self._source.namespaces)
        judged = [(key, verdict.policy, verdict.errors) for key, verdict in verdicts.items()]
        # Annotations of namespaces change all the time, and mean nothing here.
        labels = {name: namespace.labels for name, namespace in namespaces.items()}
        if self._known != (judged, labels):
            self._wanted = await asyncio.to_thread(statuses, verdicts, namespaces)
            self._known = judged, labels
        problem = ""
        for item, status in await asyncio.to_thread(_different, self._wanted, verdicts):
            if not self._leadership.holding:
                break
            try:
                await self._client.apply(_path(item), _body(item, status))
            except KubeError as error:
                if error.status not in _OUTDATED:
                    problem = str(error)
                if error.status in _UNREACHABLE or error.status >= 500:
                    break  # the others would fare no better
            await asyncio.sleep(_PAUSE)
        if problem and problem != self._problem:
            _log.warning("can't write the status of policies", extra=fields(problem=problem))
        self._problem = problem
        return bool(problem)


def statuses(verdicts: Mapping[str, Verdict], namespaces: Mapping[str, Namespace]) -> dict[str, Json]:
    """The status of each policy, without times and generations, by the key of its verdict.

    `namespaces` are those that have opted in.
    """
    scopes = {
        key: conflicts.scope(verdict.policy, verdict.compiled, namespaces)
        for key, verdict in verdicts.items()
        if verdict.policy is not None and verdict.compiled is not None
    }
    found = conflicts.find(scopes.values())
    result: dict[str, Json] = {}
    for key, verdict in verdicts.items():
        if key not in scopes:
            rejected = _condition("Accepted", "False", "Invalid", "; ".join(verdict.errors))
            unknown = _condition("Conflicted", "Unknown", "Invalid", "not looked at: it is not in force")
            result[key] = {
                "namespaces": 0,
                "features": {DRIVER: 0, EXECUTOR: 0},
                "conditions": [rejected, unknown],
            }
            continue
        compiled = scopes[key].compiled
        result[key] = {
            "namespaces": len(scopes[key].namespaces),
            "features": {role: len(compiled.features[role]) for role in (DRIVER, EXECUTOR)},
            "conditions": [
                _condition("Accepted", "True", "Valid", "in force"),
                _conflicted(found.get(compiled.name, [])),
            ],
        }
    return result


def _opted_in(namespaces: Mapping[str, Namespace]) -> dict[str, Namespace]:
    return {
        name: namespace
        for name, namespace in namespaces.items()
        if namespace.labels.get(OPT_IN_LABEL) == OPT_IN_VALUE
    }


def _conflicted(found: list[Conflict]) -> Json:
    if not found:
        return _condition("Conflicted", "False", "NoConflict", "no other policy goes before it")
    said = [
        f"spec.{one.field} ({one.subject}): policy {one.winner} goes first"
        for one in found[:_CONFLICTS_NAMED]
    ]
    if len(found) > _CONFLICTS_NAMED:
        said.append(f"and {len(found) - _CONFLICTS_NAMED} more")
    return _condition("Conflicted", "True", "PolicyConflict", "; ".join(said))


def _condition(kind: str, status: str, reason: str, message: str) -> Json:
    if len(message) > _MESSAGE:
        message = message[: _MESSAGE - 3] + "..."
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _different(wanted: Mapping[str, Json], verdicts: Mapping[str, Verdict]) -> list[tuple[Json, Json]]:
    """The objects whose status is not as it should be, and what it should be."""
    found = []
    for key, undated in wanted.items():
        item = verdicts[key].item
        present = item.get("status") or {}
        status = _dated(undated, present, item["metadata"]["generation"])
        if not _says(present, status):
            found.append((item, status))
    return found


def _dated(wanted: Json, present: Json, generation: int) -> Json:
    """With generations, and with the times at which conditions last changed."""
    before = {condition.get("type"): condition for condition in present.get("conditions") or ()}
    conditions = []
    for condition in wanted["conditions"]:
        old = before.get(condition["type"], {})
        same = old.get("status") == condition["status"] and old.get("lastTransitionTime")
        time = old["lastTransitionTime"] if same else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions.append({**condition, "observedGeneration": generation, "lastTransitionTime": time})
    return {**wanted, "observedGeneration": generation, "conditions": conditions}


def _says(present: Json, wanted: Json) -> bool:
    """True if all of it is there; what others have added is theirs."""
    conditions = present.get("conditions") or ()
    plain = [key for key in wanted if key != "conditions"]
    return all(present.get(key) == wanted[key] for key in plain) and all(
        condition in conditions for condition in wanted["conditions"]
    )


def _path(item: Json) -> str:
    metadata = item["metadata"]
    if item["kind"] == CLUSTER_KIND:
        return f"{CLUSTER_POLICIES.path}/{metadata['name']}/status"
    return (
        f"/apis/{API_VERSION}/namespaces/{metadata['namespace']}/sparkpodpolicies/{metadata['name']}/status"
    )


def _body(item: Json, status: Json) -> Json:
    # Only for what was judged: the version also keeps it from another object that has got this name since
    # (of the status, an API server does not compare the uid).
    names = ("name", "namespace", "resourceVersion")
    metadata = {key: item["metadata"][key] for key in names if key in item["metadata"]}
    return {"apiVersion": API_VERSION, "kind": item["kind"], "metadata": metadata, "status": status}
