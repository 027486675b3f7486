"""Runs the benchmark and prints it; `--check` makes a missed target the exit code 1.

The servers run on one core and the client on another. In each round a scenario asks the echo, then the
webhook, so that whatever else the machine does falls on both. Two ratios to the echo are printed, of the
answers a second and of the server's CPU time for an answer; with a core of its own they agree. The lower one
must reach the target, so that a client that was held up cannot make the webhook look good.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from certs import throwaway
from tests.bench import load
from tests.bench.scenarios import Scenario, bodies, scenarios
from webhook.running import RunningServer

ROUNDS, SECONDS, WARM_UP = 5, 2.0, 0.5
_BUSY = 0.9  # of its core; below, something else than the server was the limit
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run against one server."""

    load: load.Load
    cpu_seconds: float

    @property
    def busy(self) -> float:
        """The part of its core that the server used, 0 to 1."""
        return self.cpu_seconds / self.load.seconds

    @property
    def cpu_per_answer(self) -> float:
        """Microseconds of CPU, user and system."""
        return 1e6 * self.cpu_seconds / self.load.answers


@dataclass(frozen=True, slots=True)
class Target:
    """A server to ask, and what to ask it."""

    process: int
    port: int
    requests: list[bytes]

    def measure(self, context: ssl.SSLContext) -> Measured:
        load.run(self.port, context, self.requests, WARM_UP)
        before = _cpu_seconds(self.process)
        result = load.run(self.port, context, self.requests, SECONDS)
        return Measured(result, _cpu_seconds(self.process) - before)


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _operations(answers: list[bytes], scenario: Scenario) -> float:
    """The operations of an answer, on average.

    Raises:
        SystemExit: an answer refuses its pod, or has a patch where none is expected, or none where one is.
    """
    counts = []
    for answer in answers:
        response = json.loads(answer)["response"]
        patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
        if not response["allowed"] or bool(patch) != scenario.changes:
            raise SystemExit(f"scenario {scenario.key}: unexpected answer: {answer.decode()}")
        counts.append(len(patch))
    return statistics.mean(counts)


@contextmanager
def _echo(made: throwaway.Throwaway) -> Iterator[tuple[int, int]]:
    command = [sys.executable, "-m", "tests.bench.echo", str(made.certificate), str(made.key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.terminate()


def _cores() -> tuple[int, int]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("only one core: servers and client share it, the figures mean little", file=sys.stderr)
    return cores[0], cores[-1]


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _spread(ratios: list[float]) -> str:
    return f"{_median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def main() -> int:
    """Runs all scenarios. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit code 1 when a target is missed")
    check = parser.parse_args().check

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    server_core, client_core = _cores()
    reviews = bodies()
    requests = [load.request("/mutate?timeout=5s", body) for body in reviews]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = throwaway.make(folder)
        context = ssl.create_default_context(cafile=str(made.ca))

        # processes inherit the core of who starts them
        os.sched_setaffinity(0, {server_core})
        echo_process, echo_port = stack.enter_context(_echo(made))
        pairs: list[tuple[Scenario, float, int, Target, Target]] = []
        for scenario in scenarios():
            policies = folder / scenario.key
            policies.mkdir()
            (policies / "policies.yaml").write_text(scenario.policies)
            options = ["--tls-cert", str(made.certificate), "--tls-key", str(made.key)]
            log = folder / f"{scenario.key}.log"
            server = stack.enter_context(RunningServer(policies, *options, log=log))
            answers = load.ask(server.port, context, requests)
            size = round(statistics.mean(map(len, answers)))
            echo = Target(echo_process, echo_port, [load.request(f"/{size}", body) for body in reviews])
            product = Target(server.process.pid, server.port, requests)
            pairs.append((scenario, _operations(answers, scenario), size, echo, product))
        os.sched_setaffinity(0, {client_core})

        runs: dict[str, list[tuple[Measured, Measured]]] = {pair[0].key: [] for pair in pairs}
        for number in range(ROUNDS):
            console.print(f"round {number + 1} of {ROUNDS}", style="dim")
            for scenario, _, _, echo, product in pairs:
                runs[scenario.key].append((echo.measure(context), product.measure(context)))

    console.print(
        f"{len(reviews)} recorded reviews of {round(statistics.mean(map(len, reviews)))} bytes on average, "
        f"8 connections, TLS keep-alive, {ROUNDS} rounds of {SECONDS:g} s; medians of the rounds"
    )
    table = Table(
        "scenario", "server", "admissions/s", "CPU µs", "CPU %", "p50 ms", "p99 ms", "ratios to the echo"
    )
    for column in table.columns[2:]:
        column.justify = "right"
    missed = starved = 0
    for scenario, operations, size, _, _ in pairs:
        of_rates = [product.load.rate / echo.load.rate for echo, product in runs[scenario.key]]
        of_cpu = [echo.cpu_per_answer / product.cpu_per_answer for echo, product in runs[scenario.key]]
        missed += min(_median(of_rates), _median(of_cpu)) < scenario.target
        starved += sum(run.busy < _BUSY for pair in runs[scenario.key] for run in pair)
        verdict = f"{_spread(of_rates)} rate\n{_spread(of_cpu)} CPU\ntarget {scenario.target:.2f}"
        words = f"({scenario.key}) {scenario.words}\n{operations:.1f} operations, {size} bytes"
        for first, name, measured, last in (
            (words, "webhook", [product for _, product in runs[scenario.key]], verdict),
            ("", "echo", [echo for echo, _ in runs[scenario.key]], ""),
        ):
            table.add_row(
                first,
                name,
                f"{_median(run.load.rate for run in measured):,.0f}",
                f"{_median(run.cpu_per_answer for run in measured):.0f}",
                f"{100 * _median(run.busy for run in measured):.0f}",
                f"{1000 * _median(run.load.quantile(0.5) for run in measured):.2f}",
                f"{1000 * _median(run.load.quantile(0.99) for run in measured):.2f}",
                last,
            )
        table.add_section()
    console.print(table)
    if starved:
        console.print(
            f"In {starved} of {2 * ROUNDS * len(pairs)} runs the server did not get {_BUSY:.0%} of its core: "
            "other processes were in the way. Their rates say little, the ratio of CPU time still does."
        )
    console.print("targets met" if not missed else f"{missed} of {len(pairs)} targets missed")
    return 1 if check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
