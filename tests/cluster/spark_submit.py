"""One spark-submit of PyPI's pyspark as a process of this machine, unmodified.

It and its children end when the process that started it ends or stops it. It listens on 127.0.0.1 and sees
nothing of the machine's own Kubernetes, Spark or proxy configuration.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.cluster import tools

_KEEPER = Path(__file__).with_name("keeper.py")
_SECONDS = 120.0
# A JVM that starts fast is worth more here than one that runs fast.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Djava.io.tmpdir="


class SparkFailed(Exception):
    """Spark did not do what was waited for; the message has the end of its log."""


class SparkSubmit:
    """`options` is the command line after `spark-submit`; the directory is private and gets the log."""

    def __init__(
        self, version: str, options: Sequence[str], directory: Path, environment: Mapping[str, str]
    ) -> None:
        home = tools.pyspark(version)
        self._command: list[str | Path] = [sys.executable, _KEEPER, home / "bin" / "spark-submit", *options]
        self._directory = directory
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "JAVA_HOME": str(tools.java_home()),
            "JAVA_TOOL_OPTIONS": f"{_JAVA_OPTIONS}{directory}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **environment,
        }
        self._log = directory / "spark.log"
        self._deadline = 0.0

    def start(self) -> None:
        """From now on it has its time to do what it should."""
        self._deadline = time.monotonic() + _SECONDS
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until it has done its work. Raises SparkFailed."""
        try:
            code = self._process.wait(self._deadline - time.monotonic())
        except subprocess.TimeoutExpired:
            raise self.failed("did not end in time") from None
        finally:
            self.stop()
        if code:
            raise self.failed(f"ended with exit code {code}")

    def has_said(self, text: str) -> bool:
        """True if this is in its output so far."""
        return text in self._log.read_text(errors="replace")

    def check(self, state: str) -> None:
        """Raises SparkFailed if it ended or its time is over; the state says how far it came."""
        code = self._process.poll()
        if code is not None:
            raise self.failed(f"ended with exit code {code}; {state}")
        if time.monotonic() > self._deadline:
            raise self.failed(f"takes too long; {state}")

    def stop(self) -> None:
        """SIGTERM, and wait until it has cleaned up after itself."""
        self._process.communicate()
        # Of a Python application: the interpreter, which the JVM may leave behind.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def failed(self, what: str) -> SparkFailed:
        """An error with the end of the log."""
        log = self._log.read_text(errors="replace")
        return SparkFailed(f"spark-submit {what}; the end of its log:\n{log[-4000:]}")
