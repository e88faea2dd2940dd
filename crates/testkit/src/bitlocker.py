"""Makes a BitLocker volume by libgcrypt and hashlib, which share no code with ours: bitlocker.py JSON.

The JSON has: path, size, edition (vista, seven, to-go), method (number), sector (bytes), protectors (each kind and secret), states,
encrypted (bytes), converting (bytes behind them), on_write, plain (offset and bytes of what Windows shows, in hexadecimal), relocated (place, bytes; moved by an entry if
`entry` is set), startup (a file for the startup key). What is not in `plain` is noise.
"""

import ctypes
import hashlib
import json
import random
import struct
import sys
import uuid
import zlib

GCRYPT = ctypes.CDLL("libgcrypt.so.20")
GCRYPT.gcry_check_version(None)
ECB, CBC, CCM, XTS = 1, 3, 8, 13
# The same at each run, so that a failure can be replayed.
NOISE = random.Random(20).randbytes
BITLOCKER = uuid.UUID("4967d63b-2e29-4ad8-8399-f6a339e3d001").bytes_le
ON_WRITE = uuid.UUID("92a84d3b-dd80-4d0e-9e4e-b1e3284eaed8").bytes_le
VOLUME = uuid.UUID("f0f1f2f3-a0a1-b0b1-c0c1-d0d1d2d3d4d5").bytes_le
PLACES = {"seven": [0x10000, 0x30000, 0x50000], "to-go": [0x10000, 0x30000, 0x50000], "vista": [0x10000, 0x30000, 0x50000]}
TIME = struct.pack("<Q", 132248987110000000)  # Thu Jan 30 22:58:31 2020
CLUSTER = 4096


def cipher(mode, key):
    handle = ctypes.c_void_p()
    of_one = len(key) // 2 if mode == XTS else len(key)
    assert GCRYPT.gcry_cipher_open(ctypes.byref(handle), {16: 7, 32: 9}[of_one], mode, 0) == 0
    assert GCRYPT.gcry_cipher_setkey(handle, key, ctypes.c_size_t(len(key))) == 0
    return handle


def run(handle, data, iv=None):
    if iv:
        assert GCRYPT.gcry_cipher_setiv(handle, iv, ctypes.c_size_t(len(iv))) == 0
    out, length = ctypes.create_string_buffer(len(data)), ctypes.c_size_t(len(data))
    assert GCRYPT.gcry_cipher_encrypt(handle, out, length, data, length) == 0
    return out.raw


def ccm(key, data):
    """Nonce, tag, ciphertext."""
    nonce = TIME + struct.pack("<I", ccm.count)
    ccm.count += 1
    handle = cipher(CCM, key)
    assert GCRYPT.gcry_cipher_setiv(handle, nonce, ctypes.c_size_t(12)) == 0
    lengths = (ctypes.c_uint64 * 3)(len(data), 0, 16)
    assert GCRYPT.gcry_cipher_ctl(handle, 69, lengths, ctypes.c_size_t(24)) == 0
    encrypted, tag = run(handle, data), ctypes.create_string_buffer(16)
    assert GCRYPT.gcry_cipher_gettag(handle, tag, ctypes.c_size_t(16)) == 0
    return nonce + tag.raw + encrypted


ccm.count = 1


def entry(kind, value, data, version=1):
    return struct.pack("<4H", 8 + len(data), kind, value, version) + data


def wrapped(kind, by, key, method):
    return entry(kind, 5, ccm(by, entry(0, 1, struct.pack("<I", method) + key)))


def stretch(initial, salt):
    last, end = bytes(32), initial + salt
    for count in range(1 << 20):
        last = hashlib.sha256(last + end + struct.pack("<Q", count)).digest()
    return last


def sha(data):
    return hashlib.sha256(data).digest()


def text(words):
    return words.encode("utf-16le") + b"\0\0"


def protector(number, one, master, wanted):
    """The entry, and for a startup key its file."""
    guid = uuid.UUID(int=0x1000 + number).bytes_le
    kind, secret = one["kind"], one.get("secret", "")
    key, inside = NOISE(32), b""
    if kind == "password":
        salt = NOISE(16)
        key = stretch(sha(sha(secret.encode("utf-16le"))), salt)
        inside = entry(0, 3, struct.pack("<I", 0x1000) + salt + wrapped(0, master, key, 0x2003))
    elif kind == "recovery":
        salt = NOISE(16)
        key = stretch(sha(struct.pack("<8H", *(int(group) // 11 for group in secret.split("-")))), salt)
        inside = entry(0, 3, struct.pack("<I", 0x1000) + salt + wrapped(0, master, key, 0x2003))
    elif kind == "clear":
        inside = entry(0, 1, struct.pack("<I", 0x2002) + key)
    elif kind == "startup":
        name = entry(0, 2, text("ExternalKey"))
        inside = name + entry(0, 4, struct.pack("<I", 0x2002) + wrapped(0, master, key, 0x2002))
        # As Windows 10 writes it: later ones add the volume's GUID, which dislocker does not expect.
        held = name + entry(0, 1, struct.pack("<I", 0x2002) + key)
        held = entry(6, 9, guid + TIME + held)
        size = 48 + len(held)
        with open(wanted["startup"], "wb") as file:
            file.write(struct.pack("<4I", size, 1, 48, size) + guid + struct.pack("<II", 1, 0) + TIME + held)
    number = {"password": 0x2000, "recovery": 0x800, "clear": 0, "startup": 0x200, "tpm": 0x100, "card": 0x1000}[kind]
    return entry(2, 8, guid + TIME + struct.pack("<HH", 0, number) + inside + wrapped(0, key, master, 0x2003))


def rotated(word, by):
    return (word << by | word >> (32 - by)) & 0xFFFFFFFF if by else word


def diffused(sector, tweak, offset):
    first = struct.pack("<QQ", offset, 0)
    second = first[:15] + b"\x80"
    key = run(tweak, first) + run(tweak, second)
    sector = bytes(byte ^ key[at % 32] for at, byte in enumerate(sector))
    words = list(struct.unpack(f"<{len(sector) // 4}I", sector))
    count = len(words)
    for _ in range(5):
        for i in reversed(range(count)):
            other = words[i - 2] ^ rotated(words[i - 5], (9, 0, 13, 0)[i % 4])
            words[i] = (words[i] - other) & 0xFFFFFFFF
    for _ in range(3):
        for i in reversed(range(count)):
            other = words[(i + 2) % count] ^ rotated(words[(i + 5) % count], (0, 10, 0, 25)[i % 4])
            words[i] = (words[i] - other) & 0xFFFFFFFF
    return struct.pack(f"<{count}I", *words)


def encrypted(data, key, method, place, sector):
    out = b""
    if method in (0x8000, 0x8001):
        length = 16 if method == 0x8000 else 32
        key, tweak = key[:length], cipher(ECB, key[32:32 + length])
    block, data_cipher = cipher(ECB, key if len(key) < 33 else key[:32]), cipher(XTS if method > 0x8003 else CBC, key)
    for at in range(0, len(data), sector):
        part, offset = data[at:at + sector], place + at
        if method > 0x8003:
            out += run(data_cipher, part, struct.pack("<QQ", offset // sector, 0))
            continue
        if method < 0x8002:
            part = diffused(part, tweak, offset)
        out += run(data_cipher, part, run(block, struct.pack("<QQ", offset, 0)))
    return out


def metadata(wanted, key, master, places):
    vista = wanted["edition"] == "vista"
    moved, moved_len = wanted["relocated"]
    entries = entry(7, 2, text("MACHINE C: 30/01/2020"))
    for number, one in enumerate(wanted["protectors"]):
        entries += protector(number, one, master, wanted)
    entries += wrapped(3, master, key, wanted["method"])
    if wanted["entry"]:
        entries += entry(15, 15, struct.pack("<QQ", moved, moved_len))
    size = 48 + len(entries)
    whole = -(-(64 + size) // 16) * 16
    block = struct.pack("<8sHHHHQII", b"-FVE-FS-", whole if vista else whole // 16, 1 if vista else 2, *wanted["states"],
                        wanted["encrypted"], wanted["converting"], 0 if vista else moved_len // wanted["sector"])
    block += struct.pack("<3QQ", *places, 5 if vista else moved)
    block += struct.pack("<4I", size, 1, 48, size) + VOLUME + struct.pack("<IHH", 40, wanted["method"], 0x8004) + TIME + entries
    block += bytes(whole - len(block))
    proof = wrapped(0, master, sha(block), 0x2005)
    return block + struct.pack("<HHI", 8 + len(proof), 2, zlib.crc32(block)) + proof


def boot(wanted, places):
    edition, sector = wanted["edition"], wanted["sector"]
    guid = ON_WRITE if wanted["on_write"] else BITLOCKER
    first = bytearray(512)
    first[:11] = b"\xebR\x90-FVE-FS-" if edition == "vista" else b"\xebX\x90-FVE-FS-"
    struct.pack_into("<HB", first, 11, sector, CLUSTER // sector)
    if edition == "vista":
        struct.pack_into("<Q", first, 56, places[0] // CLUSTER)
    elif edition == "seven":
        first[160:200] = guid + struct.pack("<3Q", *places)
    else:
        first[3:11] = b"MSWIN4.1"
        first[424:464] = guid + struct.pack("<3Q", *places)
    first[510:] = b"\x55\xaa"
    return bytes(first)


def main():
    wanted = json.loads(sys.argv[1])
    places, method = PLACES[wanted["edition"]], wanted["method"]
    key, master = NOISE({0x8000: 64, 0x8001: 64, 0x8002: 16, 0x8003: 32, 0x8004: 32, 0x8005: 64}[method]), NOISE(32)
    moved, moved_len = wanted["relocated"]
    block = metadata(wanted, key, master, places)
    with open(wanted["path"], "wb") as volume:
        volume.write(NOISE(wanted["size"]))
        for offset, plain in wanted["plain"]:
            plain = bytes.fromhex(plain)
            place = moved + offset if wanted["edition"] != "vista" and offset < moved_len else offset
            clear = wanted["edition"] == "vista" and offset < 8192
            volume.seek(place)
            if clear or place >= wanted["encrypted"]:
                volume.write(plain)
            else:
                volume.write(encrypted(plain, key, method, place, wanted["sector"]))
        for place in places:
            volume.seek(place)
            volume.write(block)
        volume.seek(0)
        volume.write(boot(wanted, places))


main()
