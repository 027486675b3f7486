"""Policies from a directory of YAML files, watched for changes.

A set with any error is never put in force: the last good one stays. It must never do its reading and parsing
on the event loop, which is busy with admissions.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from watchfiles import awatch

from webhook.logs import fields, frames
from webhook.policy.load import Problem, load, read
from webhook.policy.policy_set import compile_policies
from webhook.sources.reading import Reading

_log = logging.getLogger(__name__)

# A burst of events (an editor's write and rename, a ConfigMap's swapped link) is one change: wait until
# nothing happened for STEP, but not longer than DEBOUNCE (milliseconds).
_STEP, _DEBOUNCE = 50, 400
# Besides, compare what is there this often (seconds): file systems without events, a directory that was
# removed and made anew, links whose target changed elsewhere.
_LOOK_AGAIN = 2.0
_TRIES = 5  # to read what does not change meanwhile

# What is there: name, inode, change time and size of each file (links followed); None: no directory.
_Fingerprint = tuple[tuple[str, int, int, int], ...] | None


class DirectorySource:
    """Reads `directory` and hands each new Reading to `on_reading`, on the event loop's thread."""

    def __init__(
        self,
        directory: Path,
        *,
        allowed: frozenset[str],
        own_namespace: str,
        on_reading: Callable[[Reading], None],
    ) -> None:
        self._directory = directory
        self._allowed = allowed
        self._own_namespace = own_namespace
        self._on_reading = on_reading
        self._seen: _Fingerprint = None

    async def reload(self) -> None:
        """Read everything now, valid or not."""
        for _ in range(_TRIES):
            before = await asyncio.to_thread(self._fingerprint)
            reading = await asyncio.to_thread(self._read)
            # A file that was written to meanwhile may have been read in half.
            if before == await asyncio.to_thread(self._fingerprint):
                break
        self._seen = before
        self._on_reading(reading)
        # What is in force now lives long: the garbage collector need not walk it in the middle of requests.
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    async def watch(self) -> None:
        """Reload after each change, for ever."""
        while True:
            if await asyncio.to_thread(self._directory.is_dir):
                await self._watch_this_one()
            await asyncio.sleep(_LOOK_AGAIN / 4)
            await self._reload_if_changed()

    async def _watch_this_one(self) -> None:
        """Watch the directory that is there now, until another or none is in its place."""
        identity = self._identity()
        events = awatch(
            self._directory,
            watch_filter=None,
            recursive=False,
            step=_STEP,
            debounce=_DEBOUNCE,
            rust_timeout=round(_LOOK_AGAIN * 1000),
            yield_on_timeout=True,
        )
        async with aclosing(events):
            try:
                async for _ in events:
                    await self._reload_if_changed()
                    if self._identity() != identity:
                        return
            except OSError as error:
                _log.warning("the policies' directory can't be watched", extra=fields(error=str(error)))

    async def _reload_if_changed(self) -> None:
        if self._seen != await asyncio.to_thread(self._fingerprint):
            await self.reload()

    def _read(self) -> Reading:
        if not self._directory.is_dir():
            return _broken(self._directory, "the directory is gone")
        try:
            documents, unreadable = read([self._directory])
            loaded = load(documents, allowed=self._allowed)
            problems = (*unreadable, *loaded.errors)
            if problems:
                return Reading(None, tuple(map(str, problems)))
            policies = compile_policies(
                loaded.policies, loaded.namespaces, own_namespace=self._own_namespace, allowed=self._allowed
            )
        except Exception as error:
            # Whatever a file did to us, what is in force stays in force.
            _log.error("reading the policies failed, this is a bug", extra=fields(traceback=frames(error)))
            return _broken(self._directory, f"reading failed with {type(error).__name__}, see the log")
        return Reading(policies, ())

    def _identity(self) -> tuple[int, int] | None:
        try:
            stat = self._directory.stat()
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    def _fingerprint(self) -> _Fingerprint:
        try:
            paths = sorted(self._directory.iterdir())
        except OSError:
            return None
        found = []
        for path in paths:
            try:
                stat = path.stat()
            except OSError:
                found.append((path.name, 0, 0, 0))
            else:
                found.append((path.name, stat.st_ino, stat.st_ctime_ns, stat.st_size))
        return tuple(found)


def _broken(directory: Path, message: str) -> Reading:
    return Reading(None, (str(Problem(file=str(directory), line=1, column=1, path="", message=message)),))
