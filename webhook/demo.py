"""The demo: the real server, reviews as a real API server sent them, and what became of the pods.

It needs no cluster and asks exactly as kube-apiserver does: verified TLS, HTTP/1.1, the same headers. It must
never take a short cut into the core: what it shows came over the wire.
"""

from __future__ import annotations

import base64
import copy
import http.client
import json
import ssl
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

import jsonpatch
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from webhook import show
from webhook.reasons import Reason
from webhook.running import RunningServer, ServerFailed
from webhook.status import ANNOTATION

EXAMPLES = Path(str(resources.files("webhook") / "examples"))
_REVIEWS = ("driver", "executor")
_WIDTH = 100  # columns where there is no terminal to ask
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class DemoFailed(Exception):
    """An answer is not what it must be; the message says how."""


def run() -> int:
    """Shows it all on standard output. Returns 0, or 1 with a message if anything is not as it must be."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    try:
        with tempfile.TemporaryDirectory(prefix="spark-webhook-demo-") as folder:
            _show_all(console, Path(folder))
    except (DemoFailed, ServerFailed, OSError) as error:
        Console(stderr=True, soft_wrap=True).print(Text(f"demo: {error}", "bold red"))
        return 1
    return 0


def _show_all(console: Console, folder: Path) -> None:
    with RunningServer(EXAMPLES / "policies", log=folder / "log") as server:
        console.print(
            f"spark-webhook serve: HTTPS on port {server.port}, probes on port {server.probe_port}, ready"
        )
        for name in _REVIEWS:
            review = json.loads((EXAMPLES / f"{name}.json").read_text())
            before = review["request"]["object"]
            response = ask(server, review)
            after = patched(before, response)
            _show_pod(console, name, before, after, response.get("warnings", []))
        _show_traces(console, server)
    console.print("stopped by SIGTERM, exit code 0")


def ask(server: RunningServer, review: dict[str, Any]) -> dict[str, Any]:
    """The response to a review, asked for as an API server does.

    Raises:
        DemoFailed: it is not the answer to this review, or refuses the pod.
        OSError: there is no answer, or the certificate does not verify.
    """
    context = ssl.create_default_context(cafile=str(server.ca))
    body = json.dumps(review, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
    try:
        connection.putrequest("POST", "/mutate?timeout=5s", skip_accept_encoding=True)
        connection.putheader("User-Agent", "kube-apiserver-admission")
        connection.putheader("Content-Length", str(len(body)))
        connection.putheader("Accept", "application/json, */*")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Accept-Encoding", "gzip")
        connection.endheaders(body)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise DemoFailed(f"the server answered {answer.status}: {text}")
    response: dict[str, Any] = json.loads(text)["response"]
    if response["uid"] != review["request"]["uid"]:
        raise DemoFailed("the answer is for another review")
    if not response["allowed"]:
        raise DemoFailed(f"the pod is denied: {response['status']['message']}")
    return response


def patched(pod: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    """The pod as the API server would store it.

    Raises:
        DemoFailed: the answer changes nothing.
    """
    if response.get("patchType") != "JSONPatch":
        raise DemoFailed("the server did not change the pod")
    operations = json.loads(base64.b64decode(response["patch"]))
    result: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(pod), operations)
    return result


def _show_pod(
    console: Console, role: str, before: dict[str, Any], after: dict[str, Any], warnings: list[str]
) -> None:
    console.print()
    console.print(Rule(Text(f"{role} {after['metadata']['name']}", "bold"), align="left"))
    for line in show.diff(before, after, "as submitted", "as stored", context=1):
        # long ones, such as the status annotation, are in the table below
        console.print(Text(line, _STYLES.get(line[:1], "")), no_wrap=True, overflow="ellipsis")
    console.print()
    console.print(_status_table(after))
    for warning in warnings:
        console.print(Text(f"Warning: {warning}", "yellow"))


def _status_table(pod: dict[str, Any]) -> Table:
    status = json.loads(pod["metadata"]["annotations"][ANNOTATION])
    replaced = set(status.get("replaced", ()))
    table = Table("policy", "applied", "conflicts and other findings", expand=True, show_lines=True)
    for policy in status["policies"]:
        findings = [(what, Reason.REPLACED) for what in policy["applied"] if what in replaced]
        findings += [(item["what"], Reason(item["reason"])) for item in policy.get("skipped", ())]
        table.add_row(
            Text(policy["name"]),
            Text("\n".join(policy["applied"])),
            Text("\n".join(f"{what}: {reason}: {reason.explain}" for what, reason in findings)),
        )
    return table


def _show_traces(console: Console, server: RunningServer) -> None:
    console.print()
    console.print(Rule(Text("the log and the metrics say", "bold"), align="left"))
    for line in server.log_lines():
        entry = json.loads(line)
        if "uid" in entry:
            findings = ", ".join(f"{found['reason']} {found['subject']}" for found in entry["findings"])
            console.print(
                Text(
                    f"{entry['msg']}: {entry['role']} {entry['pod']}: {entry['reason']}, "
                    f"{entry['operations']} operations in {entry['duration_ms']} ms ({findings})"
                )
            )
    for line in server.probe("/metrics").splitlines():
        if line.startswith(("spark_webhook_admissions_total", "spark_webhook_findings_total")):
            console.print(Text(line))
