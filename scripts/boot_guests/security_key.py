"""A security key in software: on the host while volumes are enrolled, and plugged into the guest's USB, by QEMU's usb-redir device.

What QEMU sends to a USB device elsewhere, and what it expects, is from "USB Network Redirection protocol description" version 0.7 (usbredir).
The key itself is crates/testkit/src/authenticator.py.
"""

import contextlib
import json
import os
import pathlib
import socket
import struct
import subprocess
import threading
import time

from . import ROOT, BootError

AUTHENTICATOR = ROOT / "crates" / "testkit" / "src" / "authenticator.py"
PIN = "31415"

# Types of messages.
HELLO, CONNECT, INTERFACES, ENDPOINTS, SET_CONFIGURATION, GET_CONFIGURATION, CONFIGURATION = 0, 1, 4, 5, 6, 7, 8
SET_SETTING, GET_SETTING, SETTING, START, STOP, RECEIVING = 9, 10, 11, 15, 16, 17
CONTROL, INTERRUPT = 100, 103
# The version of the device is told, and the size of packets; numbers of messages have 64 bits, lengths of some 32: a host of USB 3 wants that.
ABILITIES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6
STALLED = 4
OUT, IN = 1, 0x81

# A report descriptor of the FIDO alliance's page, with reports of 64 bytes in both directions (CTAP 2.1, section 11.2.8.1).
REPORT = bytes.fromhex("06d0f10901a1010920150026ff0075089540810209211500" + "26ff00750895409102c0")
# USB 2.0, section 9.6; HID 1.11, section 6.2.1: a device of one interface with two endpoints, which has no strings.
DEVICE = struct.pack("<BBHBBBBHHHBBBB", 18, 1, 0x0200, 0, 0, 0, 64, 0x1209, 0xF1D0, 0x0100, 0, 0, 0, 1)
HID = struct.pack("<BBHBBBH", 9, 0x21, 0x0111, 0, 1, 0x22, len(REPORT))
PARTS = struct.pack("<9B", 9, 4, 0, 0, 2, 3, 0, 0, 0) + HID
PARTS += b"".join(struct.pack("<BBBBHB", 7, 5, endpoint, 3, 64, 5) for endpoint in (IN, OUT))
CONFIGURED = struct.pack("<BBHBBBBB", 9, 2, 9 + len(PARTS), 1, 1, 0, 0x80, 50) + PARTS
DESCRIPTORS = {0x0100: DEVICE, 0x0200: CONFIGURED, 0x2100: HID, 0x2200: REPORT}


@contextlib.contextmanager
def on_host(state: pathlib.Path, place: pathlib.Path):
    """Yields the socket at which it speaks."""
    path = place / "security-key"
    kind = {"path": str(path), "state": str(state), "pin": PIN, "protocols": [2, 1], "touch": True, "fault": None,
            "options": {"up": True, "pinUvAuthToken": True}}
    # Debian's own Python has Debian's python3-cryptography.
    key = subprocess.Popen(["/usr/bin/python3", "-B", str(AUTHENTICATOR), json.dumps(kind)])
    try:
        for _ in range(1000):
            with contextlib.suppress(OSError), connected(path):
                break
            time.sleep(0.01)
        else:
            raise BootError("the security key does not start; it wants python3-cryptography")
        yield path
    finally:
        key.kill()
        key.wait()
        path.unlink(missing_ok=True)


def connected(path: pathlib.Path) -> socket.socket:
    there = socket.socket(socket.AF_UNIX)
    there.connect(str(path))
    return there


@contextlib.contextmanager
def of_guest(state: pathlib.Path, scratch: pathlib.Path):
    """Yields QEMU's arguments. What the guest does to the key's PIN is nothing to the next."""
    own = scratch / "security-key.json"
    own.write_bytes(state.read_bytes())
    plug = scratch / "usb.socket"
    with on_host(own, scratch) as key, socket.socket(socket.AF_UNIX) as bus:
        bus.bind(str(plug))
        bus.listen()
        threading.Thread(target=plugged, args=(bus, key), daemon=True).start()
        yield ["-chardev", f"socket,id=usb,path={plug}", "-device", "qemu-xhci", "-device", "usb-redir,chardev=usb"]


def plugged(bus: socket.socket, key: pathlib.Path) -> None:
    with contextlib.suppress(OSError, EOFError):
        qemu, _ = bus.accept()
        with qemu, connected(key) as reports:
            Usb(qemu, reports).serve()


def exactly(size: int, stream: socket.socket) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


class Usb:
    """The device, as QEMU sees it."""

    def __init__(self, qemu: socket.socket, reports: socket.socket):
        self.qemu, self.reports, self.lock = qemu, reports, threading.Lock()

    def send(self, kind: int, number: int, message: bytes) -> None:
        with self.lock:
            self.qemu.sendall(struct.pack("<IIQ", kind, len(message), number) + message)

    def serve(self) -> None:
        # Numbers are shorter until both have said what they can do.
        hello = b"a security key in software".ljust(64, b"\0") + struct.pack("<I", ABILITIES)
        self.qemu.sendall(struct.pack("<III", HELLO, len(hello), 0) + hello)
        _, size, _ = struct.unpack("<III", exactly(12, self.qemu))
        exactly(size, self.qemu)
        self.describe()
        # Full speed.
        self.send(CONNECT, 0, struct.pack("<BBBBHHH", 1, 0, 0, 0, 0x1209, 0xF1D0, 0x0100))
        threading.Thread(target=self.answers, daemon=True).start()
        while True:
            kind, size, number = struct.unpack("<IIQ", exactly(16, self.qemu))
            self.heard(kind, number, exactly(size, self.qemu))

    def describe(self) -> None:
        """One interface for people's devices, and endpoints by number: 32 of them, those to the host in the second half."""
        first = bytes([3]).ljust(32, b"\0")
        self.send(INTERFACES, 0, struct.pack("<I", 1) + bytes(32) + first + bytes(32) + bytes(32))
        kinds, intervals, sizes = bytearray(b"\xff" * 32), bytearray(32), [0] * 32
        kinds[0] = kinds[16] = 0
        for at in (OUT, 16 + (IN & 15)):
            kinds[at], intervals[at], sizes[at] = 3, 5, 64
        self.send(ENDPOINTS, 0, bytes(kinds) + bytes(intervals) + bytes(32) + struct.pack("<32H", *sizes))

    def heard(self, kind: int, number: int, message: bytes) -> None:
        if kind == CONTROL:
            self.control(number, message)
        elif kind == INTERRUPT:
            endpoint, _, size = struct.unpack("<BBH", message[:4])
            self.reports.sendall(message[4:].ljust(64, b"\0"))
            self.send(INTERRUPT, number, struct.pack("<BBH", endpoint, 0, size))
        elif kind in (SET_CONFIGURATION, GET_CONFIGURATION):
            self.describe()
            self.send(CONFIGURATION, number, b"\0\1")
        elif kind in (SET_SETTING, GET_SETTING):
            self.send(SETTING, number, b"\0\0\0")
        elif kind in (START, STOP):
            self.send(RECEIVING, number, b"\0" + message[:1])

    def control(self, number: int, message: bytes) -> None:
        endpoint, request, to, _, value, index, size = struct.unpack("<BBBBHHH", message[:10])
        status, answer = 0, b""
        if to & 0x80:
            found = DESCRIPTORS.get(value) if request == 6 else None
            status, answer = (0, found[:size]) if found else (STALLED, b"")
        self.send(CONTROL, number, struct.pack("<BBBBHHH", endpoint, request, to, status, value, index, len(answer)) + answer)

    def answers(self) -> None:
        number = 0
        with contextlib.suppress(OSError, EOFError):
            while True:
                report = exactly(64, self.reports)
                self.send(INTERRUPT, number, struct.pack("<BBH", IN, 0, 64) + report)
                number += 1
