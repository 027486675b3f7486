"""Policies from the cluster's own objects, and all its namespaces, kept up to date by watches.

An object that can't be used is left out, and everybody is told; it never holds up the others. It must never
check policies on the event loop, which is busy with admissions, and never forgets what it knows because the
API server is away.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.kube.client import METADATA, KubeClient, KubeError
from webhook.kube.watch import Object, Resource, Watch
from webhook.logs import fields, frames
from webhook.namespaces import Namespace
from webhook.policy.check import check_object
from webhook.policy.compiled import CompiledPolicy, compile_policy
from webhook.policy.model import API_VERSION, Policy
from webhook.policy.policy_set import PolicySet
from webhook.sources.reading import Reading

_log = logging.getLogger(__name__)

CLUSTER_POLICIES = Resource("clustersparkpodpolicies", f"/apis/{API_VERSION}/clustersparkpodpolicies")
POLICIES = Resource("sparkpodpolicies", f"/apis/{API_VERSION}/sparkpodpolicies")
NAMESPACES = Resource("namespaces", "/api/v1/namespaces", metadata_only=True)

# A burst of changes is taken together: wait this long (seconds) after the first one.
_SETTLE = 0.05
_LOOK_UP_SECONDS = 3.0
_NAMED_IN_THE_LOG = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """A policy object and what became of it.

    Attributes:
        item: as the API server has it, without managedFields
        policy: None if it is not accepted
        errors: why not, `path: message`, without any value
        compiled: what is in force of it
    """

    item: Object
    policy: Policy | None
    errors: tuple[str, ...]
    compiled: CompiledPolicy | None


class ClusterSource:
    """Hands a Reading to `on_reading`, on the event loop, after each change; the first one when all is known.

    Attributes:
        verdicts: of all policy objects, by `Kind/namespace/name` or `Kind/name`; replaced as a whole
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        allowed: frozenset[str],
        own_namespace: str,
        on_reading: Callable[[Reading], None],
        on_connection: Callable[[str, bool], None],
        on_verdicts: Callable[[], None] = lambda: None,
    ) -> None:
        self.verdicts: Mapping[str, Verdict] = {}
        self._client = client
        self._allowed = allowed
        self._own_namespace = own_namespace
        self._on_reading = on_reading
        self._on_verdicts = on_verdicts
        self._changed = asyncio.Event()
        self._current: PolicySet | None = None
        self._known_namespaces: dict[str, Namespace] = {}
        self._looking_up: dict[str, asyncio.Task[None]] = {}

        def watch(resource: Resource, read: Callable[[Object], Any]) -> Watch[Any]:
            return Watch(
                client, resource, read, self._changed.set, lambda up: on_connection(resource.name, up)
            )

        self._policies: list[Watch[Object]] = [
            watch(CLUSTER_POLICIES, _without_managed_fields),
            watch(POLICIES, _without_managed_fields),
        ]
        self._namespaces: Watch[Namespace] = watch(NAMESPACES, _namespace)
        self._watches: list[Watch[Any]] = [*self._policies, self._namespaces]

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        """All namespaces of the cluster, by name."""
        return self._namespaces.objects

    def problems(self) -> list[str]:
        """Why what is in force may be old, or what is still waited for."""
        return [f"{watch.resource.name}: {watch.problem}" for watch in self._watches if watch.problem]

    async def run(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as tasks:
            for watch in self._watches:
                tasks.create_task(watch.run())
            while True:
                await self._changed.wait()
                await asyncio.sleep(_SETTLE)
                self._changed.clear()
                try:
                    if all(watch.synced for watch in self._watches):
                        await self._take()
                except Exception as error:
                    # What is in force stays; the next change tries again.
                    more = fields(traceback=frames(error))
                    _log.error("taking over a change failed, this is a bug", extra=more)

    def look_up(self, namespace: str) -> None:
        """Put a namespace in force that was made a moment ago, or ask the API server for it.

        It is in force on return if the watch has told of it; else soon.
        """
        if self._current is not None and namespace in self._namespaces.objects:
            self._put_in_force()
        elif namespace not in self._looking_up:
            task = asyncio.create_task(self._read_namespace(namespace))
            self._looking_up[namespace] = task
            task.add_done_callback(lambda _: self._looking_up.pop(namespace))

    async def _read_namespace(self, name: str) -> None:
        try:
            item = await self._client.call(
                "GET", f"{NAMESPACES.path}/{name}", accept=METADATA, seconds=_LOOK_UP_SECONDS
            )
        except KubeError as error:
            _log.warning("can't read a namespace", extra=fields(namespace=name, problem=str(error)))
        else:
            if name not in self._namespaces.objects:
                self._namespaces.put(item)

    async def _take(self) -> None:
        """Put what the watches have in force."""
        items = {
            f"{item['kind']}/{key}": item for watch in self._policies for key, item in watch.objects.items()
        }
        known = self.verdicts
        new = [key for key, item in items.items() if key not in known or _differs(item, known[key].item)]
        gone = sorted(known.keys() - items.keys())
        judged = await asyncio.to_thread(self._judge_all, {key: items[key] for key in new})
        self.verdicts = {
            key: judged.get(key) or dataclasses.replace(known[key], item=items[key]) for key in sorted(items)
        }
        self._on_verdicts()
        if self._current is None or new or gone:
            self._tell(new, gone)
            self._put_in_force()
            # It lives long: the garbage collector need not walk it in the middle of requests.
            gc.freeze()
        elif self._namespaces.objects != self._known_namespaces:
            self._put_in_force()

    def _put_in_force(self) -> None:
        self._known_namespaces = dict(self._namespaces.objects)
        self._current = PolicySet(
            (verdict.compiled for verdict in self.verdicts.values() if verdict.compiled is not None),
            self._known_namespaces,
            self._own_namespace,
            allowed=self._allowed,
            all_namespaces=True,
            before=self._current,
        )
        problems = tuple(
            f"{key}: {error}" for key, verdict in self.verdicts.items() for error in verdict.errors
        )
        self._on_reading(Reading(self._current, problems, len(self.verdicts) - len(self._current)))

    def _judge_all(self, items: Mapping[str, Object]) -> dict[str, Verdict]:
        return {key: self._judge(key, item) for key, item in items.items()}

    def _judge(self, key: str, item: Object) -> Verdict:
        try:
            policy, errors = check_object(item, self._allowed)
            return Verdict(item, policy, errors, compile_policy(policy) if policy is not None else None)
        except Exception as error:
            # Whatever an object did to us, the others stay in force.
            more = fields(policy=key, traceback=frames(error))
            _log.error("checking a policy failed, this is a bug", extra=more)
            return Verdict(item, None, (f"checking it failed with {type(error).__name__}",), None)

    def _tell(self, new: list[str], gone: list[str]) -> None:
        if self._current is None or len(new) + len(gone) > _NAMED_IN_THE_LOG:
            _log.info("policies read", extra=fields(new=len(new), gone=len(gone)))
            return
        for key in new:
            accepted = self.verdicts[key].policy is not None
            _log.info("policy read", extra=fields(policy=key, accepted=accepted))
        for key in gone:
            _log.info("policy gone", extra=fields(policy=key))


def _differs(item: Object, judged: Object) -> bool:
    """Another spec: the generation counts changes of it, not those of status and labels."""
    one, other = item["metadata"], judged["metadata"]
    return (one["uid"], one["generation"]) != (other["uid"], other["generation"])


def _without_managed_fields(item: Object) -> Object:
    item["metadata"].pop("managedFields", None)
    return item


def _namespace(item: Object) -> Namespace:
    metadata = item["metadata"]
    return Namespace(metadata["name"], metadata.get("labels") or {}, metadata.get("annotations") or {})
