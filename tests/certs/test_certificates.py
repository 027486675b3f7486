"""The throwaway certificate and the replacement of a served one, checked by OpenSSL itself."""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path

import pytest

from certs import throwaway
from certs.serving import ServingCertificate, UnusableCertificate


def handshake(server: ssl.SSLContext, ca: Path, name: str) -> bytes:
    """Shake hands in memory; the certificate that a strictly verifying client accepted, in DER."""
    context = ssl.create_default_context(cafile=str(ca))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = context.wrap_bio(to_client, to_server, server_hostname=name)
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    done = False
    while not done:
        done = True
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                done = False
    accepted = client_side.getpeercert(binary_form=True)
    assert accepted is not None
    return accepted


@pytest.fixture
def made(tmp_path: Path) -> throwaway.Throwaway:
    return throwaway.make(tmp_path)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_strict_client_accepts_the_throwaway_certificate(made: throwaway.Throwaway, name: str) -> None:
    assert handshake(ServingCertificate(made.certificate, made.key).context, made.ca, name)


def test_no_other_name_is_accepted(made: throwaway.Throwaway) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(ServingCertificate(made.certificate, made.key).context, made.ca, "example.com")


def test_no_other_authority_is_accepted(made: throwaway.Throwaway, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = throwaway.make(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(ServingCertificate(made.certificate, made.key).context, other.ca, "localhost")


def test_the_key_is_private_and_the_authority_has_left_none(made: throwaway.Throwaway) -> None:
    assert stat.S_IMODE(made.key.stat().st_mode) == 0o600
    keys = [path for path in made.key.parent.iterdir() if b"PRIVATE KEY" in path.read_bytes()]
    assert keys == [made.key]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory like a Secret volume: files are links through `..data`."""
    folder = tmp_path / "volume"
    folder.mkdir()
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (folder / name).symlink_to(f"..data/{name}")
    publish(folder, "..1")
    return folder


def publish(volume: Path, version: str) -> None:
    (volume / version).mkdir()
    throwaway.make(volume / version)
    (volume / "..tmp").symlink_to(version)
    (volume / "..tmp").rename(volume / "..data")


def test_a_new_pair_behind_a_swapped_link_is_served(volume: Path) -> None:
    serving = ServingCertificate(volume / "tls.crt", volume / "tls.key")
    first = handshake(serving.context, volume / "ca.crt", "localhost")
    assert serving.refresh() is False, "nothing changed"
    publish(volume, "..2")
    assert serving.refresh() is True
    assert serving.problem == ""
    assert handshake(serving.context, volume / "ca.crt", "localhost") != first
    assert serving.refresh() is False


@pytest.mark.parametrize("what", ["key of another", "no PEM", "empty", "missing"])
def test_an_unusable_pair_leaves_the_old_one_whole(volume: Path, tmp_path: Path, what: str) -> None:
    serving = ServingCertificate(volume / "tls.crt", volume / "tls.key")
    first = handshake(serving.context, volume / "ca.crt", "localhost")
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes((volume / "ca.crt").read_bytes())
    key = volume / "..1" / "tls.key"
    good = key.read_bytes()
    if what == "key of another":
        (tmp_path / "other").mkdir()
        key.write_bytes(throwaway.make(tmp_path / "other").key.read_bytes())
    elif what == "missing":
        key.unlink()
    else:
        key.write_text("" if what == "empty" else "nothing")
    assert serving.refresh() is True
    assert "tls.key" in serving.problem
    assert serving.refresh() is False, "said once"
    assert handshake(serving.context, trusted, "localhost") == first
    key.write_bytes(good)
    serving.refresh()
    assert serving.problem == ""
    assert handshake(serving.context, trusted, "localhost") == first


def test_what_cannot_be_served_at_all(tmp_path: Path) -> None:
    with pytest.raises(UnusableCertificate, match=r"nothing\.crt: No such file"):
        ServingCertificate(tmp_path / "nothing.crt", tmp_path / "nothing.key")


def test_the_end_of_the_certificate_is_known(tmp_path: Path) -> None:
    made = throwaway.make(tmp_path, lifetime=datetime.timedelta(days=3))
    left = ServingCertificate(made.certificate, made.key).expires - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=2) < left <= datetime.timedelta(days=3)
