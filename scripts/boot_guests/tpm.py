"""A software TPM: on the host while volumes are enrolled, and as the guest's."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import socket
import subprocess
import time

from . import BootError, run

# What SeaBIOS extends each of PCRs 0 to 7 by before it starts a kernel: the separator of the TCG's specification for PC clients.
SEPARATOR = b"\xff" * 4


@contextlib.contextmanager
def on_host(state: pathlib.Path):
    """One that speaks TCP; yields its port. PCRs 0 to 7 are as the guest's firmware leaves them."""
    state.mkdir(parents=True, exist_ok=True)
    for _ in range(20):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["swtpm", "socket", "--tpm2", "--server", f"type=tcp,port={port}", "--ctrl", f"type=tcp,port={port + 1}",
                 "--flags", "not-need-init,startup-clear", "--tpmstate", f"dir={state}"]
        swtpm = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if listens(swtpm, port + 1):
            break
        end(swtpm)
    else:
        raise BootError("swtpm does not start; it wants two ports in a row")
    try:
        for bank in ("sha1", "sha256", "sha384", "sha512"):
            digest = hashlib.new(bank, SEPARATOR).hexdigest()
            run("tpm2_pcrextend", *(f"{pcr}:{bank}={digest}" for pcr in range(8)), env=tools(port))
        yield port
    finally:
        end(swtpm)


def tools(port: int) -> dict:
    """The environment in which tpm2-tools and clevis find it."""
    return {**os.environ, "TPM2TOOLS_TCTI": f"swtpm:host=127.0.0.1,port={port}"}


def listens(swtpm: subprocess.Popen, port: int) -> bool:
    for _ in range(500):
        if swtpm.poll() is not None:
            return False
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        time.sleep(0.01)
    return False


@contextlib.contextmanager
def of_guest(state: pathlib.Path, scratch: pathlib.Path):
    """One that QEMU speaks to, with a copy of the state: what one guest does is nothing to the next. Yields QEMU's arguments."""
    own, control = scratch / "tpm", scratch / "tpm.socket"
    shutil.copytree(state, own)
    swtpm = subprocess.Popen(["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={own}", "--ctrl", f"type=unixio,path={control}"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(500):
            if control.exists():
                break
            time.sleep(0.01)
        else:
            raise BootError("swtpm makes no socket")
        yield ["-chardev", f"socket,id=tpm,path={control}", "-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device", "tpm-tis,tpmdev=tpm0"]
    finally:
        end(swtpm)


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
