"""A tang server: in a network of its own while a volume is bound to it, and behind an address of QEMU's network for the guest."""

import os
import pathlib
import socket
import subprocess
import sys
import threading

from . import run

TANGD = "/usr/libexec/tangd"
# Of QEMU's user network. Nobody is at the second one.
ADDRESS, NOBODY = "10.0.2.100", "10.0.2.101"


def keys(directory: pathlib.Path) -> pathlib.Path:
    directory.mkdir()
    run("/usr/libexec/tangd-keygen", directory)
    return directory


def advertisement(directory: pathlib.Path) -> str:
    """What the server says of its keys."""
    answer = run(TANGD, directory, input="GET /adv HTTP/1.0\r\n\r\n")
    # Python makes one character of the two that end a line.
    return answer.split("\n\n", 1)[1]


def while_served(directory: pathlib.Path, *words) -> str:
    """Runs a program that reaches the server by the guest's address for it."""
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    here = pathlib.Path(__file__).resolve()
    return run(*apart, sys.executable, "-B", "-m", "boot_guests.tang", directory, *words, cwd=here.parent.parent)


def for_guest(directory: pathlib.Path) -> str:
    """What QEMU's user network is told: each connection is a server of its own, whose messages would be taken for its answer."""
    server = directory.parent / "tangd"
    server.write_text(f"#!/bin/sh\nexec {TANGD} {directory} 2> /dev/null\n")
    server.chmod(0o755)
    return f"guestfwd=tcp:{ADDRESS}:80-cmd:{server}"


def serve(server: socket.socket, directory: str) -> None:
    while True:
        connection, _ = server.accept()
        with connection:
            subprocess.run([TANGD, directory], stdin=connection, stdout=connection, check=False)


def main(directory: str, *words: str) -> int:
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
    with socket.create_server((ADDRESS, 80)) as server:
        threading.Thread(target=serve, args=(server, directory), daemon=True).start()
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
