"""A real MIT KDC for a test: in its own folder, on a loopback port, gone with the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.oracle.ports import free_ports

REALM = "OTTLA.TEST"
_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # of the programs of an administrator
_READY_S = 120


def why_not() -> str | None:
    """The reason why there can be no KDC here, or None."""
    for program in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit"):
        if shutil.which(program, path=_PATH) is None:
            return f"a KDC needs {program}, which is not installed (make test-kerberos installs it)"
    return None


class Kdc:
    """A context manager. `environment` makes programs of the Kerberos library know this realm and no other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_ports(1)[0]
        self.config = folder / "krb5.conf"
        self.config.write_text(_CONFIG.format(realm=REALM, port=self._port))
        (folder / "kdc.conf").write_text(_KDC_CONFIG.format(realm=REALM, port=self._port, folder=folder))
        self.environment = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHEDIR": str(folder),
        }

    def __enter__(self) -> Kdc:
        self._run("kdb5_util", "create", "-s", "-P", "master-password")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [shutil.which("krb5kdc", path=_PATH) or "krb5kdc", "-n"],
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait_until_it_listens()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def keytab(self, principal: str) -> str:
        """A new principal with random keys; the file that holds them."""
        self._admin(f"addprinc -randkey {principal}")
        return self.add_to_keytab(principal)

    def add_to_keytab(self, principal: str) -> str:
        """New keys, and a file that holds these too."""
        path = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._admin(f"ktadd -k {path} {principal}")
        return str(path)

    def change_keys(self, principal: str) -> None:
        """Keytabs that hold the old ones are of no use from now on."""
        self._admin(f"cpw -randkey {principal}")

    def forget(self, principal: str) -> None:
        self._admin(f"delprinc -force {principal}")

    def tickets(self, principal: str, keytab: str, lifetime: str = "1h") -> str:
        """The name of a cache with a ticket of the principal, as `kinit` leaves it."""
        cache = self._folder / f"{principal.replace('/', '-')}-{lifetime}.cache"
        self._run("kinit", "-l", lifetime, "-k", "-t", keytab, "-c", str(cache), principal)
        return f"FILE:{cache}"

    def wait_until_expired(self, cache: str, service: str) -> None:
        """Until the KDC gives no ticket for the service any more; the cache stays as it is."""
        original = cache.removeprefix("FILE:")
        copy = f"{original}.copy"
        deadline = time.monotonic() + _READY_S
        while True:
            shutil.copy(original, copy)
            environment = {**os.environ, **self.environment}
            if subprocess.run(
                ["kvno", "-q", "-c", copy, service], env=environment, capture_output=True
            ).returncode:
                return
            assert time.monotonic() < deadline, f"{cache} does not expire"
            time.sleep(0.1)

    def _admin(self, command: str) -> None:
        self._run("kadmin.local", "-q", command)

    def _run(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=_PATH) or program
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            [found, *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{program} {' '.join(arguments)}\n{done.stdout}{done.stderr}"

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            assert self._process.poll() is None, "the KDC ended"
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, f"the KDC does not listen on {self._port}"
                time.sleep(0.05)


_CONFIG = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    clockskew = 2
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    localhost = {realm}
"""
_KDC_CONFIG = """\
[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/kadm5.acl
        max_life = 10h
    }}
"""
