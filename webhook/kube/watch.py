"""What there is of one kind of object in the cluster, kept up to date by list and watch.

It never forgets what it knows because the API server can't be reached, and never parses a big answer at
once: lists come in pages, so that admissions go on in between.
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from webhook.kube.client import JSON, METADATA, METADATA_LIST, KubeClient, KubeError
from webhook.logs import fields, frames

_log = logging.getLogger(__name__)

_PAGE = 50  # objects
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0  # seconds between two attempts
_SHORTEST_WATCH, _LONGEST_WATCH = 300, 600  # seconds after which the API server ends a watch
_SHORT = 1.0  # seconds; a watch that ends sooner tells that something is wrong
_SILENCE = 150.0  # seconds; an idle watch has a bookmark a minute
_GONE = 410
_BUSY = (0, 429, 503)  # the watch may go on from where it was

T = TypeVar("T")
Object = dict[str, Any]


class _Relist(Exception):
    """What was known can't be continued from: everything has to be listed again."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection of the API. `name` is for messages; `field_selector` restricts it."""

    name: str
    path: str
    metadata_only: bool = False
    field_selector: str = ""


class Watch(Generic[T]):
    """Keeps `objects` as the cluster has them.

    Attributes:
        objects: by `namespace/name`, or `name` without a namespace
        synced: everything was listed at least once
        problem: why the newest state can't be had, "" while it can
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        read: Callable[[Object], T],
        on_change: Callable[[], None],
        on_connection: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`read` makes what is kept of an object; `on_change` is called after each change, and on sync."""
        self.resource = resource
        self.objects: dict[str, T] = {}
        self.synced = False
        self.problem = "not listed yet"
        self._client = client
        self._read = read
        self._on_change = on_change
        self._on_connection = on_connection
        self._version = ""

    async def run(self) -> None:
        """List and watch for ever; whatever fails is tried again, less and less often."""
        wait = _FIRST_WAIT
        while True:
            try:
                if not self._version:
                    await self._list()
                started = time.monotonic()
                await self._watch()
                if time.monotonic() - started > _SHORT:
                    wait = _FIRST_WAIT
                    continue
                # An API server that goes down ends its watches at once: do not ask again in a tight loop.
            except _Relist:
                self._version = ""
            except KubeError as error:
                self._trouble(str(error))
                if error.status not in _BUSY:
                    self._version = ""
            except Exception as error:
                more = fields(resource=self.resource.name, traceback=frames(error))
                _log.error("watching failed, this is a bug", extra=more)
                self._trouble(f"failed with {type(error).__name__}, see the log")
                self._version = ""
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(wait * 2, _LONGEST_WAIT)

    def put(self, item: Object) -> None:
        """Take an object that was read in another way; the watch's next word on it replaces it."""
        self.objects[_key(item)] = self._read(item)
        self._on_change()

    async def _list(self) -> None:
        found: dict[str, T] = {}
        query = self._query(limit=str(_PAGE))
        accept = METADATA_LIST if self.resource.metadata_only else JSON
        while True:
            page = await self._client.call("GET", self.resource.path, query=query, accept=accept)
            for item in page["items"]:
                found[_key(item)] = self._read(item)
            metadata = page["metadata"]
            if not metadata.get("continue"):
                break
            query["continue"] = metadata["continue"]
            await asyncio.sleep(0)
        self._version = metadata["resourceVersion"]
        # What is gone is only known now: a list that broke off halfway must not remove anything.
        self.objects = found
        self.synced = True
        self._on_change()

    async def _watch(self) -> None:
        """Take events until the API server ends the stream."""
        query = self._query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=str(random.randint(_SHORTEST_WATCH, _LONGEST_WATCH)),
        )
        accept = METADATA if self.resource.metadata_only else JSON
        async with self._client.lines(
            self.resource.path, query=query, accept=accept, silence=_SILENCE
        ) as lines:
            self._well()
            async for line in lines:
                self._take(orjson.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            if item.get("code") == _GONE:
                raise _Relist
            raise KubeError(int(item.get("code") or 500), str(item.get("message")))
        self._version = item["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            self.objects.pop(_key(item), None)
        else:
            self.objects[_key(item)] = self._read(item)
        self._on_change()

    def _query(self, **query: str) -> dict[str, str]:
        if self.resource.field_selector:
            query["fieldSelector"] = self.resource.field_selector
        return query

    def _well(self) -> None:
        self._on_connection(True)
        if self.problem:
            self.problem = ""
            _log.info("watching", extra=fields(resource=self.resource.name, objects=len(self.objects)))

    def _trouble(self, problem: str) -> None:
        self._on_connection(False)
        if problem != self.problem:
            self.problem = problem
            _log.warning(
                "can't watch, trying again", extra=fields(resource=self.resource.name, problem=problem)
            )


def _key(item: Object) -> str:
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
