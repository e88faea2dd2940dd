"""An NBD client over TLS (OpenSSL's) that asks for much, writes, and reads its replies only when it is told to."""
import socket
import ssl
import struct
import sys

OPTION = b"IHAVEOPT"
# Each is more than the kernel holds. The reads keep two workers of the server, and leave some for the write.
READS, LENGTH = 2, 8 << 20


def exactly(stream, count):
    data = b""
    while len(data) < count:
        piece = stream.recv(min(count - len(data), 65536))
        if not piece:
            sys.exit(f"the server ended after {len(data)} of {count} bytes")
        data += piece
    return data


plain = socket.socket(socket.AF_UNIX)
plain.settimeout(60)
plain.connect(sys.argv[1])
exactly(plain, 18)
plain.sendall(struct.pack(">I", 3) + OPTION + struct.pack(">II", 5, 0))
assert struct.unpack(">QIII", exactly(plain, 20))[2:] == (1, 0)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
secure = context.wrap_socket(plain)
secure.sendall(OPTION + struct.pack(">II", 7, 6) + bytes(6))
while True:
    _, _, kind, length = struct.unpack(">QIII", exactly(secure, 20))
    exactly(secure, length)
    if kind == 1:
        break
for cookie in range(READS):
    secure.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, cookie, 0, LENGTH))
secure.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, 99, 0, LENGTH) + bytes([7]) * LENGTH)
sys.stdin.readline()
missing = set(range(READS)) | {99}
while missing:
    magic, error, cookie = struct.unpack(">IIQ", exactly(secure, 16))
    assert (magic, error) == (0x67446698, 0), (hex(magic), error)
    missing.remove(cookie)
    if cookie != 99:
        exactly(secure, LENGTH)
print("all replies are here")
