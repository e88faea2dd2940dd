"""Shows the security key behind a Unix socket as a device of the kernel, by /dev/uhid: uhid.py SOCKET. It becomes /dev/hidrawN, on a bus that looks
like USB. Reports pass as they are."""

import os
import socket
import struct
import sys
import threading

CREATE, INPUT, OUTPUT = 11, 12, 6
DATA_MAX = 4096
USB = 3
# A report descriptor of the FIDO alliance's page, with reports of 64 bytes in both directions (CTAP 2.1, section 11.2.8.1).
DESCRIPTOR = bytes.fromhex("06d0f10901a1010920150026ff0075089540810209211500" + "26ff00750895409102c0")

device = os.open("/dev/uhid", os.O_RDWR)
key = socket.socket(socket.AF_UNIX)
key.connect(sys.argv[1])
names = b"software key".ljust(128, b"\0") + bytes(64) + bytes(64)
numbers = struct.pack("<HHIIII", len(DESCRIPTOR), USB, 0x1209, 0xF1D0, 0, 0)
os.write(device, struct.pack("<I", CREATE) + names + numbers + DESCRIPTOR.ljust(DATA_MAX, b"\0"))


def from_key():
    while True:
        report = b""
        while len(report) < 64:
            more = key.recv(64 - len(report))
            if not more:
                os._exit(0)
            report += more
        os.write(device, struct.pack("<IH", INPUT, 64) + report.ljust(DATA_MAX, b"\0"))


threading.Thread(target=from_key, daemon=True).start()
while True:
    event = os.read(device, 4 + DATA_MAX + 300)
    [kind] = struct.unpack("<I", event[:4])
    if kind == OUTPUT:
        [size] = struct.unpack("<H", event[4 + DATA_MAX : 6 + DATA_MAX])
        # Whoever writes puts the number of the report in front, which is none.
        report = event[4 : 4 + size]
        key.sendall((report[1:] if size == 65 else report).ljust(64, b"\0"))
