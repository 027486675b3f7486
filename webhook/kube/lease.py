"""One leader among the replicas, by a Lease: https://kubernetes.io/docs/concepts/architecture/leases/

The rules are those of client-go's leaderelection: a lease counts as expired once its record has not changed
for its duration by the observer's own clock, so clocks need not agree. The election that comes with the
Python client writes local time as if it were UTC, can't hand over, and ends with the first connection that
breaks; hence this one. It must never hold up or end the process: who does not lead does without.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from webhook.kube.client import KubeClient, KubeError
from webhook.logs import fields, frames

_log = logging.getLogger(__name__)

_DURATION = 15  # seconds after which others may take over
_DEADLINE = 10.0  # seconds after which a leader that can't renew stops being one; less than the duration
_RENEW, _RETRY = 3.0, 1.5  # seconds between two attempts of the leader, and of the others
_CALL_SECONDS = _DEADLINE / 2
_RELEASE_SECONDS = 2.0  # the process is about to end
_CONFLICT = 409


class Leadership:
    """A candidate. `on_change` is told when it becomes leader, and when it no longer is."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_change: Callable[[bool], None],
    ) -> None:
        """`identity` is this process's own; the Lease has to be there."""
        self._client = client
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        self._identity = identity
        self._on_change = on_change
        self._until = 0.0
        self._told = False
        self._record: Any = None
        self._record_since = 0.0
        self._problem = ""

    @property
    def holding(self) -> bool:
        """True while it leads; false by itself when it could not renew in time."""
        return time.monotonic() < self._until

    async def run(self) -> None:
        """Try to become and to stay the leader, for ever."""
        while True:
            try:
                await self._attempt()
                self._problem = ""
            except KubeError as error:
                if error.status != _CONFLICT and str(error) != self._problem:
                    self._problem = str(error)
                    _log.warning("can't use the lease", extra=fields(problem=self._problem))
            except Exception as error:
                more = fields(traceback=frames(error))
                _log.error("trying to become the leader failed, this is a bug", extra=more)
            self._tell()
            await asyncio.sleep((_RENEW if self.holding else _RETRY) * random.uniform(0.8, 1.2))

    async def release(self) -> None:
        """Let another replica lead at once, after `run`. Nothing is raised if that can't be said."""
        if not self.holding:
            return
        self._until = 0.0
        try:
            lease = await self._client.call("GET", self._path, seconds=_RELEASE_SECONDS)
            if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
                await self._client.call("PUT", self._path, body=lease, seconds=_RELEASE_SECONDS)
        except KubeError as error:
            _log.warning("can't release the lease", extra=fields(problem=str(error)))
        self._tell()

    async def _attempt(self) -> None:
        lease = await self._client.call("GET", self._path, seconds=_CALL_SECONDS)
        seen = time.monotonic()
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        record = holder, spec.get("renewTime"), spec.get("leaseTransitions")
        if record != self._record:
            self._record, self._record_since = record, seen
        duration = spec.get("leaseDurationSeconds") or _DURATION
        if holder and holder != self._identity and seen < self._record_since + duration:
            self._until = 0.0
            return
        now = _now()
        wanted = {"holderIdentity": self._identity, "leaseDurationSeconds": _DURATION, "renewTime": now}
        if holder != self._identity:
            wanted["acquireTime"] = now
            wanted["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1
        # with the version that was read: of several that try, one succeeds
        body = {**lease, "spec": spec | wanted}
        await self._client.call("PUT", self._path, body=body, seconds=_CALL_SECONDS)
        # It may have lapsed in between: who was told then has to be told of the new start as well.
        self._tell()
        # Others count from when they see the renewal, which is after `seen`, and longer.
        self._until = seen + _DEADLINE

    def _tell(self) -> None:
        if self.holding != self._told:
            self._told = not self._told
            _log.info("leading" if self._told else "no longer leading", extra=fields(identity=self._identity))
            self._on_change(self._told)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
