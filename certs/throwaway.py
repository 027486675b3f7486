"""A certificate authority and a serving certificate for this machine only, made at start and gone at exit.

For trying the webhook out and for tests.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from certs import authority

NAMES = ("localhost",)
ADDRESSES = ("127.0.0.1", "::1")

_LIFETIME = datetime.timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Throwaway:
    """Paths of PEM files: the authority's certificate, the serving certificate and its key (mode 0600)."""

    ca: Path
    certificate: Path
    key: Path


def make(directory: Path, *, lifetime: datetime.timedelta = _LIFETIME) -> Throwaway:
    """Write a new authority's certificate and a serving certificate for localhost into a private directory.

    The caller removes the directory. Raises OSError if it cannot be written to.
    """
    issued = authority.issue("spark-webhook throwaway CA", NAMES, ADDRESSES, lifetime)
    files = Throwaway(ca=directory / "ca.crt", certificate=directory / "tls.crt", key=directory / "tls.key")
    files.ca.write_bytes(issued.ca)
    files.certificate.write_bytes(issued.certificate)
    files.key.touch(mode=0o600)
    files.key.write_bytes(issued.key)
    return files
