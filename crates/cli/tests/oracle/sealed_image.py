"""A sealed image by FORMATS.md alone ("Sealed flash"): Python's hashlib and hmac, and ChaCha20-Poly1305 of RFC 8439 spelled out.

    sealed_image.py IMAGE STORE KEY JSON OUT    checks every byte of every block, and the record; writes what is inside to OUT

The volume was closed in good order, and never lost power: what is not blank verifies.

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
        assert (header["cipher"], header["tag"], header["level"]) == ("chacha20-poly1305", 16, 2)
        _, prog, self.erase, _ = header["sizes"]
        self.data, self.store = image[header["first"] :], store
        whole = lambda size: -(-size // prog) * prog
        self.slot = whole(5 + 16 + 18) if header["tickets"] == 0 else 0
        self.head, behind = whole(14), 21
        if self.head > 32 and self.head > self.erase // 64:
            self.head, behind = 0, 35
        room = self.erase - self.slot - self.head
        self.units = room // whole(header["unit"] + behind)
        self.stride = room // self.units // prog * prog
        self.payload = (self.stride - behind) // 4 * 4
        assert self.payload == header["unit"], "the header's payload comes out of the layout"
        secret = mac(bytes.fromhex(header["uuid"]), volume_key)
        label = b"atrest sealed flash 2ChaCha20-Poly1305"
        sizes = struct.pack("<IIIII", 16, self.stride, self.units, self.slot, self.head)
        self.unit_key, self.sum_key, self.record_key, mark = (
            mac(secret, label, sizes, purpose, b"\1") for purpose in (b"u", b"s", b"a", b"m")
        )
        self.mark = mark[:2]

    def cell(self, at, size, kind, block, number, epoch, length, salt):
        """Serial and content of what is sealed there; None if it is blank. A unit without an epoch is a first one, whose serial that is."""
        cell = self.data[at : at + size]
        if cell == b"\xff" * size:
            return None
        data, serial, tag = cell[:length], cell[length:][:5], cell[length + 5 :][:16]
        associated = kind + struct.pack("<II", block, number) + (serial if epoch is None else epoch)
        plain = opened(self.unit_key, serial + (salt or cell[-7:]), associated, data, tag)
        assert plain is not None, f"byte {at}: block {block}, {number}: does not verify"
        assert not any(cell[length + 21 : -14 if salt is None else size]), "what fills a cell is zeros"
        assert salt is not None or cell[-14:-7] == cell[-7:], "the salt stands twice"
        serial = int.from_bytes(serial, "little")
        assert serial not in self.serials, "a serial is used once"
        self.serials.add(serial)
        return serial, plain

    def block(self, block):
        """Serials and payloads of its units, and its ticket."""
        at, units, epoch, salt = block * self.erase, [], None, None
        for unit in range(self.units):
            start, size = (0, self.head + self.stride) if unit == 0 else (self.head + unit * self.stride, self.stride)
            found = self.cell(at + start, size, b"\1", block, unit, epoch, self.payload, salt)
            if found is None:
                break
            units.append(found)
            salt = salt or self.data[at + size - 7 : at + size]
            epoch = units[0][0].to_bytes(5, "little")
        assert [serial for serial, _ in units] == sorted(serial for serial, _ in units), "serials rise in a block"
        rest = self.data[at + (len(units) * self.stride + self.head if units else 0) : at + self.erase - self.slot]
        self.salts[block] = salt
        assert rest == b"\xff" * len(rest), f"block {block}: something behind its {len(units)} units"
        if self.slot == 0:
            return units, None
        ticket = self.cell(at + self.erase - self.slot, self.slot, b"\2", block, self.units, epoch or bytes(5), 18, salt or bytes(7))
        assert ticket is None or units and ticket[0] > units[0][0], "a ticket is in a block that holds something"
        return units, ticket

    def read(self):
        """What is inside, checked against the record."""
        self.serials, self.salts = set(), {}
        blocks = [self.block(block) for block in range(len(self.data) // self.erase)]
        inside, total = [], 0
        for block, (units, ticket) in enumerate(blocks):
            if units:
                stamp = struct.pack("<I", block) + units[0][0].to_bytes(5, "little") + struct.pack("<H", len(units)) + self.salts[block]
                total += int.from_bytes(mac(self.sum_key, stamp)[:16], "little")
            inside.append(b"".join(payload for _, payload in units).ljust(self.units * self.payload, b"\xff"))
            if ticket:
                serial, (victim, epoch, fill) = ticket[0], (ticket[1][:4], ticket[1][4:9], ticket[1][9:11])
                assert int.from_bytes(epoch, "little") < serial and 0 < int.from_bytes(fill, "little") <= self.units
                now = blocks[int.from_bytes(victim, "little")][0]
                assert not now or now[0][0] > serial, "what was announced was erased"
        body, header, tag = self.store[:34], self.store[34:64], self.store[64:]
        anchor = int.from_bytes(body[4:9], "little")
        assert body[2] == 2, "another version"
        assert body[:2] == self.mark, "the store is another volume's"
        assert body[3] & 1, "not closed in good order"
        assert not body[3] & 2 and not any(body[16:]), "no erase is under way"
        assert body[3] >> 3 >= 3
        assert max(self.serials) < anchor, "newer than the store"
        assert tag == mac(self.record_key, (total % (1 << 128)).to_bytes(16, "little"), body)[:16], "not as anchored"
        tickets = sum(ticket is not None for _, ticket in blocks)
        return b"".join(inside), sum(bool(units) for units, _ in blocks), len(self.serials) - tickets, tickets


image, store, key, header, out = sys.argv[1:]
header = json.loads(header)
volume = Volume(open(image, "rb").read(), open(store, "rb").read(), bytes.fromhex(key), header)
inside, held, units, tickets = volume.read()
open(out, "wb").write(inside)
sizes = {"block_size": volume.units * volume.payload, "payload": volume.payload, "stride": volume.stride}
sizes["head"] = volume.head
print(json.dumps({**sizes, "held": held, "units": units, "tickets": tickets}))
