"""Makes or reads a TrueCrypt or VeraCrypt volume by libgcrypt and hashlib, which share no code with ours: tcrypt.py JSON.

The JSON has: path, plain (a file), magic, hash, iterations, mode (`xts` or `cbc`, or `lrw` for a cipher with blocks of eight bytes), chain, password, key_files (files), place, size (of the volume), change (bytes of
the decrypted header, by offset). With `read` the header at the place is decrypted instead, and what it holds is printed as JSON, with
the plaintext in hexadecimal digits. It can be `hidden-backup`, too, then. With `defects` the headers of the volume with one changed bit each
are written to the file `headers`, 512 bytes for each: a list of place, bit, and whether it is the decrypted header that is changed, whose
checksums are right then. Place is `normal`, `hidden`, `backup`, `old`: a header of version 3, or 2 in CBC and LRW, or
`system`: the header of an encrypted system in the last sector of the first track of its drive, with the data from byte `start` on, or 65536.
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
CIPHERS = {"aes": 9, "serpent": 306, "twofish": 303, "camellia": 312, "blowfish_le": 4, "cast5": 3, "des3_ede": 2}
# Bytes in a block and in a key, where they are not 16 and 32.
SHORT = {"blowfish_le": (8, 56), "cast5": (8, 16), "des3_ede": (8, 24)}
HASHES = {"ripemd160": 3, "whirlpool": 305, "stribog512": 310}
ECB, XTS = 1, 13


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


def encrypt(chain, material, data, unit, number, apply=GCRYPT.gcry_cipher_encrypt):
    """Data in units of so many bytes, by each cipher of the chain after the other."""
    order = list(enumerate(chain))
    for index, name in order if apply == GCRYPT.gcry_cipher_encrypt else reversed(order):
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
            assert apply(handle, out, length, part, length) == 0
            encrypted += out.raw
        GCRYPT.gcry_cipher_close(handle)
        data = encrypted
    return data


def turned(data):
    """The bytes of each word in the other order."""
    return b"".join(data[at:at + 4][::-1] for at in range(0, len(data), 4))


def crc_of_word(word):
    return zlib.crc32(word, 0xFFFFFFFF) ^ 0xFFFFFFFF


def xor(one, other):
    return bytes(a ^ b for a, b in zip(one, other))


def in_cbc(chain, material, data, number):
    """Data in units of 512 bytes from a number on; a header, which has no number, is one unit."""
    sizes = [SHORT.get(name, (16, 32)) for name in chain]
    starts = [32 + sum(size[1] for size in sizes[:index]) for index in range(len(chain))]
    handles = []
    for name, start, (_, length) in zip(chain, starts, sizes):
        handle = ctypes.c_void_p()
        assert GCRYPT.gcry_cipher_open(ctypes.byref(handle), CIPHERS[name], ECB, 0) == 0
        assert GCRYPT.gcry_cipher_setkey(handle, material[start:start + length], ctypes.c_size_t(length)) == 0
        handles.append((name, handle))

    def through(name, handle, block):
        block = turned(block) if name == "blowfish_le" else block
        out = ctypes.create_string_buffer(len(block))
        length = ctypes.c_size_t(len(block))
        assert GCRYPT.gcry_cipher_encrypt(handle, out, length, block, length) == 0
        return turned(out.raw) if name == "blowfish_le" else out.raw

    together = len(set(size[0] for size in sizes)) == 1
    groups = [(sizes[0][0], handles)] if together else [(size[0], [one]) for size, one in zip(sizes, handles)]
    for block, group in groups:
        encrypted = b""
        step = 512 if number is not None else len(data)
        for unit in range(0, len(data), step):
            if number is None:
                iv, white = material[:block], material[8:16]
            else:
                twice = struct.pack("<QQ", number + unit // step, number + unit // step)
                iv = xor(material[:block], twice)
                words = xor(material[block:block + 16], twice)
                a, b, c, d = (crc_of_word(words[at:at + 4]) for at in range(0, 16, 4))
                white = struct.pack("<II", a ^ d, b ^ c)
            for at in range(unit, unit + step, block):
                iv = xor(iv, data[at:at + block])
                for name, handle in group:
                    iv = through(name, handle, iv)
                encrypted += xor(iv, white * 2)
        data = encrypted
    for _, handle in handles:
        GCRYPT.gcry_cipher_close(handle)
    return data


def in_lrw(name, material, data):
    """Data from the first block on, of which TrueCrypt has the number 1. Its own self-test has the same checksums."""
    handle, key = ctypes.c_void_p(), int.from_bytes(material[:8], "big")
    length = SHORT[name][1]
    assert GCRYPT.gcry_cipher_open(ctypes.byref(handle), CIPHERS[name], ECB, 0) == 0
    assert GCRYPT.gcry_cipher_setkey(handle, material[32:32 + length], ctypes.c_size_t(length)) == 0
    tweaks = b""
    for number in range(1, len(data) // 8 + 1):
        product = 0
        for bit in reversed(range(number.bit_length())):
            product = product << 1 ^ (0x1000000000000001B if product >> 63 else 0) ^ (key if number >> bit & 1 else 0)
        tweaks += product.to_bytes(8, "big")
    added = xor(data, tweaks)
    added = turned(added) if name == "blowfish_le" else added
    out, length = ctypes.create_string_buffer(len(data)), ctypes.c_size_t(len(data))
    assert GCRYPT.gcry_cipher_encrypt(handle, out, length, added, length) == 0
    GCRYPT.gcry_cipher_close(handle)
    return xor(turned(out.raw) if name == "blowfish_le" else out.raw, tweaks)


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


def read(wanted):
    size = os.path.getsize(wanted["path"])
    at = {"normal": 0, "hidden": 65536, "backup": size - 131072, "hidden-backup": size - 65536}[wanted["place"]]
    volume = open(wanted["path"], "rb").read()
    chain = wanted["chain"].split("-")
    password = with_key_files(bytes.fromhex(wanted["password"]), wanted["key_files"], wanted["magic"])
    material = derive(wanted["hash"], password, volume[at:at + 64], wanted["iterations"])
    decrypt = GCRYPT.gcry_cipher_decrypt
    header = encrypt(chain, material, volume[at + 64:at + 512], 448, 0, decrypt)
    assert header[:4] == wanted["magic"].encode(), header[:4]
    assert struct.unpack_from(">I", header, 8)[0] == zlib.crc32(header[192:])
    assert struct.unpack_from(">I", header, 188)[0] == zlib.crc32(header[:188])
    version, program = struct.unpack_from(">HH", header, 4)
    hidden, data, start, encrypted = struct.unpack_from(">QQQQ", header, 28)
    flags, sector = struct.unpack_from(">II", header, 60)
    plain = encrypt(chain, header[192:], volume[start:start + data], 512, start // 512, decrypt)
    used = 64 * len(chain)
    # tcplay has noise behind the keys.
    assert not any(header[12:28]) and not any(header[68:188]) and (wanted["magic"] == "TRUE" or not any(header[192 + used:]))
    fields = [version, program, hidden, data, start, encrypted, flags, sector]
    print(json.dumps({"fields": fields, "plain": plain.hex()}))


def with_checksums(header):
    struct.pack_into(">I", header, 8, zlib.crc32(header[192:]))
    struct.pack_into(">I", header, 188, zlib.crc32(header[:188]))
    return bytes(header)


def with_defects(defects, header, salt, chain, material):
    """Headers of 512 bytes, each with another bit changed."""
    for at, bit, decrypted in defects:
        changed = bytearray(header)
        if decrypted:
            changed[at] ^= 1 << bit
            yield salt + encrypt(chain, material, with_checksums(changed), 448, 0)
        else:
            stored = bytearray(salt + encrypt(chain, material, bytes(header), 448, 0))
            stored[at] ^= 1 << bit
            yield bytes(stored)


def main():
    wanted = json.loads(sys.argv[1])
    if wanted.get("read"):
        return read(wanted)
    chain = wanted["chain"].split("-")
    plain = open(wanted["plain"], "rb").read()
    place, size = wanted["place"], wanted["size"]
    hidden = len(plain) if place == "hidden" else 0
    start = {"normal": 131072, "backup": 131072, "old": 512, "hidden": size - 131072 - len(plain), "system": wanted["start"] or 65536}[place]
    keys = os.urandom(256)
    header = bytearray(448)
    header[0:4] = wanted["magic"].encode()
    version, program = (5, 0x010B) if wanted["magic"] == "VERA" else (5, 0x0700)
    mode = wanted["mode"]
    struct.pack_into(">HH", header, 4, (3 if mode == "xts" else 2) if place == "old" else version, program)
    struct.pack_into(">QQQQ", header, 28, hidden, len(plain), start, len(plain))
    struct.pack_into(">II", header, 60, 1 if place == "system" else 0, 512)
    header[192:] = keys
    for at, value in wanted["change"]:
        header[at:at + len(value) // 2] = bytes.fromhex(value)
    with_checksums(header)
    salt = os.urandom(64)
    password = with_key_files(bytes.fromhex(wanted["password"]), wanted["key_files"], wanted["magic"])
    material = derive(wanted["hash"], password, salt, wanted["iterations"])
    if mode == "cbc":
        encrypted = in_cbc(chain, material, bytes(header), None), in_cbc(chain, keys, plain, 1)
    elif mode == "lrw":
        encrypted = in_lrw(chain[0], material, bytes(header)), in_lrw(chain[0], keys, plain)
    else:
        encrypted = encrypt(chain, material, bytes(header), 448, 0), encrypt(chain, keys, plain, 512, start // 512)
    at = {"normal": 0, "old": 0, "hidden": 65536, "backup": size - 131072, "system": 31744}[place]
    if not os.path.exists(wanted["path"]):
        open(wanted["path"], "wb").write(os.urandom(size))
    with open(wanted["path"], "r+b") as volume:
        volume.seek(at)
        volume.write(salt + encrypted[0])
        volume.seek(start)
        volume.write(encrypted[1])
    if wanted["defects"]:
        with open(wanted["headers"], "wb") as out:
            out.writelines(with_defects(wanted["defects"], header, salt, chain, material))


main()
