"""The flash header by FORMATS.md alone: Python's hashlib and hmac, and the key wrap of the openssl command.

    flash_header.py open FILE PASSPHRASE-FILE...  prints what both copies say, and the volume key that each passphrase opens in each keyslot
    flash_header.py make FILE JSON                writes both copies of a header as JSON describes it
"""
import hashlib, hmac, json, struct, subprocess, sys
from math import ceil

CIPHERS = {
    1: "aes-xts-plain64", 2: "xchacha12,aes-adiantum-plain64", 3: "xchacha20,aes-adiantum-plain64",
    4: "xchacha12,aes-hpolyc-plain64", 5: "xchacha20,aes-hpolyc-plain64", 6: "aes-hctr2-plain64",
    7: "aes-cbc-essiv:sha256", 8: "aes-xex1-plain64", 9: "serpent-xts-plain64",
    129: "ascon-aead128", 130: "chacha20-poly1305", 131: "aes-ccm", 132: "aes-gcm",
}
PARAMS = struct.Struct("<8sHBBBBBBQ16sIIIQI")
assert PARAMS.size == 64


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def key_wrap(direction, key, data):
    """RFC 3394 by OpenSSL. None if the check fails."""
    command = ["openssl", "enc", "-id-aes256-wrap", direction, "-K", key.hex(), "-iv", "A6" * 8]
    done = subprocess.run(command, input=data, capture_output=True)
    return done.stdout if done.returncode == 0 and done.stdout else None


def level(double, lam, garlic, salt, x):
    """One garlic of Catena: the initial rows, Gamma from the salt, and the graph."""
    n = 1 << garlic
    before, last = sha(b"\1", x), sha(b"\0", x)
    v = []
    for _ in range(n):
        before, last = last, sha(last, before)
        v.append(last)
    seed = sha(salt)
    while len(seed) < 128:
        seed += sha(seed[-32:])
    state, p = list(struct.unpack("<16Q", seed[:128])), 0
    m = (1 << 64) - 1

    def random():
        nonlocal p
        s0, p = state[p], (p + 1) % 16
        s1 = state[p]
        s1 ^= s1 << 31 & m
        s1 ^= s1 >> 11 ^ s0 ^ s0 >> 30
        state[p] = s1
        return (s1 * 1181783497276652981 & m) >> 64 - garlic

    for _ in range(1 << ceil(garlic * 3 / 4)):
        a, b = random(), random()
        v[a] = sha(v[a], v[b])
    rows = [*range(garlic - 1, -1, -1), *range(1, garlic)] if double else [None]
    for _ in range(lam):
        for row in rows:
            r = []
            for i in range(n):
                left = r[-1] if r else v[-1]
                if row is None:
                    right = v[int(format(i, f"0{garlic}b")[::-1], 2)]
                else:
                    left = bytes(a ^ b for a, b in zip(left, v[i]))
                    right = v[i ^ 1 << row]
                node = sha(left, right)
                r.append(node if i else sha(b"\0", node))
            v = r
    return v[-1]


def catena(double, lam, first, garlic, passphrase, salt):
    tweak = bytes([1, lam, 32, len(salt)])
    version = b"Butterfly-Full" if double else b"Dragonfly-Full"
    x = sha(sha(version), tweak, sha(), passphrase, salt)
    x = level(double, lam, ceil(first / 2), salt, x)
    for g in range(first, garlic + 1):
        x = sha(bytes([g]), level(double, lam, g, salt, x))
    return x


def derive(slot, passphrase):
    number, salt = slot[2], slot[16:32]
    if number == 1:
        return hashlib.pbkdf2_hmac("sha256", passphrase, salt, struct.unpack_from("<I", slot, 3)[0])
    if number in (2, 3):
        return catena(number == 3, *slot[3:6], passphrase, salt)
    sys.exit(f"derivation {number} is not here")


def wrapping_key(params, slot, passphrase):
    fields = bytearray(params)
    fields[16:24] = bytes(8)
    return mac(derive(slot, passphrase), b"atrest flash keyslot v1\0", fields, slot[:32])


def copy_len(erase):
    return -(-512 // erase) * erase


def parse(header, passphrases):
    assert header[480:] == sha(header[:480]), "checksum"
    magic, version, cipher, key_len, level, tag, store, tickets, sequence, uuid, read, prog, erase, blocks, unit = (
        PARAMS.unpack_from(header)
    )
    assert (magic, version) == (b"\x93atrest\n", 1)
    out = {
        "cipher": CIPHERS[cipher], "key_len": key_len, "level": level, "tag": tag, "store": store, "tickets": tickets,
        "sequence": sequence, "uuid": uuid.hex(), "sizes": [read, prog, erase, blocks], "unit": unit, "slots": {},
    }
    for n in range(4):
        slot = header[64 + 104 * n :][:104]
        if slot[0] == 0:
            assert not any(slot), f"keyslot {n} is free and not zeros"
            continue
        if slot[0] == 2:
            # The volume key of before, while that is rotated; the new one opens it.
            assert level == 2 and not any(slot[1:32]) and not any(slot[40 + key_len :]), f"keyslot {n}"
            out["previous"] = {"slot": n, "wrapped": slot[32 : 40 + key_len].hex()}
            continue
        assert slot[0] == 1 and slot[1] == 0 and slot[15] == 0 and not any(slot[40 + key_len :]), f"keyslot {n}"
        keys = (
            key_wrap("-d", wrapping_key(header[:64], slot, passphrase), slot[32 : 40 + key_len])
            for passphrase in passphrases
        )
        out["slots"][n] = [key and key.hex() for key in keys]
    return out


def make(wanted):
    key = bytes.fromhex(wanted["key"])
    code = next(code for code, name in CIPHERS.items() if name == wanted["cipher"])
    params = PARAMS.pack(
        b"\x93atrest\n", 1, code, len(key), wanted["level"], wanted["tag"], wanted["store"], wanted["tickets"],
        wanted["sequence"], bytes.fromhex(wanted["uuid"]), *wanted["sizes"], wanted["unit"],
    )
    header = bytearray(params + bytes(448))
    for n, slot in wanted["slots"].items():
        start = bytes([1, 0]) + bytes.fromhex(slot["kdf"]).ljust(13, b"\0") + b"\0" + bytes.fromhex(slot["salt"])
        wrapping = wrapping_key(params, start, slot["passphrase"].encode())
        at = 64 + 104 * int(n)
        header[at : at + 40 + len(key)] = start + key_wrap("-e", wrapping, key)
    header[480:] = sha(header[:480])
    return bytes(header)


def main():
    verb, path, *rest = sys.argv[1:]
    if verb == "make":
        wanted = json.loads(rest[0])
        header = make(wanted)
        with open(path, "r+b") as image:
            image.write(header)
            image.seek(copy_len(wanted["sizes"][2]))
            image.write(header)
        print(header.hex())
        return
    image = open(path, "rb").read()
    first = image[:512]
    found = parse(first, [open(name, "rb").read() for name in rest])
    at = copy_len(found["sizes"][2])
    assert image[at : at + 512] == first, "the copies differ"
    # Behind a copy nothing is programmed, but for what fills its last prog unit.
    assert set(image[512:at] + image[at + 512 : 2 * at]) <= {0xFF}, "something is behind a copy"
    print(json.dumps(found))


main()
