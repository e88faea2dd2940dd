"""A FIDO2 security key on a Unix socket, by `cryptography` and hashlib, which share no code with ours: authenticator.py JSON.

It speaks the reports of CTAPHID, one after the other: getInfo, clientPIN with both protocols, makeCredential and getAssertion with
hmac-secret (CTAP 2.1). The JSON has: path, state (a file that keeps its secrets), pin (text or null), protocols (list), options (map),
touch (whether it waits for a touch, which comes after two keep-alives), fault (what it does wrong, or null).
"""

import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import threading
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

WANTED = json.loads(sys.argv[1])
P256 = ec.SECP256R1()
LOCK = threading.Lock()


def sha(data):
    return hashlib.sha256(data).digest()


def mac(key, data):
    return hmac.new(key, data, "sha256").digest()


def number(head, value):
    for size, code in ((1, 24), (2, 25), (4, 26), (8, 27)):
        if value < 24:
            return bytes([head | value])
        if value < 256**size:
            return bytes([head | code]) + value.to_bytes(size, "big")


def dump(value):
    """Canonical CBOR, as CTAP wants it."""
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return number(0, value) if value >= 0 else number(0x20, -1 - value)
    if isinstance(value, bytes):
        return number(0x40, len(value)) + value
    if isinstance(value, str):
        return number(0x60, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return number(0x80, len(value)) + b"".join(map(dump, value))
    entries = sorted((dump(key), dump(item)) for key, item in value.items())
    entries.sort(key=lambda entry: (entry[0][0] >> 5, len(entry[0]), entry[0]))
    return number(0xA0, len(value)) + b"".join(key + item for key, item in entries)


def load(data):
    """Reads one value, and checks that it is written as `dump` would."""

    def item(at):
        kind, small = data[at] >> 5, data[at] & 31
        at += 1
        if kind == 7:
            return {20: False, 21: True, 22: None}[small], at
        if small >= 24:
            size = 1 << (small - 24)
            small, at = int.from_bytes(data[at : at + size], "big"), at + size
        if kind == 0:
            return small, at
        if kind == 1:
            return -1 - small, at
        if kind in (2, 3):
            text = data[at : at + small]
            assert len(text) == small
            return (text if kind == 2 else text.decode()), at + small
        items = []
        for _ in range(small if kind == 4 else 2 * small):
            value, at = item(at)
            items.append(value)
        return (items if kind == 4 else dict(zip(items[::2], items[1::2]))), at

    value, end = item(0)
    assert end == len(data) and dump(value) == data, "it is not canonical"
    return value


class Refused(Exception):
    pass


class State:
    """What is kept: a master secret, and how many wrong PINs there were."""

    def __init__(self):
        if os.path.exists(WANTED["state"]):
            kept = json.load(open(WANTED["state"]))
            self.master, self.left = bytes.fromhex(kept["master"]), kept["left"]
        else:
            self.master, self.left = os.urandom(32), 8
            self.keep()
        self.now = 3
        self.key = ec.generate_private_key(P256)
        self.token = os.urandom(32)
        self.permissions = None

    def keep(self):
        json.dump({"master": self.master.hex(), "left": self.left}, open(WANTED["state"], "w"))


STATE = State()


class Shared:
    def __init__(self, protocol, cose):
        if protocol not in WANTED["protocols"]:
            raise Refused(0x02)
        assert cose[1] == 2 and cose[3] == -25 and cose[-1] == 1 and set(cose) == {1, 3, -1, -2, -3}
        x, y = (int.from_bytes(cose[at], "big") for at in (-2, -3))
        z = STATE.key.exchange(ec.ECDH(), ec.EllipticCurvePublicNumbers(x, y, P256).public_key())
        self.protocol = protocol
        derive = lambda info: HKDF(hashes.SHA256(), 32, bytes(32), info).derive(z)
        self.mac, self.cipher = (
            (sha(z), sha(z)) if protocol == 1 else (derive(b"CTAP2 HMAC key"), derive(b"CTAP2 AES key"))
        )

    def check(self, key, data, tag):
        whole = mac(key, data)
        if not hmac.compare_digest(whole if self.protocol == 2 else whole[:16], tag):
            raise Refused(0x33)

    def decrypt(self, data):
        iv, data = (data[:16], data[16:]) if self.protocol == 2 else (bytes(16), data)
        decryptor = Cipher(algorithms.AES(self.cipher), modes.CBC(iv)).decryptor()
        return decryptor.update(data) + decryptor.finalize()

    def encrypt(self, data):
        iv = os.urandom(16) if self.protocol == 2 else bytes(16)
        encryptor = Cipher(algorithms.AES(self.cipher), modes.CBC(iv)).encryptor()
        out = encryptor.update(data) + encryptor.finalize()
        return iv + out if self.protocol == 2 else out


def has(option, otherwise=False):
    return WANTED["options"].get(option, otherwise)


def info():
    options = {"rk": False, **WANTED["options"]}
    options["clientPin"] = WANTED["pin"] is not None
    extensions = [] if WANTED["fault"] == "no secrets" else ["credProtect", "hmac-secret"]
    answer = {1: ["FIDO_2_0", "FIDO_2_1"], 2: extensions, 3: bytes(range(16)), 4: options, 5: 1200}
    answer[6] = WANTED["protocols"]
    return answer


def client_pin(asked):
    if asked[2] == 1:
        return {3: STATE.left}
    if asked[2] == 2:
        point = STATE.key.public_key().public_numbers()
        x, y = (value.to_bytes(32, "big") for value in (point.x, point.y))
        if WANTED["fault"] == "off the curve":
            y = bytes([y[0] ^ 1]) + y[1:]
        return {1: {1: 2, 3: -25, -1: 1, -2: x, -3: y}}
    assert asked[2] in (5, 9)
    if WANTED["pin"] is None:
        raise Refused(0x35)
    if STATE.left == 0:
        raise Refused(0x32)
    if STATE.now == 0:
        raise Refused(0x34)
    if (asked[2] == 9) != bool(has("pinUvAuthToken")):
        raise Refused(0x3E)
    shared = Shared(asked[1], asked[3])
    STATE.left, STATE.now = STATE.left - 1, STATE.now - 1
    STATE.keep()
    if shared.decrypt(asked[6]) != sha(WANTED["pin"].encode())[:16]:
        STATE.key = ec.generate_private_key(P256)
        raise Refused(0x32 if STATE.left == 0 else 0x34 if STATE.now == 0 else 0x31)
    STATE.left, STATE.now = 8, 3
    STATE.keep()
    STATE.token = os.urandom(32)
    STATE.permissions = (asked[9], asked[10]) if asked[2] == 9 else None
    return {2: shared.encrypt(STATE.token)}


def verified(asked, tag, protocol, permission, rp):
    """Whether a PIN was shown."""
    if tag not in asked:
        return False
    whole = mac(STATE.token, asked[{8: 1, 6: 2}[tag]])
    if not hmac.compare_digest(whole if asked[protocol] == 2 else whole[:16], asked[tag]):
        raise Refused(0x33)
    if STATE.permissions and (not STATE.permissions[0] & permission or STATE.permissions[1] != rp):
        raise Refused(0x33)
    return True


def wrapped(rp):
    """A credential is a nonce and a tag: what belongs to it is derived."""
    nonce = os.urandom(32)
    return nonce + mac(STATE.master, b"credential" + nonce + sha(rp.encode()))


def is_ours(rp, credential):
    return len(credential) == 64 and credential[32:] == mac(STATE.master, b"credential" + credential[:32] + sha(rp.encode()))


def signing_key(credential):
    secret = int.from_bytes(mac(STATE.master, b"sign" + credential), "big") % (2**255)
    return ec.derive_private_key(secret, P256)


def make_credential(asked, alive):
    rp = asked[2]["id"]
    assert {"alg": -7, "type": "public-key"} in asked[4]
    verified_now = verified(asked, 8, 9, 1, rp)
    if WANTED["pin"] is not None and not verified_now:
        raise Refused(0x36)
    touched(alive)
    credential = wrapped(rp)
    key = signing_key(credential)
    point = key.public_key().public_numbers()
    x, y = (value.to_bytes(32, "big") for value in (point.x, point.y))
    extensions = {"hmac-secret": True} if asked.get(6, {}).get("hmac-secret") else {}
    flags = 1 | 4 * verified_now | 0x40 | 0x80 * bool(extensions)
    data = sha(rp.encode()) + struct.pack(">BI", flags, 1) + bytes(range(16)) + struct.pack(">H", 64) + credential
    data += dump({1: 2, 3: -7, -1: 1, -2: x, -3: y})
    data += dump(extensions) if extensions else b""
    signature = key.sign(data + asked[1], ec.ECDSA(hashes.SHA256()))
    return {1: "packed", 2: data, 3: {"alg": -7, "sig": signature}}


def touched(alive):
    if WANTED["touch"]:
        for _ in range(2):
            alive(2)
            time.sleep(0.01)


def get_assertion(asked, alive):
    rp, options = asked[1], asked.get(5, {})
    ours = [entry["id"] for entry in asked[3] if is_ours(rp, entry["id"])]
    verified_now = verified(asked, 6, 7, 2, rp) or bool(options.get("uv") and has("uv"))
    if options.get("uv") and not has("uv"):
        raise Refused(0x2B)
    if has("alwaysUv") and not verified_now:
        raise Refused(0x36)
    if not ours:
        raise Refused(0x2E)
    up, credential = options.get("up", has("up", True)), ours[0]
    if up and not has("up", True):
        raise Refused(0x2B)
    extensions = {}
    if wanted := asked.get(4, {}).get("hmac-secret"):
        if not up and has("up", True) and WANTED["touch"]:
            raise Refused(0x2B)
        shared = Shared(wanted.get(4, 1), wanted[1])
        shared.check(shared.mac, wanted[2], wanted[3])
        salt = shared.decrypt(wanted[2])
        assert len(salt) in (32, 64)
        if WANTED["fault"] == "flag flipped":
            verified_now = not verified_now
        # One secret for whoever was verified, another for anybody.
        secret = mac(STATE.master, (b"verified" if verified_now else b"anybody") + credential)
        out = b"".join(mac(secret, salt[at : at + 32]) for at in range(0, len(salt), 32))
        extensions["hmac-secret"] = shared.encrypt(out)
        if WANTED["fault"] == "short secret":
            extensions["hmac-secret"] = shared.encrypt(out[:16])
    if up:
        touched(alive)
    flags = 1 * up | 4 * verified_now | 0x80 * bool(extensions)
    data = sha(rp.encode()) + struct.pack(">BI", flags, 2) + (dump(extensions) if extensions else b"")
    if WANTED["fault"] == "another party":
        data = sha(b"another") + data[32:]
    signature = signing_key(credential).sign(data + asked[2], ec.ECDSA(hashes.SHA256()))
    return {1: {"id": credential, "type": "public-key"}, 2: data, 3: signature}


def answered(message, alive):
    code, parameters = message[0], message[1:]
    fault = WANTED["fault"]
    if fault == "for ever alive":
        while True:
            alive(1)
            time.sleep(0.05)
    try:
        if code == 4:
            answer = info()
        elif code == 6:
            answer = client_pin(load(parameters))
        elif code == 1:
            answer = make_credential(load(parameters), alive)
        elif code == 2:
            answer = get_assertion(load(parameters), alive)
        else:
            raise Refused(0x01)
    except Refused as refused:
        return bytes(refused.args)
    if fault == "garbage" and code != 4:
        return b"\0\xbf\xff"
    if fault == "nothing" and code != 4:
        return b"\0"
    if fault == "trailing" and code != 4:
        return b"\0" + dump(answer) + b"\0"
    return b"\0" + dump(answer)


def report(data):
    return data.ljust(64, b"\0")


def serve(connection):
    channel = b"\1\2\3\4"

    def receive():
        data = b""
        while len(data) < 64:
            more = connection.recv(64 - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def send(to, command, message):
        connection.sendall(report(to + struct.pack(">BH", command, len(message)) + message[:57]))
        for at, number in zip(range(57, len(message), 59), range(128)):
            connection.sendall(report(to + bytes([number]) + message[at : at + 59]))

    while True:
        first = receive()
        to, command, length = first[:4], first[4], struct.unpack(">H", first[5:7])[0]
        message = first[7 : 7 + length]
        number = 0
        while len(message) < length:
            more = receive()
            assert more[:4] == to and more[4] == number
            message += more[5 : 5 + length - len(message)]
            number += 1
        if command == 0x86:
            send(to, 0x86, message + channel + bytes([2, 1, 0, 0, 4]))
        elif command == 0x90:
            assert to == channel
            if WANTED["fault"] == "oversized":
                connection.sendall(report(channel + b"\x90\xff\xff"))
            elif WANTED["fault"] == "endless reports" and message[0] != 4:
                # Of the longest message, which does not end where it says.
                connection.sendall(report(channel + b"\x90\x1d\xb9" + bytes(57)))
                while True:
                    for number in range(128):
                        connection.sendall(report(channel + bytes([number]) + bytes(59)))
            elif WANTED["fault"] == "endless talk" and message[0] != 4:
                # With somebody else.
                while True:
                    connection.sendall(report(b"\1\2\3\5\x90\x00\x10"))
            elif WANTED["fault"] == "gone" and message[0] != 4:
                return
            elif WANTED["fault"] != "silent":
                with LOCK:
                    answer = answered(message, lambda status: send(channel, 0xBB, bytes([status])))
                send(channel, 0x90, answer)


def connected(connection):
    try:
        serve(connection)
    except (EOFError, ConnectionError):
        pass
    connection.close()


listener = socket.socket(socket.AF_UNIX)
listener.bind(WANTED["path"])
listener.listen()
while True:
    threading.Thread(target=connected, args=(listener.accept()[0],), daemon=True).start()
