"""Log lines: one JSON object (or one line of text) per record, on stderr.

By the standard logging module, with fields in `extra=fields(...)`; the lines of admissions, thousands a
second, by `AdmissionLog`, which costs a part of a logging record. It must never print the text of an
exception's arguments: they may hold values of a pod, so a traceback is the type and the frames only.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

FORMATS = ("json", "text")
LEVELS = ("debug", "info", "warning", "error")
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


def set_up(log_format: str, level: str) -> None:
    """Send all log records of this process to stderr. `log_format` and `level` are of FORMATS and LEVELS."""
    handler = logging.StreamHandler(sys.stderr)
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
    """

    def __init__(self, log_format: str, level: str) -> None:
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
            sys.stderr.write("\n".join(self._lines))
            sys.stderr.flush()
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
