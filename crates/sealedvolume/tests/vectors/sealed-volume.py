# Makes the vectors in vectors.rs from FORMATS.md. Standard library alone; ChaCha20-Poly1305 (RFC 8439), HKDF (RFC 5869).
import hmac, hashlib, struct


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def expand(prk, info, length):
    out, block = b'', b''
    for i in range(1, (length + 31) // 32 + 1):
        block = mac(prk, block + info + bytes([i]))
        out += block
    return out[:length]


def chacha(key, counter, nonce):
    start = list(struct.unpack('<16I', b'expand 32-byte k' + key + struct.pack('<I', counter) + nonce))
    w = start[:]

    def turn(i, j, by):
        x = w[i] ^ w[j]
        w[i] = (x << by | x >> 32 - by) & 0xffffffff

    def quarter(a, b, c, d):
        for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            w[x] = (w[x] + w[y]) & 0xffffffff
            turn(z, x, by)
    for _ in range(10):
        for q in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                  (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            quarter(*q)
    return struct.pack('<16I', *((a + b) & 0xffffffff for a, b in zip(w, start)))


def poly(key, message):
    r = int.from_bytes(key[:16], 'little') & 0x0ffffffc0ffffffc0ffffffc0fffffff
    sum = 0
    for i in range(0, len(message), 16):
        sum = (sum + int.from_bytes(message[i:i + 16] + b'\1', 'little')) * r % ((1 << 130) - 5)
    return ((sum + int.from_bytes(key[16:], 'little')) % (1 << 128)).to_bytes(16, 'little')


def pad(x):
    return x + bytes(-len(x) % 16)


def seal(key, nonce, associated, plain):
    stream = b''.join(chacha(key, 1 + i, nonce) for i in range((len(plain) + 63) // 64))
    data = bytes(a ^ b for a, b in zip(plain, stream))
    lengths = struct.pack('<QQ', len(associated), len(data))
    return data + poly(chacha(key, 0, nonce)[:32], pad(associated) + pad(data) + lengths)


# RFC 8439, 2.8.2
plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
assert seal(bytes(range(0x80, 0xa0)), bytes.fromhex('070000004041424344454647'),
            bytes.fromhex('50515253c0c1c2c3c4c5c6c7'), plain)[-16:].hex() == '1ae10b594f09e26a7e902ecbd0600691'

volume_key, format_id = bytes(range(32)), bytes(range(0x10, 0x20))
EPOCH = 5
session, salt = bytes(range(0x40, 0x60)), bytes(range(0x60, 0x70))
prk = mac(format_id, volume_key)
chain_key = expand(prk, b'atrest sealed volume 1 chain', 32)


def start(kind, slots, summary, number):
    identity = b'\x93atsvol\n' + struct.pack('<HBBIIIQ', 1, kind, 2, slots, summary, EPOCH, number) + format_id + session + salt
    both = expand(prk, b'atrest sealed volume 1 object' + identity, 64)
    return both[:32], identity + both[32:]


def nonce(slot, part):
    return struct.pack('<IB7x', slot, part)


def leb(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def zigzag(n):
    return 2 * n if n >= 0 else -2 * n - 1


# Log object 9 behind 8: blocks 0 to 19 trimmed, blocks 300 and 301 written, then block 5; one snapshot added, one removed, 900 blocks from then on.
before_chain = bytes(range(0x80, 0xa0))
blocks = [(300, bytes([1]) * 4096), (301, bytes([2]) * 4096), (5, bytes([3]) * 4096)]
extents = leb(zigzag(0)) + leb(20 * 2 + 1) + leb(zigzag(280)) + leb(2 * 2) + leb(zigzag(5 - 302)) + leb(1 * 2)
operations = b'\1' + struct.pack('<QQ', 9, 7) + bytes(range(16)) + b'\4name' + b'\2' + struct.pack('<Q', 3) + b'\3' + struct.pack('<Q', 900)
operations += b'\4' + struct.pack('<Q', 3) + bytes(range(0x70, 0x80)) + b'\5' + struct.pack('<Q', 2) + bytes(range(0x70, 0x80))


def summary(tags):
    head = b'\0' + bytes(7) + struct.pack('<QQQ', 2, 8, 10) + before_chain + tags
    return head + struct.pack('<QII', 1000, 3, 5) + bytes(16) + extents + operations


key, prelude = start(1, 3, len(summary(bytes(32))), 9)
sealed = [seal(key, nonce(i, 0), struct.pack('<Q', at), data) for i, (at, data) in enumerate(blocks)]
clear = summary(hashlib.sha256(b''.join(x[-16:] for x in sealed)).digest())
log = prelude + seal(key, nonce(0, 1), b'', clear) + b''.join(sealed) + seal(key, nonce(0, 2), b'', clear) + prelude
chain = mac(chain_key, before_chain + prelude + clear)
print('prelude', prelude.hex())
print('summary', clear.hex())
print('log', hashlib.sha256(log).hexdigest())
print('chain', chain.hex())

# Leaf 2 (blocks 8192 to 12287): block 8197 in slot 2, blocks 8492 and 8493 in slots 0 and 1.
maker = format_id + session + struct.pack('<I', EPOCH)
place = leb(0) + leb(9) + salt + leb(3) + leb(len(clear)) + b'\2'
leaf = leb(1) + maker + leb(0) + leb(1) + place + leb(2) + leb(5) + leb(1) + leb(1) + leb(2) + leb(294) + leb(2) + leb(1) + leb(0)


def node(level, number, clear):
    key, prelude = start(2, level, len(clear), number)
    return prelude + seal(key, nonce(0, 3), b'', clear) + seal(key, nonce(0, 6), b'', clear)


print('leaf', hashlib.sha256(node(0, 2, leaf)).hexdigest())

# The branch above it, the first of its level: leaf 2 below it, blocks 100 to 4999 zeros, block 9000 in an object that another volume has made.
other = bytes(range(0x70, 0x80)) + bytes(range(0x20, 0x40)) + struct.pack('<I', 0)
child = bytes([2]) + leb(0) + salt + leb(len(leaf)) + b'\2'
place = leb(1) + leb(77) + salt + leb(300) + leb(500) + b'\1'
branch = leb(2) + maker + other + leb(1) + child + leb(1) + place
branch += leb(2) + leb(100) + leb(4900) + leb(0) + leb(4000) + leb(1) + leb(1) + leb(200)
print('branch', hashlib.sha256(node(1, 0, branch)).hexdigest())

# The checkpoint behind log object 9: the branch is the highest node; the key of the other volume, and where that is.
root = struct.pack('<Q', 9) + chain + struct.pack('<Q', 10) + session + struct.pack('<QBBQ', 2, 32, 1, 1000)
root += struct.pack('<BBBI', 1, 1, 2, len(branch)) + format_id + session + salt + struct.pack('<I', EPOCH)
root += struct.pack('<I', 1) + bytes(range(0x70, 0x80)) + struct.pack('<I', 0) + bytes(range(0x90, 0xb0)) + struct.pack('<H', 8) + b'file:///'
root += struct.pack('<IQQ', 1, 9, 7) + bytes(range(16)) + b'\4name' + b'\1' + bytes(range(0x70, 0x80))
key, prelude = start(3, 0, len(root), 9)
checkpoint = prelude + seal(key, nonce(0, 4), b'', root) + seal(key, nonce(0, 5), b'', root) + prelude
print('checkpoint', hashlib.sha256(checkpoint).hexdigest())

record = b'\x95\x76' + struct.pack('<HBB', 1, 1, 0) + format_id + struct.pack('<Q', 9) + chain + session[:12] + bytes(6)
print('record', record.hex())

# A journal: the head of its first half, and record 1 with the changes of log object 9.
journal_key = expand(prk, b'atrest sealed volume 1 journal', 32)
identifier = struct.pack('<I', 0x11223344)
first = mac(journal_key, b'chain' + identifier)
head = b'\x93atsjnl\n' + struct.pack('<HHI', 1, 0, EPOCH) + format_id + identifier + bytes(4) + struct.pack('<Q', 1) + first + bytes(3984)
head += mac(journal_key, b'head' + head)
print('journal head', hashlib.sha256(head).hexdigest())
body = struct.pack('<II', 3, 3) + extents + b''.join(data for _, data in blocks)
front = b'ajr\2' + struct.pack('<IQ', len(body), 1) + salt
sealed = seal(expand(journal_key, b'record' + identifier + first + front, 32), bytes(12), b'', body)
entry = front + sealed
entry += bytes(-len(entry) % 4096)
print('journal record', hashlib.sha256(entry).hexdigest())
after = mac(journal_key, b'chain' + first + front + sealed[-16:])
print('journal chain', after.hex())

# What the log, a checkpoint and the trusted record say of it: records up to 7 are covered, record 300 counts.
mark = struct.pack('<IH', 7, 0) + after[:10]
marked = clear[:4] + identifier + clear[8:112] + mark + clear[128:]
print('marked summary', hashlib.sha256(marked).hexdigest())
flags = 8 + 32 + 8 + 32 + 8 + 1
marked = root[:flags] + b'\3' + root[flags + 1:flags + 9] + identifier + mark + root[flags + 9:]
key, prelude = start(3, 0, len(marked), 9)
marked = prelude + seal(key, nonce(0, 4), b'', marked) + seal(key, nonce(0, 5), b'', marked) + prelude
print('marked checkpoint', hashlib.sha256(marked).hexdigest())
halves = chain[:16] + after[:16]
record = b'\x95\x76' + struct.pack('<HBB', 1, 0, 1) + format_id + struct.pack('<Q', 9) + halves + session[:12] + struct.pack('<IH', 300, 0)
print('marked record', record.hex())
