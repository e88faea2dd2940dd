# Makes the vectors in sealed_flash.rs. Standard library alone; ChaCha20-Poly1305 (RFC 8439), HKDF (RFC 5869).
import hmac, hashlib, struct
def H(k,m): return hmac.new(k,m,hashlib.sha256).digest()
def rotl(x,n): return ((x<<n)|(x>>(32-n)))&0xffffffff
def chacha(key,ctr,nonce):
    s=list(struct.unpack('<16I', b'expand 32-byte k'+key+struct.pack('<I',ctr)+nonce)); w=s[:]
    def q(a,b,c,d):
        w[a]=(w[a]+w[b])&0xffffffff; w[d]=rotl(w[d]^w[a],16)
        w[c]=(w[c]+w[d])&0xffffffff; w[b]=rotl(w[b]^w[c],12)
        w[a]=(w[a]+w[b])&0xffffffff; w[d]=rotl(w[d]^w[a],8)
        w[c]=(w[c]+w[d])&0xffffffff; w[b]=rotl(w[b]^w[c],7)
    for _ in range(10):
        q(0,4,8,12);q(1,5,9,13);q(2,6,10,14);q(3,7,11,15);q(0,5,10,15);q(1,6,11,12);q(2,7,8,13);q(3,4,9,14)
    return struct.pack('<16I',*[(a+b)&0xffffffff for a,b in zip(w,s)])
def poly(key,m):
    r=int.from_bytes(key[:16],'little')&0x0ffffffc0ffffffc0ffffffc0fffffff; s=int.from_bytes(key[16:],'little'); a=0
    for i in range(0,len(m),16): a=(a+int.from_bytes(m[i:i+16]+b'\1','little'))*r%((1<<130)-5)
    return ((a+s)%(1<<128)).to_bytes(16,'little')
def pad(x): return x+bytes(-len(x)%16)
def seal(key,nonce,aad,pt):
    ks=b''.join(chacha(key,1+i,nonce) for i in range((len(pt)+63)//64)); ct=bytes(a^b for a,b in zip(pt,ks))
    return ct, poly(chacha(key,0,nonce)[:32], pad(aad)+pad(ct)+struct.pack('<QQ',len(aad),len(ct)))
# RFC 8439 2.8.2
k=bytes(range(0x80,0xa0)); n=bytes.fromhex('070000004041424344454647'); a=bytes.fromhex('50515253c0c1c2c3c4c5c6c7')
ct,t=seal(k,n,a,b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.")
assert t.hex()=='1ae10b594f09e26a7e902ecbd0600691'
vk=bytes(range(32)); uuid=bytes(range(0x10,0x20))
# blocks of 1056 bytes, prog 32, payload 64 wanted, tag 16, slot; the salt of the session
stride,units,slot,head,tag=96,10,64,32,16
salt=bytes.fromhex('c0c1c2c3c4c5c6')
prk=H(uuid,vk)
def out(p): return H(prk,b"atrest sealed flash 2"+b"ChaCha20-Poly1305"+struct.pack('<IIIII',tag,stride,units,slot,head)+p+b'\1')
ku,ks,ka,km=out(b'u'),out(b's'),out(b'a'),out(b'm')
s5=lambda w: w.to_bytes(5,'little')
def unit(b,u,E,w,data):
    ct,t=seal(ku,s5(w)+salt,b'\1'+struct.pack('<II',b,u)+s5(E),data); cell=ct+s5(w)+t
    return cell.ljust(stride+head-14,b'\0')+salt+salt if u==0 else cell.ljust(stride,b'\0')
def ticket(c,E,w,v):
    ct,t=seal(ku,s5(w)+salt,b'\2'+struct.pack('<II',c,units)+s5(E),v); return (ct+s5(w)+t).ljust(slot,b'\0')
stamp=lambda b,E,f: struct.pack('<I',b)+s5(E)+struct.pack('<H',f)+salt
def h(b,E,f): return int.from_bytes(H(ks,stamp(b,E,f))[:16],'little')
def rec(anchor,clean,victim,state,reserve=12,header=bytes(30)):
    body=km[:2]+bytes([2,clean|(2 if victim else 0)|reserve<<3])+s5(anchor)+salt+(stamp(*victim) if victim else bytes(18))
    D=sum(h(*x) for x in state)%(1<<128)
    return body+header+H(ka,D.to_bytes(16,'little')+body)[:16]
pay=lambda x: bytes([x])*72
print('format', rec(1,0,None,[]).hex())
# erase 3, prog 3.0 (w1) 3.1 (w2); erase 5, prog 5.0 (w3); sync -> anchor 4
print('u0',unit(3,0,1,1,pay(0xa0)).hex()); print('u1',unit(3,1,1,2,pay(0xa1)).hex())
print('synced',rec(4,0,None,[(3,1,2),(5,3,1)]).hex())
# erase 3: ticket in 5's slot, serial 4
print('ticket',ticket(5,3,4,stamp(3,1,2)).hex())
print('closed',rec(5,1,None,[(5,3,1)]).hex())
# An entry of a log beside a counter: number 9, record 00 01 .. 4f
body=bytes(range(80))+struct.pack('<Q',9)
print('entry',(body+H(H(prk,b"atrest sealed counter 2\1"),body)[:16]).hex())

# The volume key is rotated: sealed_rotation.rs. After the close above block 5 holds one unit, and the next serial is 5. Salt of this session d0 .. d6.
old_share = lambda w: int.from_bytes(H(ks, struct.pack('<I', 2**32 - 1) + s5(w) + struct.pack('<H', 1) + bytes(7))[:16], 'little')
before, salt2, from2 = salt, bytes.fromhex('d0d1d2d3d4d5d6'), 5
base = old_share(from2)
prk = H(uuid, b'\xc7' * 32)
ku, ks, ka, km = out(b'u'), out(b's'), out(b'a'), out(b'm')
stamp2 = lambda b, E, f, salt: struct.pack('<I', b) + s5(E) + struct.pack('<H', f) + salt
def rotating(anchor, state, named, blocks, more=base, version=3, number=from2):
    body = km[:2] + bytes([version, state]) + s5(anchor) + salt2 + named.ljust(18, b'\0')
    D = (more + sum(int.from_bytes(H(ks, s)[:16], 'little') for s in blocks)) % (1 << 128)
    return body + number.to_bytes(6, 'little') + bytes(24) + H(ka, D.to_bytes(16, 'little') + body)[:16]
print('begun', rotating(5, 0x60, b'', [stamp2(5, 3, 1, before)]).hex())
moved = stamp2(5, 5, 1, salt2)
salt = salt2
print('scratch', unit(5, 0, 5, 5, pay(0xa0)).hex())
print('moving', rotating(6, 0x63, moved, [moved]).hex())
print('moved', rotating(6, 0x60, b'', [moved]).hex())
print('finished', rotating(6, 0x60, b'', [moved], 0, 2, 0).hex())
