"""Policies that change while the server runs: what is asked, what the probe port says, what is logged."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http.policies import body, policy
from tests.http.wire import PATIENCE, Connection, request
from webhook.running import RunningServer

BROKEN = policy("broken", "A").replace("common:", "comon:")


@pytest.fixture
def running(policies: Path, tmp_path: Path) -> Iterator[RunningServer]:
    """A server whose policies set the variable ONE."""
    (policies / "policies.yaml").write_text(policy("one", "ONE"))
    with RunningServer(policies, log=tmp_path / "log") as server:
        yield server


def variables(server: RunningServer) -> set[str]:
    """Names of the variables that are injected now."""
    with Connection(server.port, server.ca) as connection:
        response = connection.ask(request(body())).json["response"]
    patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
    values = [operation["value"] for operation in patch]
    return {value["name"] for value in values if isinstance(value, dict) and "value" in value}


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def metric(server: RunningServer, name: str) -> float:
    lines = [line for line in server.probe("/metrics").splitlines() if line.startswith(f"{name} ")]
    return float(lines[0].split()[-1])


def test_a_changed_file_takes_effect(running: RunningServer, policies: Path) -> None:
    assert variables(running) == {"ONE"}
    (policies / "policies.yaml").write_text(policy("two", "TWO"))
    wait_for(lambda: variables(running) == {"TWO"})
    (policies / "more.yaml").write_text(policy("three", "THREE"))
    wait_for(lambda: variables(running) == {"TWO", "THREE"})
    assert metric(running, "spark_webhook_policies_loaded") == 2
    (policies / "policies.yaml").unlink()
    wait_for(lambda: variables(running) == {"THREE"})


def test_a_file_that_an_editor_puts_in_place(running: RunningServer, policies: Path) -> None:
    written = policies / ".policies.yaml.swp"
    written.write_text(policy("two", "TWO"))
    written.rename(policies / "policies.yaml")
    wait_for(lambda: variables(running) == {"TWO"})


def test_a_broken_file_keeps_the_last_good_set_until_it_is_mended(
    running: RunningServer, policies: Path
) -> None:
    (policies / "broken.yaml").write_text(BROKEN)
    wait_for(lambda: metric(running, "spark_webhook_policy_source_broken") == 1)
    assert variables(running) == {"ONE"}
    ready = running.probe("/readyz")
    assert ready.startswith("ready\n")
    assert "broken.yaml:4:8: spec.comon: " in ready
    assert "last good set" in ready
    logged = [json.loads(line) for line in running.log_lines()]
    assert next(line["problem"] for line in logged if line["level"] == "error") in ready
    assert metric(running, "spark_webhook_policies_loaded") == 1

    (policies / "broken.yaml").write_text(policy("mended", "MENDED"))
    wait_for(lambda: variables(running) == {"ONE", "MENDED"})
    assert metric(running, "spark_webhook_policy_source_broken") == 0
    assert "broken.yaml" not in running.probe("/readyz")


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"a: [", b"a: &a [*a]", b"", b"[" * 5000, b"- 1\n", b"!!python/object:os.system {}\n"],
    ids=["not UTF-8", "cut off", "recursive", "empty", "deep", "a list", "a tag"],
)
def test_whatever_a_file_holds_the_server_stays(
    running: RunningServer, policies: Path, content: bytes
) -> None:
    reloads = 'spark_webhook_policy_reloads_total{result="broken"}'
    (policies / "odd.yaml").write_bytes(content)
    (policies / "policies.yaml").write_text(policy("two", "TWO"))
    if content:
        wait_for(lambda: reloads in running.probe("/metrics"))
        assert variables(running) == {"ONE"}
        (policies / "odd.yaml").unlink()
    wait_for(lambda: variables(running) == {"TWO"})
    assert not any("this is a bug" in line for line in running.log_lines())


def test_the_links_of_a_config_map_volume(tmp_path: Path) -> None:
    policies = tmp_path / "mounted"
    policies.mkdir()

    def publish(version: str, text: str) -> None:
        (policies / version).mkdir()
        (policies / version / "policies.yaml").write_text(text)
        (policies / "..data_tmp").symlink_to(version)
        (policies / "..data_tmp").rename(policies / "..data")

    publish("..1", policy("one", "ONE"))
    (policies / "policies.yaml").symlink_to("..data/policies.yaml")
    with RunningServer(policies, log=tmp_path / "log") as server:
        assert variables(server) == {"ONE"}
        for number, version in ((2, "..2"), (3, "..3")):
            publish(version, policy("next", f"VERSION_{number}"))
            shutil.rmtree(policies / f"..{number - 1}")
            wait_for(lambda number=number: variables(server) == {f"VERSION_{number}"})  # type: ignore[misc]


def test_a_directory_that_goes_away_and_comes_back(running: RunningServer, policies: Path) -> None:
    shutil.rmtree(policies)
    wait_for(lambda: "the directory is gone" in running.probe("/readyz"))
    assert variables(running) == {"ONE"}
    policies.mkdir()
    (policies / "policies.yaml").write_text(policy("two", "TWO"))
    wait_for(lambda: variables(running) == {"TWO"})
    (policies / "policies.yaml").write_text(policy("three", "THREE"))
    wait_for(lambda: variables(running) == {"THREE"})


def test_namespaces_among_the_files_give_selectors_their_labels(
    running: RunningServer, policies: Path
) -> None:
    selecting = policy("two", "TWO").replace(
        "spec: {", "spec: {match: {namespaceSelector: {matchLabels: {tier: gold}}}, "
    )
    (policies / "policies.yaml").write_text(selecting)
    wait_for(lambda: variables(running) == set())
    (policies / "jobs.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: jobs, labels: {tier: gold}}\n"
    )
    wait_for(lambda: variables(running) == {"TWO"})
