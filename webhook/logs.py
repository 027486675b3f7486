"""Log lines: one JSON object (or one line of text) per record, on stderr.

By the standard logging module, with fields in `extra=fields(...)`; the lines of admissions, thousands a
second, by `AdmissionLog`, which costs a part of a logging record. It must never print the text of an
exception's arguments: they may hold values of a pod, so a traceback is the type and the frames only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson

FORMATS = ("json", "text")
LEVELS = ("debug", "info", "warning", "error")
_STDERR = 2
_TEXTS_WAITING = 256  # for a reader of stderr that is slow
_WRITE_AFTER = 0.2  # seconds; a write of its own costs as much as the whole line


def fields(**values: Any) -> dict[str, Any]:
    """The `extra` of a log call: JSON-ready values that stand beside the message."""
    return {"fields": values}


def frames(error: BaseException) -> str:
    """Type and frames of an exception and of its causes, without their texts."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        parts.append(type(current).__name__ + "\n" + "".join(traceback.format_tb(current.__traceback__)))
        current = current.__cause__ or current.__context__
    return "caused by ".join(parts).rstrip()


class Stream:
    """stderr, written by a thread of its own: who does not read it stops the log, and not the server.

    Texts that it has no room for are dropped; their number is told once there is room again.
    """

    def __init__(self) -> None:
        self._texts: queue.Queue[str | None] = queue.Queue(_TEXTS_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Take whole lines; never waits."""
        try:
            if self._dropped:
                self._texts.put_nowait(f"{self._dropped} texts of this log were dropped: nobody read it\n")
                self._dropped = 0
            self._texts.put_nowait(text)
        except queue.Full:
            self._dropped += 1

    def flush(self) -> None:
        """For logging.StreamHandler; the thread flushes each text."""

    def close(self) -> None:
        """Write what waits, for a second at most."""
        with suppress(queue.Full):
            self._texts.put_nowait(None)
        self._thread.join(1.0)

    def _run(self) -> None:
        # Not by sys.stderr: its lock would be held while nobody reads, and the process could not end.
        while (text := self._texts.get()) is not None:
            rest = text.encode(errors="backslashreplace")
            with suppress(OSError):  # closed: there is nobody to tell
                while rest:
                    rest = rest[os.write(_STDERR, rest) :]


def set_up(log_format: str, level: str, stream: Stream) -> None:
    """Send all log records of this process there. `log_format` and `level` are of FORMATS and LEVELS."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Formatter(_json if log_format == "json" else _text))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("webhook").setLevel(level.upper())
    # Nothing prints these, and looking them up is half the cost of a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


class AdmissionLog:
    """The lines of admissions, in the form of all others, written together a few times a second.

    What is not written yet is lost if the process is killed; `flush` before the end.

    Args:
        log_format, level: of FORMATS and LEVELS
        stream: takes the lines
    """

    def __init__(self, log_format: str, level: str, stream: Stream) -> None:
        self._stream = stream
        self._render = _json if log_format == "json" else _text
        self._level = logging.getLevelNamesMapping()[level.upper()]
        self._lines: list[str] = []

    def enabled(self, level: int) -> bool:
        """False if a line of this level would not be written: then nothing needs to be made ready for it."""
        return level >= self._level

    def write(self, level: int, message: str, values: dict[str, Any]) -> None:
        """Add a line with these JSON-ready fields. Needs a running event loop."""
        if not self._lines:
            asyncio.get_running_loop().call_later(_WRITE_AFTER, self.flush)
        name = logging.getLevelName(level).lower()
        self._lines.append(self._render({"time": datetime.now(UTC), "level": name, "msg": message, **values}))

    def flush(self) -> None:
        """Write what there is."""
        if self._lines:
            self._lines.append("")
            self._stream.write("\n".join(self._lines))
            self._lines.clear()


class _Formatter(logging.Formatter):
    def __init__(self, render: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
        }
        line.update(getattr(record, "fields", ()))
        if record.exc_info and record.exc_info[1] is not None:
            line["traceback"] = frames(record.exc_info[1])
        return self._render(line)


def _json(line: dict[str, Any]) -> str:
    return orjson.dumps(line, default=str).decode()


def _text(line: dict[str, Any]) -> str:
    time, level, message = line.pop("time"), line.pop("level"), line.pop("msg")
    trace = line.pop("traceback", None)
    rest = "".join(f" {key}={_word(value)}" for key, value in line.items())
    return f"{time.isoformat()} {level.upper():7} {message}{rest}" + (f"\n{trace}" if trace else "")


def _word(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    return orjson.dumps(value, default=str).decode()
