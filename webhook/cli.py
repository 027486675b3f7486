"""The command line: options in, exit codes out. All the work is elsewhere.

Nothing but click is imported before a command runs, so that `--help` and completion are instant.
"""
# ruff: noqa: PLC0415 - see above

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

import click

from webhook.policy import guardrails

if TYPE_CHECKING:
    from webhook.policy.load import Loaded
    from webhook.render import Form

_DENIED, _UNUSABLE = 1, 2
_PATHS = click.Path(exists=True, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PORT = click.IntRange(0, 65535)
_allow = click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=click.Choice(list(guardrails.EXPLAINED)),
    help="Lets namespaced policies use this guarded item. May be repeated.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spark-pod-webhook", prog_name="spark-webhook")
def main() -> None:
    """Applies feature steps to the pods of Apache Spark, whoever submits them."""


@main.command()
@click.option(
    "--policies",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of policies and Namespace documents; it is watched.",
)
@click.option("--kube", is_flag=True, help="Take policies and namespaces from the cluster's own objects.")
@click.option("--kubeconfig", type=_FILE, help="With --kube. Default: the pod's account, then $KUBECONFIG.")
@click.option(
    "--tls-secret",
    default="",
    metavar="NAME",
    help="With --kube: a Secret of the own namespace for the certificate; if it is empty, one is made.",
)
@click.option(
    "--service",
    default="spark-webhook",
    show_default=True,
    metavar="NAME",
    help="With --tls-secret: the Service that the certificate is for.",
)
@click.option(
    "--webhook-configuration",
    default="spark-webhook",
    show_default=True,
    metavar="NAME",
    help="With --tls-secret: the MutatingWebhookConfiguration whose caBundle is written.",
)
@click.option("--tls-cert", type=_FILE, help="Certificate chain, PEM; without one, a throwaway is made.")
@click.option("--tls-key", type=_FILE, help="Its private key, PEM.")
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8443, show_default=True, type=click.IntRange(0, 65535), help="HTTPS, /mutate."
)
@click.option(
    "--probe-port",
    default=8080,
    show_default=True,
    type=_PORT,
    help="Plain HTTP: /healthz, /readyz, /metrics.",
)
@_allow
@click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
@click.option(
    "--shutdown-delay",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="After SIGTERM, how long requests are still taken while /readyz already fails.",
)
@click.option("--reuse-port", is_flag=True, help="Share address and port with other such processes.")
def serve(
    *,
    policies: Path | None,
    kube: bool,
    kubeconfig: Path | None,
    tls_secret: str,
    service: str,
    webhook_configuration: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    host: str,
    port: int,
    probe_port: int,
    allowed: tuple[str, ...],
    log_format: str,
    log_level: str,
    shutdown_delay: float,
    reuse_port: bool,
) -> None:
    """Answers the API server's admission reviews over HTTPS, by policies of a directory or of the cluster."""
    if kube == (policies is not None):
        raise click.UsageError("where are the policies? give --policies DIRECTORY, or --kube")
    if (kubeconfig or tls_secret) and not kube:
        raise click.UsageError("--kubeconfig and --tls-secret go with --kube")
    if tls_secret and (tls_cert or tls_key):
        raise click.UsageError("the certificate is either in --tls-secret or in --tls-cert and --tls-key")
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together: give both, or none for a throwaway")
    from webhook.serve import KubeOptions, ServeOptions, run

    sys.exit(
        run(
            ServeOptions(
                policies=policies,
                kube=KubeOptions(kubeconfig, tls_secret, service, webhook_configuration) if kube else None,
                tls_cert=tls_cert,
                tls_key=tls_key,
                host=host,
                port=port,
                probe_port=probe_port,
                allowed=frozenset(allowed),
                log_format=log_format,
                log_level=log_level,
                shutdown_delay=shutdown_delay,
                reuse_port=reuse_port,
            )
        )
    )


def _labels(_context: click.Context, _option: click.Parameter, text: str | None) -> dict[str, str]:
    result = {}
    for pair in text.split(",") if text else []:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not key=value")
        result[key.strip()] = value.strip()
    return result


@main.command()
@click.option(
    "-p",
    "--policies",
    required=True,
    multiple=True,
    type=_PATHS,
    help="File or directory of policies and Namespace documents. May be repeated.",
)
@click.option("-n", "--namespace", help="Default: the review's own, else the pod's, else `default`.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "patch", "diff"]),
    default="yaml",
    show_default=True,
    help="The mutated pod, the RFC 6902 operations, or what changes.",
)
@click.option(
    "--namespace-labels",
    metavar="K=V,...",
    callback=_labels,
    help="Labels of the namespace, for selectors and placeholders.",
)
@_allow
@click.argument("file", type=click.File("rb"))
def render(
    *,
    policies: tuple[Path, ...],
    namespace: str | None,
    output: Form,
    namespace_labels: dict[str, str],
    allowed: tuple[str, ...],
    file: IO[bytes],
) -> None:
    """Shows what the webhook makes of a pod, with the server's code and without a server.

    FILE (- for standard input) holds a Pod or an AdmissionReview, YAML or JSON. Of several documents, or a
    List, every pod is rendered and everything else stays as it is.

    Exit code 0: the result is on standard output. 1: a pod is denied. 2: the input or a policy cannot be
    used. Everything that is said about it goes to standard error.
    """
    from webhook.render import Unusable, render_text

    loaded = _load(policies, allowed)
    if loaded.errors:
        for problem in loaded.errors:
            click.echo(problem, err=True)
        sys.exit(_UNUSABLE)
    name = getattr(file, "name", "<stdin>")
    try:
        result = render_text(file.read().decode(), loaded, namespace, namespace_labels)
    except UnicodeDecodeError:
        _fail(f"{name}: is not UTF-8 text: a Pod or an AdmissionReview in YAML or JSON is expected")
    except Unusable as error:
        _fail(f"{name}: {error}")
    for line in result.report():
        click.echo(line, err=True)
    if result.denied:
        sys.exit(_DENIED)
    for line in result.lines(output):
        click.secho(line, fg=_colour(line) if output == "diff" else None, color=_color())


@main.command()
@click.argument("policies", nargs=-1, required=True, type=_PATHS)
@_allow
def lint(policies: tuple[Path, ...], allowed: tuple[str, ...]) -> None:
    """Checks policies (files or directories) and names every error with its place.

    Errors and notes on what is legal but risky go to standard error, the summary to standard output.
    Exit code 0: no errors. 1: errors. 2: a path is missing.
    """
    loaded = _load(policies, allowed)
    for problem in loaded.errors:
        click.echo(problem, err=True)
    for note in loaded.notes:
        click.echo(dataclasses.replace(note, message=f"note: {note.message}"), err=True)
    counts = (
        _count(len(loaded.policies), "policy", "policies"),
        _count(len(loaded.namespaces), "namespace"),
        _count(len(loaded.errors), "error"),
        _count(len(loaded.notes), "note"),
    )
    click.echo(", ".join(counts))
    sys.exit(1 if loaded.errors else 0)


@main.command()
def demo() -> None:
    """Runs the server with example policies and shows what it makes of a recorded driver and executor."""
    from webhook.demo import run

    sys.exit(run())


def _load(paths: tuple[Path, ...], allowed: tuple[str, ...]) -> Loaded:
    from webhook.policy.load import load, read

    documents, unreadable = read(paths)
    loaded = load(documents, allowed=frozenset(allowed))
    return dataclasses.replace(loaded, errors=(*unreadable, *loaded.errors))


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(_UNUSABLE)


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def _colour(line: str) -> str | None:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])


def _color() -> bool | None:
    # click itself knows terminals, but not https://no-color.org
    return False if os.environ.get("NO_COLOR") else None
