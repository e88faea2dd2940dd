"""Makes a FileVault 2 volume by libgcrypt and hashlib, which share no code with ours: fvault2.py JSON.

The JSON has: path, plain (a file: the logical volume), passwords (one for each user), iterations, status (of the conversion), extents (blocks of
4096 bytes: logical, count, physical), volume (number of the physical volume of each extent), packed (bytes of a compressed list, or 0; those
that a file of keys has a multiple of), referred
(the family's UUID stands elsewhere), second (another logical volume), wipekey (a file
for the keys, or nothing).
"""

import base64
import ctypes
import hashlib
import json
import random
import struct
import sys
import uuid

GCRYPT = ctypes.CDLL("libgcrypt.so.20")
GCRYPT.gcry_check_version(None)
WRAP, XTS = 7, 13
# The same at each run, so that a failure can be replayed.
NOISE = random.Random(20).randbytes
BLOCK = 4096
PHYSICAL = uuid.UUID("fc52bfae-5a1f-4f9b-b3a6-f33303a0e401").bytes
FAMILY = uuid.UUID("33a76caa-1481-4bc5-8d04-1ac1707c19c0")
LABEL, METADATA, SIZE = 1, 8, 0x80000


def run(mode, key, data, iv=None):
    handle = ctypes.c_void_p()
    assert GCRYPT.gcry_cipher_open(ctypes.byref(handle), 7, mode, 0) == 0
    assert GCRYPT.gcry_cipher_setkey(handle, key, ctypes.c_size_t(len(key))) == 0
    if iv:
        assert GCRYPT.gcry_cipher_setiv(handle, iv, ctypes.c_size_t(16)) == 0
    length = len(data) + (8 if mode == WRAP else 0)
    out = ctypes.create_string_buffer(length)
    assert GCRYPT.gcry_cipher_encrypt(handle, out, ctypes.c_size_t(length), data, ctypes.c_size_t(len(data))) == 0
    return out.raw


def table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(table())


def summed(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return struct.pack("<II", crc, 0xFFFFFFFF) + data


def block(kind, number, fields, transaction=7, of=None):
    """A metadata block with these bytes, by offset: the write of an object."""
    out = bytearray(8192)
    struct.pack_into("<HH", out, 8, 1, kind)
    struct.pack_into("<QQQQI", out, 16, transaction, number if of is None else of, number, 0, BLOCK)
    for at, data in fields:
        out[at:at + len(data)] = data
    return summed(bytes(out[8:]))


def element(key, kind, value):
    return f"<key>{key}</key><{kind}>{value}</{kind}>"


def structures(wanted, volume_key):
    kek, users = NOISE(16), ""
    for password in wanted["passwords"]:
        salt = NOISE(16)
        derived = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, wanted["iterations"], 16)
        one = struct.pack("<II16sII24s", 3, 16, salt, 16, 24, run(WRAP, derived, kek)) + bytes(112)
        one += struct.pack("<I", wanted["iterations"])
        one = base64.b64encode(one.ljust(284, b"\0")).decode()
        users += "<dict>" + element("PassphraseWrappedKEKStruct", "data", f"\n{one[:200]}\n{one[200:]}\n") + "</dict>"
    key = struct.pack("<II24s", 2, 24, run(WRAP, kek, volume_key)).ljust(256, b"\0")
    keys = element("KEKWrappedVolumeKeyStruct", "data", base64.b64encode(key).decode())
    keys = f"<dict><key>KEKWrappedVolumeKeyStruct</key><data/></dict><dict>{keys}</dict>"
    status = element("ConversionInfo", "dict", element("ConversionStatus", "string", wanted["status"])) if wanted["status"] else ""
    return f"<dict><key>CryptoUsers</key><array>{users}</array><key>WrappedVolumeKeys</key><array>{keys}</array>{status}</dict>".encode()


def main():
    wanted = json.loads(sys.argv[1])
    plain = open(wanted["plain"], "rb").read()
    volume_key, metadata_key = NOISE(16), NOISE(16)
    # Larger for more plaintext alone: a test has a piece that lies beyond the end.
    size = SIZE if len(plain) < SIZE else max((physical + count) * BLOCK for _, count, physical, _ in wanted["extents"])
    context = structures(wanted, volume_key)
    volume = (element("com.apple.corestorage.lv.size", "integer", hex(len(plain)))
              + f'<key>other</key><string ID="4">{str(FAMILY).upper()}</string><key>com.apple.corestorage.lv.familyUUID</key>'
              + ('<reference IDREF="4"/>' if wanted["referred"] else f"<string>{str(FAMILY).upper()}</string>")).encode()
    extents = b"".join(
        struct.pack("<QQIIQQ", 0, logical, count, 0, 0, physical | which << 48)
        for logical, count, physical, which in wanted["extents"]
    )
    blocks = [
        block(0x0019, 0, [(104, struct.pack("<IIII", wanted["packed"] or len(context), len(context), 1024, len(context))), (1024, context)]),
        block(0x0013, 1, []),
        block(0x001A, 2, [(128, struct.pack("<II", 512, len(volume))), (512, volume)]),
        block(0x0305, 3, [(64, struct.pack("<I", len(wanted["extents"]))), (72, extents)]),
    ]
    # What was written before. cryptsetup takes the last block of an object, and does not follow the reference.
    older = volume.replace(hex(len(plain)).encode(), b"0x1000")
    older = block(0x001A, 4, [(128, struct.pack("<II", 512, len(older))), (512, older)], 6, 2)
    blocks.insert(len(blocks) if wanted["referred"] else 1, older)
    if wanted["second"]:
        blocks.append(block(0x001A, 5, [(128, struct.pack("<II", 512, len(volume))), (512, volume)]))
    if wanted["wipekey"]:
        del blocks[0]
        with open(wanted["wipekey"], "wb") as out:
            context = b'<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0">\n' + context + b"\n</plist>\n"
            context += b"\n" * (-len(context) % (wanted["packed"] or 1))
            out.write(run(XTS, metadata_key + bytes(16), context, bytes(16)))
    header = bytearray(512)
    struct.pack_into("<HH", header, 8, 1, 0x10)
    struct.pack_into("<I", header, 48, 512)
    struct.pack_into("<Q", header, 64, size)
    struct.pack_into("<2sIHII4Q", header, 88, b"CS", 1, 4, BLOCK, 8192, LABEL, 0, 0, 0)
    struct.pack_into("<II16s", header, 168, 16, 2, metadata_key)
    header[304:320] = PHYSICAL
    tweak = hashlib.sha256(volume_key + FAMILY.bytes).digest()[:16]
    with open(wanted["path"], "wb") as out:
        out.truncate(size)
        out.seek(0)
        out.write(summed(bytes(header[8:])))
        out.seek(LABEL * BLOCK)
        out.write(block(0x0011, 0, [(220, struct.pack("<I", 8192))]))
        out.write(struct.pack("<QQQQQ", 0, 16, 0, 0, METADATA))
        out.seek(METADATA * BLOCK)
        for number, one in enumerate(blocks):
            out.write(run(XTS, metadata_key + PHYSICAL, one, struct.pack("<QQ", number, 0)))
        for logical, count, physical, _ in wanted["extents"]:
            out.seek(physical * BLOCK)
            for at in range(logical * BLOCK, min((logical + count) * BLOCK, len(plain)), 512):
                out.write(run(XTS, volume_key + tweak, plain[at:at + 512], struct.pack("<QQ", at // 512, 0)))
        out.truncate(size)


main()
