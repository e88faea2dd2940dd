#!/usr/bin/env python3
"""Reads and writes key-value maps by FORMATS.md alone. It shares no code with atrest.

    key_value.py read IMAGE KEY UUID PROG ERASE NAME...    prints {name: [value, attribute]} for the names that have a value,
                                                           and how many values there are
    key_value.py write IMAGE KEY UUID PROG ERASE BLOCKS    writes an image with a map of five names

KEY, UUID and names are hexadecimal, sizes decimal. An image is what the map's medium holds, decrypted.
"""
import hashlib
import hmac
import json
import struct
import sys

VALUE, REMOVED, BEGUN, MOVING, MOVED = 1, 2, 3, 4, 5


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


class Map:
    def __init__(self, key, uuid, prog, erase, blocks):
        least = max(32, -(-erase // 16384))
        self.unit = -(-least // prog) * prog
        self.units, self.blocks, self.erase = erase // self.unit, blocks, erase
        root = mac(uuid, key)
        info = b"atrest key value 1" + struct.pack("<III", self.unit, self.units, blocks)
        self.names, self.tags = (mac(root, info + purpose + b"\x01") for purpose in (b"n", b"t"))

    def id(self, name):
        return mac(self.names, name)[:12]

    def tag(self, block, sequence, unit, fields, value):
        return mac(self.tags, struct.pack("<BIH", block, sequence, unit) + fields + value)[:16]

    def takes(self, length):
        return -(-(32 + length) // self.unit)


class Reader(Map):
    def __init__(self, image, *sizes):
        super().__init__(*sizes)
        self.image = image

    def entry(self, block, sequence, unit):
        """Kind, attribute, length and id of the entry there with its value, or None."""
        start = block * self.erase + unit * self.unit
        fields, tag = self.image[start:start + 16], self.image[start + 16:start + 32]
        kind, attribute, length, name = struct.unpack("<BBH12s", fields)
        size = length if kind == VALUE else 0
        if kind not in (VALUE, REMOVED, BEGUN, MOVING, MOVED) or unit + self.takes(size) > self.units:
            return None
        if sequence is None:
            sequence = struct.unpack("<I", name[:4])[0]
        value = self.image[start + 32:start + 32 + size]
        if self.tag(block, sequence, unit, fields, value) != tag:
            return None
        return kind, attribute, length, name, value

    def entries(self, block, sequence):
        unit = 1
        while unit < self.units:
            entry = self.entry(block, sequence, unit)
            if entry is None or entry[0] in (BEGUN, MOVING):
                return
            yield unit, entry
            unit += self.takes(entry[2] if entry[0] == VALUE else 0)

    def read(self):
        begun = {}
        for block in range(self.blocks):
            entry = self.entry(block, None, 0)
            if entry and entry[0] in (BEGUN, MOVING) and entry[1] == 1:
                sequence, alive = struct.unpack("<IQ", entry[3])
                begun[sequence] = (block, alive, entry[0], entry[2])
        for sequence in sorted(begun, reverse=True):
            block, alive, kind, _ = begun[sequence]
            marks = [unit for unit, entry in self.entries(block, sequence) if entry[0] == MOVED]
            if kind == BEGUN or marks:
                break
        else:
            sys.exit("no map")
        order = sorted(number for number, (block, *_) in begun.items() if alive >> block & 1)
        assert len(order) == bin(alive).count("1"), "a block that counts is missing"
        found = {}
        for number, following in zip(order, order[1:] + [None]):
            block, end = begun[number][0], 1
            for unit, (kind, attribute, length, name, value) in self.entries(block, number):
                if following is not None and unit >= begun[following][3]:
                    break
                end = unit + self.takes(length if kind == VALUE else 0)
                if kind == VALUE:
                    found[name] = value, attribute
                elif kind == REMOVED:
                    found.pop(name, None)
            assert following is None or end == begun[following][3], "a block does not end where the next one says"
        return found


class Writer(Map):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.image = bytearray(b"\xff" * (self.erase * self.blocks))

    def put(self, block, sequence, unit, kind, attribute, length, name, value=b""):
        fields = struct.pack("<BBH12s", kind, attribute, length, name)
        whole = fields + self.tag(block, sequence, unit, fields, value) + value
        whole += bytes(self.takes(len(value)) * self.unit - len(whole))
        start = block * self.erase + unit * self.unit
        self.image[start:start + len(whole)] = whole
        return unit + self.takes(len(value))

    def begin(self, block, sequence, kind, alive, filled):
        bits = sum(1 << block for block in alive)
        return self.put(block, sequence, 0, kind, 1, filled, struct.pack("<IQ", sequence, bits))

    def value(self, block, sequence, unit, name, value, attribute=0):
        return self.put(block, sequence, unit, VALUE, attribute, len(value), self.id(name), value)


def example(writer):
    """Block 2 was begun first and still counts, block 0 took over what counted of another one, and block 1 never came to count."""
    unit = writer.begin(2, 7, BEGUN, [2, 3], 9)
    unit = writer.value(2, 7, unit, b"old", b"older value")
    unit = writer.value(2, 7, unit, b"kept", bytes(range(100)), 5)
    filled = writer.value(2, 7, unit, b"gone", b"removed later")
    unit = writer.begin(0, 8, MOVING, [2, 0], filled)
    unit = writer.value(0, 8, unit, b"moved", b"from block 3", 255)
    unit = writer.put(0, 8, unit, MOVED, 0, 0, bytes(12))
    unit = writer.value(0, 8, unit, b"old", b"")
    unit = writer.put(0, 8, unit, REMOVED, 0, 0, writer.id(b"gone"))
    writer.value(0, 8, unit, b"new", b"\x00\xff")
    unit = writer.begin(1, 9, MOVING, [0, 1], unit)
    writer.value(1, 9, unit, b"kept", b"it was to be moved")


def main():
    mode, path, key, uuid, prog, erase, *rest = sys.argv[1:]
    sizes = bytes.fromhex(key), bytes.fromhex(uuid), int(prog), int(erase)
    if mode == "write":
        writer = Writer(*sizes, int(rest[0]))
        example(writer)
        open(path, "wb").write(writer.image)
        return
    image = open(path, "rb").read()
    reader = Reader(image, *sizes, len(image) // int(erase))
    found = reader.read()
    names = {name: found.get(reader.id(bytes.fromhex(name))) for name in rest}
    values = {name: [value[0].hex(), value[1]] for name, value in names.items() if value is not None}
    print(json.dumps({"values": values, "count": len(found)}))


main()
