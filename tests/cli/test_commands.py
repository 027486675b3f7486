"""The command as a process: help, version, the demo, and what `serve` refuses to start with."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests import corpus
from webhook import demo
from webhook.running import RunningServer, ServerFailed

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"


def run(
    *arguments: str | Path, stdin: bytes | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `spark-webhook`, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "webhook", *map(str, arguments)],
        input=stdin.decode() if stdin else None,
        stdin=None if stdin else subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        # A server that starts after all would run for ever.
        timeout=60,
        env={**os.environ, **environment},
    )


def test_help_and_version() -> None:
    outcome = run("--help")
    assert outcome.returncode == 0
    assert all(command in outcome.stdout for command in ("serve", "render", "lint", "demo"))
    assert run("--version").stdout == f"spark-webhook, version {metadata.version('spark-pod-webhook')}\n"


def test_help_loads_neither_server_nor_model() -> None:
    code = (
        "import sys, webhook.cli; print(sorted({'aiohttp', 'pydantic', 'yaml', 'rich'} & set(sys.modules)))"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout == "[]\n"


def test_render_reads_a_pipe() -> None:
    body = corpus.body(corpus.review("3.5.9/cluster-full-driver"))
    outcome = run("render", "-p", EXAMPLES, "-o", "patch", "-", stdin=body)
    assert outcome.returncode == 0
    assert outcome.stdout.startswith('[\n  {"op": ')
    assert "Mutated" in outcome.stderr


# --- demo ------------------------------------------------------------------------------------------------


def test_the_demo_shows_both_pods_and_ends_well() -> None:
    outcome = run("demo")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    shown = outcome.stdout
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert "driver spark-pi-c15a47a22e92d345-driver" in shown
    assert "executor spark-pi-313963a22e930307-exec-1" in shown
    assert "-    example.com/cost-centre: cc-1234\n+    example.com/cost-centre: cc-7301\n" in shown
    assert "+    - name: LAKE_TOKEN\n" in shown
    assert shown.count("Warning: ConflictKept: policy platform-defaults spec.common.nodeSelector") == 2
    assert 'spark_webhook_admissions_total{reason="Mutated",role="driver"} 1.0' in shown
    assert shown.endswith("stopped by SIGTERM, exit code 0\n")


def test_the_demo_is_coloured_where_colour_is_wanted() -> None:
    coloured = run("demo", FORCE_COLOR="1", COLUMNS="100")
    assert "\x1b[32m+" in coloured.stdout
    plain = run("demo", FORCE_COLOR="1", NO_COLOR="1", COLUMNS="100")
    assert plain.returncode == 0
    assert "\x1b[32m" not in plain.stdout


def test_a_failing_demo_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "EXAMPLES", tmp_path)
    assert demo.run() == 1
    said = capsys.readouterr().err
    assert said.startswith("demo: spark-webhook serve ended with exit code 2 before it served")
    assert f"{tmp_path}/policies" in said


def test_the_demo_does_not_take_another_webhook_for_ours(tmp_path: Path) -> None:
    (tmp_path / "webhook").mkdir()
    (tmp_path / "webhook" / "__main__.py").write_text("raise SystemExit(3)")
    script = Path(sys.executable).with_name("spark-webhook")
    outcome = subprocess.run([script, "demo"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")


# --- serve -----------------------------------------------------------------------------------------------


def test_the_server_starts_with_every_option_and_stops(tmp_path: Path) -> None:
    options = ("--allow", "hostPath", "--log-format", "text", "--log-level", "info")
    with RunningServer(EXAMPLES, *options, log=tmp_path / "log") as server:
        assert "ok" in server.probe("/healthz").lower()
        assert server.ca is not None
        assert server.ca.read_text().startswith("-----BEGIN CERTIFICATE-----")
    assert server.process.returncode == 0
    assert not server.ca.exists()


def test_a_server_that_cannot_start_is_reported_with_its_words(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerFailed, match="does not exist"),
        RunningServer(tmp_path / "missing", log=tmp_path / "log"),
    ):
        pass


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--policies", "missing"],
        ["--policies", ".", "--port", "65536"],
        ["--policies", ".", "--tls-cert", "Makefile"],
        ["--policies", ".", "--tls-key", "Makefile"],
        ["--policies", ".", "--tls-cert", "missing", "--tls-key", "missing"],
        ["--policies", ".", "--tls-cert", "Makefile", "--tls-key", "Makefile"],
        ["--policies", ".", "--host", "203.0.113.1", "--port", "0", "--probe-port", "0"],
        ["--policies", ".", "--log-format", "xml"],
        ["--policies", ".", "--shutdown-delay", "-1"],
        ["--policies", ".", "--allow", "everything"],
    ],
    ids=" ".join,
)
def test_serve_refuses_what_it_cannot_use(arguments: list[str]) -> None:
    outcome = run("serve", *arguments)
    assert outcome.returncode == 2
    assert "Traceback" not in outcome.stderr
    assert "rror" in outcome.stderr or outcome.stderr.splitlines()[-1].startswith("spark-webhook serve: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "where are the policies?"),
        (["--kube", "--policies", EXAMPLES], "where are the policies?"),
        (["--policies", EXAMPLES, "--tls-secret", "it"], "go with --kube"),
        (["--policies", EXAMPLES, "--kubeconfig", __file__], "go with --kube"),
        (
            ["--kube", "--tls-secret", "it", "--tls-cert", __file__, "--tls-key", __file__],
            "either in --tls-secret or in",
        ),
        (["--kube", "--kubeconfig", "/nowhere"], "/nowhere"),
        (["--kube", "--kubeconfig", __file__], "spark-webhook serve: --kube: "),
    ],
)
def test_serve_says_how_it_is_meant(arguments: list[str | Path], said: str) -> None:
    outcome = run("serve", *arguments)
    assert outcome.returncode == 2
    assert said in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_without_a_cluster_serve_says_what_is_missing(tmp_path: Path) -> None:
    outcome = run("serve", "--kube", HOME=str(tmp_path), KUBECONFIG="", KUBERNETES_SERVICE_HOST="")
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("spark-webhook serve: --kube: ")
    assert len(outcome.stderr.splitlines()) == 1
