"""Log lines: one JSON object (or one line of text) per record, on stderr, by the standard logging module.

Fields travel in `extra=fields(...)`. It must never print the text of an exception's arguments: they may hold
values of a pod, so a traceback is the type and the frames only.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

FORMATS = ("json", "text")
LEVELS = ("debug", "info", "warning", "error")


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


class _Formatter(logging.Formatter):
    def __init__(self, render: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
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
    return f"{time} {level.upper():7} {message}{rest}" + (f"\n{trace}" if trace else "")


def _word(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    return orjson.dumps(value, default=str).decode()
