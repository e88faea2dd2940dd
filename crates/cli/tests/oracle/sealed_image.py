"""A sealed image by FORMATS.md alone ("Sealed flash"): Python's hashlib and hmac, and ChaCha20-Poly1305 of RFC 8439 spelled out.

    sealed_image.py IMAGE STORE KEY JSON OUT    checks every unit and the record; writes what is inside to OUT

KEY is the volume key in hexadecimal, JSON what flash_header.py says of the header, with the bytes of its place in "first".
"""
import hashlib, hmac, json, struct, sys

M32 = 0xFFFFFFFF


def chacha(key, counter, nonce):
    state = [*struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce)]
    w = state[:]
    for _ in range(10):
        for a, b, c, d in (
            (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
            (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
        ):
            for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                w[x] = w[x] + w[y] & M32
                w[z] ^= w[x]
                w[z] = w[z] << turn & M32 | w[z] >> 32 - turn
    return struct.pack("<16I", *(a + b & M32 for a, b in zip(w, state)))


def poly1305(key, message):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at : at + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    return (total + int.from_bytes(key[16:], "little") & (1 << 128) - 1).to_bytes(16, "little")


def opened(key, nonce, associated, data, tag):
    def padded(part):
        return part + bytes(-len(part) % 16)

    lengths = struct.pack("<QQ", len(associated), len(data))
    wanted = poly1305(chacha(key, 0, nonce)[:32], padded(associated) + padded(data) + lengths)
    if wanted != tag:
        return None
    stream = b"".join(chacha(key, 1 + at, nonce) for at in range(-(-len(data) // 64)))
    return bytes(a ^ b for a, b in zip(data, stream))


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


class Volume:
    def __init__(self, image, store, volume_key, header):
        assert (header["cipher"], header["tag"], header["level"]) == ("chacha20-poly1305", 16, 1)
        _, prog, self.erase, _ = header["sizes"]
        self.data, self.store = image[header["first"] :], store
        whole = lambda size: -(-size // prog) * prog
        self.slot = whole(5 + 16 + 11) if header["tickets"] == 0 else 0
        self.units = (self.erase - self.slot) // whole(header["unit"] + 21)
        self.stride = (self.erase - self.slot) // self.units // prog * prog
        self.payload = (self.stride - 21) // 4 * 4
        assert self.payload == header["unit"], "the header's payload comes out of the layout"
        secret = mac(bytes.fromhex(header["uuid"]), volume_key)
        label = b"atrest sealed flash 1ChaCha20-Poly1305"
        sizes = struct.pack("<IIII", 16, self.stride, self.units, self.slot)
        self.unit_key, self.sum_key, self.record_key, mark = (
            mac(secret, label, sizes, purpose, b"\1") for purpose in (b"u", b"s", b"a", b"m")
        )
        self.mark = mark[:2]

    def unit(self, block, unit, epoch):
        """Serial and payload, or None if it does not verify. Unit 0 has its serial for epoch."""
        cell = self.data[block * self.erase + unit * self.stride :][: self.stride]
        data, serial, tag = cell[: self.payload], cell[self.payload :][:5], cell[self.payload + 5 :][:16]
        epoch = serial if epoch is None else epoch
        payload = opened(self.unit_key, serial + bytes(7), b"\1" + struct.pack("<II", block, unit) + epoch, data, tag)
        assert payload is None or not any(cell[self.payload + 21 :]), "what fills a unit is zeros"
        return None if payload is None else (serial, payload)

    def read(self):
        """What is inside, checked against the record."""
        inside, total, newest, held = [], 0, 0, 0
        for block in range(len(self.data) // self.erase):
            first = None if self.data[block * self.erase :][:64] == b"\xff" * 64 else self.unit(block, 0, None)
            payloads, last = [], -1
            for unit in range(self.units) if first else ():
                found = self.unit(block, unit, first[0])
                if found is None:
                    break
                serial = int.from_bytes(found[0], "little")
                assert serial > last, "serials rise in a block"
                last = serial
                payloads.append(found[1])
            if first:
                stamp = struct.pack("<I", block) + first[0] + struct.pack("<H", len(payloads))
                total += int.from_bytes(mac(self.sum_key, stamp)[:16], "little")
                newest, held = max(newest, last), held + 1
            inside.append(b"".join(payloads).ljust(self.units * self.payload, b"\xff"))
        body, tag = self.store[:24], self.store[24:]
        assert body[:2] == self.mark, "the store is another volume's"
        assert body[2] & 1, "not closed in good order"
        assert newest < int.from_bytes(body[3:8], "little"), "newer than the store"
        assert tag == mac(self.record_key, (total % (1 << 128)).to_bytes(16, "little"), body)[:16], "not as anchored"
        return b"".join(inside), held


image, store, key, header, out = sys.argv[1:]
header = json.loads(header)
volume = Volume(open(image, "rb").read(), open(store, "rb").read(), bytes.fromhex(key), header)
inside, held = volume.read()
open(out, "wb").write(inside)
print(json.dumps({"block_size": volume.units * volume.payload, "payload": volume.payload, "held": held}))
