# Reads a token of several factors as FORMATS.md describes it, with OpenSSL's curve, the reference Argon2 and Python's integers.
# sys.argv[1]: {"token": {...}, "secrets": {"1": "passphrase or recovery key", ...}}. Prints the passphrase of the keyslot.
import base64, ctypes, hashlib, hmac, json, sys
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

P = 2**256 - 189
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
b64 = base64.b64decode


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def hkdf(salt, secret, info):
    return mac(mac(salt, secret), info, b"\x01")


def secret_of(how, typed):
    if how["type"] != "passphrase":
        return typed.encode()
    out = ctypes.create_string_buffer(32)
    salt = b64(how["salt"])
    library = ctypes.CDLL("libargon2.so.1")
    size = ctypes.c_size_t
    cost = [ctypes.c_uint32(how[name]) for name in ("time", "memory", "lanes")]
    text = typed.encode()
    code = library.argon2id_hash_raw(*cost, text, size(len(text)), salt, size(len(salt)), out, size(32))
    assert code == 0, code
    return out.raw


def private(secret, salt):
    for counter in range(8):
        number = int.from_bytes(hkdf(salt, secret, b"atrest factor key 1" + bytes([counter])), "big")
        if 0 < number < ORDER:
            return ec.derive_private_key(number, ec.SECP256R1())


asked = json.loads(sys.argv[1])
token = asked["token"]
identifier = b64(token["set"])
text = b"atrest shares 1\0" + identifier + bytes([token["threshold"], len(token["factors"])])
for factor in token["factors"]:
    how = json.dumps(factor["how"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    text += bytes([factor["number"]]) + b64(factor["salt"]) + b64(factor["key"]) + b64(factor["commitment"])
    text += len(how).to_bytes(8, "big") + how
described = hashlib.sha256(text).digest()
points = []
for factor in token["factors"]:
    typed = asked["secrets"].get(str(factor["number"]))
    if typed is None:
        continue
    own = private(secret_of(factor["how"], typed), b64(factor["salt"]))
    ephemeral, key = b64(factor["ephemeral"]), b64(factor["key"])
    shared = own.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), ephemeral))
    number = bytes([factor["number"]])
    share_key = hkdf(identifier, shared, b"atrest share 1" + number + ephemeral + key)
    value = AESGCM(share_key).decrypt(bytes(12), b64(factor["share"]), described)
    commitment = hashlib.sha256(b"atrest share commitment 1\0" + identifier + number + value).digest()
    assert commitment == b64(factor["commitment"])
    points.append((factor["number"], int.from_bytes(value, "big")))
points = points[: token["threshold"]]
assert len(points) == token["threshold"]
secret = 0
for x, y in points:
    for other, _ in points:
        if other != x:
            y = y * other * pow(other - x, -1, P) % P
    secret = (secret + y) % P
passphrase = hkdf(bytes(32), secret.to_bytes(32, "big"), b"atrest shares keyslot 1")
if "volume_key" in asked:
    subkey = hkdf(bytes(32), bytes.fromhex(asked["volume_key"]), b"atrest shares 1")
    assert mac(subkey, described) == b64(token["mac"]), "the MAC"
sys.stdout.write(base64.b64encode(passphrase).decode())
