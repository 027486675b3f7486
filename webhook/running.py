"""`spark-webhook serve` as a process of its own, on free ports of this machine: for the demo and for tests.

It must never be used to serve a cluster, and never leaves a process behind.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

_READY_SECONDS, _STOP_SECONDS = 30.0, 30.0
_SERVING = re.compile(r"serving https on .*:(\d+), probes on .*:(\d+)$")


class ServerFailed(Exception):
    """The server did not start, or did not stop as it should; the message holds what it said."""


class RunningServer:
    """A context manager: on entry the server is ready; on exit it is stopped by SIGTERM.

    Attributes:
        ca: file of the certificate authority to trust; None with a certificate of the caller's
        port, probe_port: where it listens on 127.0.0.1
        log: the file that its log goes to
    """

    def __init__(self, policies: Path, *options: str, log: Path) -> None:
        """`options` are further ones of `serve`."""
        self.log = log
        self.ca: Path | None = None
        self.port = self.probe_port = 0
        # -P: a folder called webhook in the working directory is not ours
        self._command = [sys.executable, "-P", "-m", "webhook", "serve", "--policies", str(policies)]
        self._command += ["--host", "127.0.0.1", "--port", "0", "--probe-port", "0", "--shutdown-delay", "0"]
        self._command += options

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
        try:
            self._read_addresses()
            self._wait_until_ready()
        except BaseException:
            self.process.kill()
            self.process.communicate()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Raises ServerFailed if the server does not end with exit code 0 in time."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        if self.process.returncode != 0 and error is None:
            raise self._failed(f"ended with exit code {self.process.returncode} after SIGTERM")

    def probe(self, path: str) -> str:
        """The body that a path of the probe port answers. Raises OSError if it is none with status 200."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.probe_port}{path}", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    def log_lines(self) -> list[str]:
        """What it has logged so far."""
        return self.log.read_text().splitlines()

    def _read_addresses(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("CA certificate: "):
                self.ca = Path(line.removeprefix("CA certificate: ").strip())
            elif found := _SERVING.match(line):
                self.port, self.probe_port = int(found[1]), int(found[2])
                return
        raise self._failed(f"ended with exit code {self.process.wait()} before it served")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                self.probe("/readyz")
                return
            except OSError as error:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    said = error.read().decode() if isinstance(error, urllib.error.HTTPError) else str(error)
                    raise self._failed(f"does not become ready: {said.strip()}") from None
            time.sleep(0.05)

    def _failed(self, what: str) -> ServerFailed:
        said = "\n".join(self.log_lines()[-20:])
        return ServerFailed(f"spark-webhook serve {what}" + (f"; it said:\n{said}" if said else ""))
