"""Makes a TrueCrypt or VeraCrypt volume by libgcrypt and hashlib, which share no code with ours: tcrypt.py JSON.

The JSON has: path, plain (a file), magic, hash, iterations, chain, password, key_files (files), place, size (of the volume), change (bytes of
the decrypted header, by offset). Place is `normal`, `hidden`, `backup`, or `old`: a header of version 3.
"""

import ctypes
import hashlib
import json
import os
import struct
import sys
import zlib

GCRYPT = ctypes.CDLL("libgcrypt.so.20")
GCRYPT.gcry_check_version(None)
CIPHERS = {"aes": 9, "serpent": 306, "twofish": 303, "camellia": 312}
HASHES = {"ripemd160": 3, "whirlpool": 305, "stribog512": 310}
XTS = 13


def derive(name, password, salt, iterations):
    if name in HASHES:
        out = ctypes.create_string_buffer(192)
        size = ctypes.c_size_t
        failed = GCRYPT.gcry_kdf_derive(
            password, size(len(password)), 34, HASHES[name], salt, size(len(salt)), ctypes.c_ulong(iterations), size(192), out
        )
        assert failed == 0, failed
        return out.raw
    return hashlib.pbkdf2_hmac(name.replace("-256", ""), password, salt, iterations, 192)


def encrypt(chain, material, data, unit, number):
    """Data in units of so many bytes, by each cipher of the chain after the other."""
    for index, name in enumerate(chain):
        key = material[32 * index:32 * index + 32]
        tweak = material[32 * (len(chain) + index):32 * (len(chain) + index) + 32]
        handle = ctypes.c_void_p()
        assert GCRYPT.gcry_cipher_open(ctypes.byref(handle), CIPHERS[name], XTS, 0) == 0
        assert GCRYPT.gcry_cipher_setkey(handle, key + tweak, ctypes.c_size_t(64)) == 0
        encrypted = b""
        for at in range(0, len(data), unit):
            part = data[at:at + unit]
            iv = struct.pack("<QQ", number + at // unit, 0)
            assert GCRYPT.gcry_cipher_setiv(handle, iv, ctypes.c_size_t(16)) == 0
            out = ctypes.create_string_buffer(len(part))
            length = ctypes.c_size_t(len(part))
            assert GCRYPT.gcry_cipher_encrypt(handle, out, length, part, length) == 0
            encrypted += out.raw
        GCRYPT.gcry_cipher_close(handle)
        data = encrypted
    return data


def with_key_files(password, files, magic):
    if not files:
        return password
    pool = [0] * (64 if magic == "TRUE" or len(password) <= 64 else 128)
    for file in files:
        crc, at = 0, 0
        for byte in open(file, "rb").read(1 << 20):
            crc = zlib.crc32(bytes([byte]), crc)
            for part in struct.pack(">I", crc ^ 0xFFFFFFFF):
                pool[at] = (pool[at] + part) % 256
                at = (at + 1) % len(pool)
    for at, byte in enumerate(password):
        pool[at] = (pool[at] + byte) % 256
    return bytes(pool)


def main():
    wanted = json.loads(sys.argv[1])
    chain = wanted["chain"].split("-")
    plain = open(wanted["plain"], "rb").read()
    place, size = wanted["place"], wanted["size"]
    hidden = len(plain) if place == "hidden" else 0
    start = {"normal": 131072, "backup": 131072, "old": 512, "hidden": size - 131072 - len(plain)}[place]
    keys = os.urandom(256)
    header = bytearray(448)
    header[0:4] = wanted["magic"].encode()
    version, program = (5, 0x010B) if wanted["magic"] == "VERA" else (5, 0x0700)
    struct.pack_into(">HH", header, 4, 3 if place == "old" else version, program)
    struct.pack_into(">QQQQ", header, 28, hidden, len(plain), start, len(plain))
    struct.pack_into(">II", header, 60, 0, 512)
    header[192:] = keys
    for at, value in wanted["change"]:
        header[at:at + len(value) // 2] = bytes.fromhex(value)
    struct.pack_into(">I", header, 8, zlib.crc32(header[192:]))
    struct.pack_into(">I", header, 188, zlib.crc32(header[:188]))
    salt = os.urandom(64)
    password = with_key_files(bytes.fromhex(wanted["password"]), wanted["key_files"], wanted["magic"])
    material = derive(wanted["hash"], password, salt, wanted["iterations"])
    at = {"normal": 0, "old": 0, "hidden": 65536, "backup": size - 131072}[place]
    if not os.path.exists(wanted["path"]):
        open(wanted["path"], "wb").write(os.urandom(size))
    with open(wanted["path"], "r+b") as volume:
        volume.seek(at)
        volume.write(salt + encrypt(chain, material, bytes(header), 448, 0))
        volume.seek(start)
        volume.write(encrypt(chain, keys, plain, 512, start // 512))


main()
