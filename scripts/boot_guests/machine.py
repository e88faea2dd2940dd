"""A machine in QEMU: what its console says, and what is typed there."""

import contextlib
import os
import pathlib
import re
import select
import subprocess
import tempfile
import time

from . import security_key, tang, tpm

# A machine without acceleration, busy with others.
SECONDS = 900
# Where QEMU puts an initramfs by itself, it overwrites the firmware's tables if there is a TPM. The kernel leaves one that initrdmem=
# names in memory that it gives out, unless memmap= takes that away: then it makes a copy.
INITRD = 512 << 20
ENDS = (b"ENDED", b"Kernel panic - not syncing")


class Typed:
    """What is typed, each at the next place that the pattern fits."""

    def __init__(self, pattern: str, *texts: str):
        self.pattern, self.texts = re.compile(pattern.encode()), list(texts)


def boot(kernel: pathlib.Path, initrd: pathlib.Path, disks: list[pathlib.Path], words: str, *, state: pathlib.Path,
         keys: pathlib.Path | None = None, security: pathlib.Path | None = None, typed: Typed, stops: str | None = None, count: bool = False,
         console=None) -> str:
    """What the console says until the guest says that it ends, panics, asks once too often, or says what fits `stops`. The disks are
    not changed."""
    with tempfile.TemporaryDirectory(prefix="boot-guests-") as scratch, contextlib.ExitStack() as stack:
        size = initrd.stat().st_size
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc",
                   "-accel", f"tcg,thread={'single' if count else 'multi'}", "-cpu", "max", "-m", "1024", "-serial", "stdio",
                   "-device", "virtio-rng-pci", "-kernel", str(kernel),
                   "-device", f"loader,file={initrd},addr={INITRD:#x},force-raw=on", "-append",
                   f"console=ttyS0 loglevel=4 panic=-1 mitigations=off no_timer_check random.trust_cpu=on cryptomgr.notests "
                   f"initrdmem={INITRD:#x},{size} memmap={-(-size >> 20)}M${INITRD:#x} {words}"]
        if count:
            command += ["-icount", "shift=1,sleep=on"]
        for disk in disks:
            command += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe,snapshot=on"]
        forward = "," + tang.for_guest(keys) if keys else ""
        command += ["-netdev", f"user,id=net0{forward}", "-device", "virtio-net-pci,netdev=net0,romfile="]
        command += stack.enter_context(tpm.of_guest(state, pathlib.Path(scratch)))
        if security:
            command += stack.enter_context(security_key.of_guest(security, pathlib.Path(scratch)))
        said = b""
        guest = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said = listen(guest, typed, stops and re.compile(stops.encode()), console)
        finally:
            tpm.end(guest)
    return said.decode(errors="replace").replace("\r", "")


def listen(guest: subprocess.Popen, typed: Typed, stops, console) -> bytes:
    said, seen, end = b"", 0, time.monotonic() + SECONDS
    while time.monotonic() < end and not any(word in said for word in ENDS) and not (stops and stops.search(said)):
        if not select.select([guest.stdout], [], [], 1)[0]:
            continue
        piece = os.read(guest.stdout.fileno(), 65536)
        if not piece:
            break
        said += piece
        if console:
            console.write(piece)
            console.flush()
        question = typed.pattern.search(said, seen)
        if question and not typed.texts:
            break
        if question:
            seen = question.end()
            # Who asks may still be switching the echo off.
            time.sleep(0.3)
            guest.stdin.write(typed.texts.pop(0).encode() + b"\n")
            guest.stdin.flush()
    return said
