#!/usr/bin/env python3
"""Executable model of sealed volumes (FORMATS.md, "Sealed volumes"), with changes of the volume key, clones and the local
journal. Standard library only, seeded.
usage: model.py [--runs N] [--seed S] [--flaw NAME]      one design (the good one without --flaw)
       model.py --flaws [--runs N] [--seed S]            every broken design, until each is caught
       model.py --one SEED [--flaw NAME]                 replay one volume"""
import sys, random, copy, hashlib, time
from collections import namedtuple, Counter

NB, PER, W = 8, 4, 3                     # blocks of the volume, blocks in a map page, objects in flight
Hdr  = namedtuple('Hdr', 'fmt salt sess n osalt ep')          # stands in clear before each object
Seal = namedtuple('Seal', 'key nonce aad pt ok')           # an AEAD ciphertext; nobody makes one without the key
Log  = namedtuple('Log', 'hdr sa sb blocks h2')            # prelude, summary twice, data blocks, prelude
Ckpt = namedtuple('Ckpt', 'hdr ra rb h2')                  # root twice
MapO = namedtuple('MapO', 'hdr page')
Sum  = namedtuple('Sum', 'kind ph pn nxt entries snaps mark')   # what a summary says; mark: (journal, record covered, chain value after it) or None
Root = namedtuple('Root', 'n h nxt salt sess pages snaps ends keys holds mark')
Rec  = namedtuple('Rec', 'closed salt n h j')              # the trusted record; j: (number of a journal's record, chain value after it) or None
JRec = namedtuple('JRec', 'j salt seal')                   # a record of a journal
Clone = namedtuple('Clone', 'id snap pages state ring')   # a clone: the parent's map and keys as they were, and what it must hold
Node = namedtuple('Node', 'parent kind inst state locs snaps n op mark')   # truth of a log object
Op   = namedtuple('Op', 'parent inst state')               # truth of a write: what stood before it, who wrote, the blocks after it
class Crash(Exception): pass
class Alarm(Exception): pass             # told to the user: refused, EIO, fenced
class Transient(Exception): pass
class Violation(Exception): pass
def H(*a): return hashlib.blake2b(repr(a).encode(), digest_size=10).hexdigest()
ST = Counter()

class Store:
    """objects, everything that was ever sent (also what was refused), and an adversary who answers"""
    def __init__(s, rng, w): s.rng, s.w, s.mode = rng, w, 'honest'; s.o = {}; s.true = {}; s.hist = {}; s.late = []; s.snaps = []; s.fuse = s.stuck = None
    def tick(s):
        if s.late and s.rng.random() < .15:
            name, obj = s.late.pop(s.rng.randrange(len(s.late)))
            if name not in s.o: s.o[name] = obj; s.true.setdefault(name, obj); ST['late puts that landed'] += 1
        if s.fuse is not None:
            s.fuse -= 1
            if s.fuse < 0: s.fuse = None; ST['crashes'] += 1; raise Crash
    def set(s, name, obj, create):
        if create and name in s.o: return 'exists'
        s.o[name] = obj; s.true[name] = obj; return 'ok'
    def put(s, name, obj, replace=False):
        create = not (s.w.flaw == 'no-fence' and name[0] == 'l') and not replace
        s.tick(); s.hist.setdefault(name, []).append(obj); r = s.rng.random(); ST['puts'] += 1
        if s.mode != 'honest' and (r < .12 or s.w.refuse or name == s.stuck):
            ST['refused puts'] += 1; k = s.rng.choice(('drop', 'drop', 'keep', 'late')) if not s.w.refuse and name != s.stuck else 'drop'
            if k == 'keep': s.set(name, obj, create)
            if k == 'late': s.late.append((name, obj))
            return 'error'
        if s.mode == 'evil' and r < .16:
            ST['lies about puts'] += 1
            if s.rng.random() < .3: return 'exists'
            s.true[name] = obj; return 'ok'                           # acknowledged and withheld
        x = s.set(name, obj, create)
        if x == 'exists' and s.mode == 'evil' and s.rng.random() < .5: s.true[name] = s.o[name] = obj; x = 'ok'
        s.tick(); return x
    def get(s, name):
        s.tick(); ST['gets'] += 1; r = s.rng.random()
        if s.mode == 'flaky' and r < .04: raise Transient
        if s.mode == 'evil' and r < s.w.lie * (4 if name[0] == 'm' else 1):
            ST['lies about gets'] += 1; k = s.rng.randrange(7); hs = s.hist.get(name, []); o = s.o.get(name)
            if k == 0: return None
            if k == 1: raise Transient
            if k == 2 and hs: return s.rng.choice(hs)
            if k == 3: return s.hist[s.rng.choice(sorted(s.hist))][-1]
            if k == 4 and o: return flip(o, s.rng)
            if k >= 5 and o and type(o) is Log:                       # pieces of two objects, or of two slots
                p = s.hist[s.rng.choice([x for x in sorted(s.hist) if x[0] == 'l'])]; p = s.rng.choice(p)
                b = list(o.blocks); src = list(p.blocks) if s.rng.random() < .6 else b
                if b and src: b[s.rng.randrange(len(b))] = s.rng.choice(src)
                return o._replace(blocks=tuple(b)) if k == 5 else o._replace(sa=p.sa)
        return s.o.get(name)
    def list(s, p):
        s.tick(); names = sorted(x for x in s.o if x[0] == p)
        if s.mode == 'evil' and s.rng.random() < s.w.lie * 2:
            ST['lies about lists'] += 1; names = sorted(x for x in s.hist if x[0] == p)
            names = [x for x in names if s.rng.random() < .6]
        return names
    def delete(s, name, who):
        s.tick(); s.w.check_delete(name, who); ST['deletes'] += 1
        if s.mode != 'honest' and s.rng.random() < .2: return
        s.o.pop(name, None); s.true.pop(name, None)

def flip(o, rng):
    if type(o) is not MapO and rng.random() < .25:
        bad = o.hdr._replace(osalt='flipped'); return o._replace(hdr=bad) if rng.random() < .5 else o._replace(h2=bad)
    if type(o) is MapO: return o._replace(page=o.page._replace(ok=False))
    if type(o) is Ckpt: return o._replace(ra=o.ra._replace(ok=False)) if rng.random() < .5 else o._replace(rb=o.rb._replace(ok=False))
    i = rng.randrange(2 + len(o.blocks))
    if i == 0: return o._replace(sa=o.sa._replace(ok=False))
    if i == 1: return o._replace(sb=o.sb._replace(ok=False))
    b = list(o.blocks); b[i - 2] = b[i - 2]._replace(ok=False); return o._replace(blocks=tuple(b))

class Journal:
    """a local file: a head (number and chain value before the first record that is kept), records that are durable, and those that were not synchronised"""
    def __init__(s, id, kid, fmt, chain): s.id, s.kid, s.fmt, s.first, s.chain, s.recs, s.pend, s.copies = id, kid, fmt, 1, chain, [], [], []; s.lock = s.right = None; s.given_up = False
    def whole(s): return s.first, s.chain, list(s.recs), list(s.pend)
    def put(s, c): s.first, s.chain = c[:2]; s.recs, s.pend = list(c[2]), list(c[3])
    def keep(s): s.copies = (s.copies + [s.whole()])[-12:]
    def settle(s, rng):
        """its writer is gone: killed (nothing is lost yet), or the power failed (a suffix of what was not synchronised is lost, or torn, which is as good as lost)"""
        s.lock = None; s.keep()
        if s.pend and rng.random() < .6: s.recs += s.pend[:rng.randrange(len(s.pend) + 1)]; s.pend = []; ST['journals cut by a power loss'] += 1

class World:
    def __init__(s, rng, flaw, reg=None):
        s.rng, s.flaw = rng, flaw; s.reg = {} if reg is None else reg
        s.mode = rng.choice(('honest', 'flaky', 'flaky', 'evil', 'evil', 'evil'))
        s.trust = rng.choice(('excl', 'excl', 'shared', 'none')); s.every = rng.choice((1, 1, 3)); s.lie = rng.choice((.02, .05, .12))
        s.store = Store(rng, s); s.rec = {}; s.truth = {}; s.acked = []; s.anch = {}; s.inst = 0; s.ctr = 0; s.refuse = False
        s.rolled = s.tampered = s.stall = False; s.live = None; s.acked_by = []; s.ckh = {}; s.holder = {}; s.ck = {}; s.recs = []; s.clones = []; s.head = 0; s.heads = [0]; s.kids = 0; s.ops = []; s.ancop = {}; s.jacked = []; s.files = {}; s.file = None; s.copied = s.harmed = s.mixed = False; s.scarred = None; s.ndev = 2 if s.trust == 'shared' else 1
        s.journal = s.trust != 'shared' and rng.random() < .6; s.vandal = s.journal and rng.random() < .5
    # -- randomness and the AEAD
    def rand(s, tag):
        if s.flaw == 'no-random': return tag
        return '%016x' % s.rng.getrandbits(64)
    def seal(s, hdr, kind, nonce, aad, pt, kid):
        key = s.key(hdr, kind, kid); x = Seal(key, nonce, aad, pt, True)
        if s.reg.setdefault((key, nonce), (aad, pt)) != (aad, pt): raise Violation('nonce used twice')
        return x
    def key(s, hdr, kind, kid):
        if kind == 'j': return (kind, hdr, kid)
        if s.flaw == 'no-format-bind': hdr = hdr._replace(fmt='')
        if s.flaw == 'no-object-key' and kind == 'l': hdr = hdr._replace(n=0, osalt='')
        if s.flaw in ('no-object-salt', 'resume-fixed-keys', 'reseal'): hdr = hdr._replace(osalt='')
        return (kind, hdr, kid)
    def opened(s, x, hdr, kind, nonce, aad, kid):
        if s.flaw == 'tag-ignored' and type(x) is Seal: return x.pt
        if type(x) is not Seal or not x.ok or x.key != s.key(hdr, kind, kid) or x.nonce != nonce: return None
        if x.aad != aad: return None
        return x.pt
    # -- trusted store: old or new after a crash or an error
    def tstore(s, v, rec, op):
        ST['trusted writes'] += 1; d = v.dev
        if s.holder.get(d) is not v and s.flaw != 'store-not-held': raise Alarm('trusted store is held by another writer')
        r = s.rng.random(); old = s.rec.get(d)
        if r < .03: return s.land(v, rec, op, s.rng.random() < .5, 'crash')
        if r < .06: return s.land(v, rec, op, s.rng.random() < .5, 'error')
        s.land(v, rec, op, True, '')
    def land(s, v, rec, op, new, how):
        d = v.dev
        if new:
            s.recs.append((d, s.rec.get(d), s.anch.get(d), s.ancop.get(d))); s.rec[d] = rec; s.anch[d] = rec.h; s.ancop[d] = (op, v.inst)
            if v.given_up: s.give_up(v)
        if how == 'crash': ST['crashes'] += 1; raise Crash
        if how == 'error': raise Alarm('trusted store failed')
    # -- the header object, which holds the volume key
    def header(s, kid):
        r = s.rng.random(); ST['headers changed'] += 1
        if r < .12:
            if s.rng.random() < .5: s.head = kid; s.heads.append(kid)
            ST['crashes'] += 1; raise Crash
        if r < .2:
            if s.rng.random() < .5: s.head = kid; s.heads.append(kid)
            raise Alarm('the header may be stored or not')
        s.head = kid; s.heads.append(kid)
    # -- truth
    def node(s, h, *a): s.truth.setdefault(h, Node(*a))
    def op(s, parent, inst, lba, val):
        st = list(s.ops[parent].state); st[lba] = val; s.ops.append(Op(parent, inst, tuple(st))); return len(s.ops) - 1
    def is_anc_op(s, a, b):
        while b is not None and b > a: b = s.ops[b].parent
        return a == b
    def settle(s, alive=()):
        for f in s.files.values():
            if f.lock is not None and f.lock not in alive: f.settle(s.rng)
    def give_up(s, v):
        """from here on nobody may count on what the journal holds"""
        s.jacked = []; ST['journals given up'] += 1; v.given_up.given_up = True
    def is_anc(s, a, b):
        while b is not None:
            if a == b: return True
            b = s.truth[b].parent
        return False
    def check_open(s, v):
        try: s.check_log(v); s.check_journal(v)
        finally: v.given_up = None
    def check_journal(s, v):
        """what is seen is what some write left behind, at or behind the last flush that was acknowledged"""
        top, evil = v.top(), s.mode == 'evil' or s.harmed
        if v.view() != s.ops[top].state:
            if s.trust == 'none' and evil: s.mixed = True; ST['mixed'] += 1; return
            if not (s.rolled and evil): raise Violation('opened at a state that never was')
        if not v.given_up and not (s.rolled and (evil or s.trust != 'excl')):
            if not evil and not s.rolled and not all(s.is_anc_op(a, top) for a in s.jacked): raise Violation('flush that the journal acknowledged is lost')
            if s.trust == 'excl':
                a, inst = s.ancop[v.dev]; x = top                     # of before this opening
                if v.before: a, inst = v.before
                if not s.is_anc_op(a, top): raise Violation('anchored write lost')
                while x != a:
                    if s.ops[x].inst != inst and not s.rolled: raise Violation('beyond the anchor a write of another session accepted')
                    x = s.ops[x].parent
                if s.every == 1 and not s.rolled and not all(s.is_anc_op(a, top) for a in s.jacked): raise Violation('acknowledged and anchored write lost')
        if v.jf: ST['opened with a journal'] += 1; v.jf.right = None; v.jf.given_up = False
        if v.writes: s.jacked = [top]; s.harmed = s.copied = False; s.scarred = s.scarred if s.scarred not in (v.jf, v.given_up) else None
    def check_log(s, v):
        ST['opened'] += 1
        if v.h0 not in s.truth: raise Violation('opened at something that was never written')
        evil = s.mode == 'evil'
        if not evil:
            for a in s.acked:
                if not s.is_anc(a, v.h0): raise Violation('acknowledged flush lost on a store that does not lie')
        if s.trust == 'none' or (s.rolled and evil): return
        a = v.anch
        if s.rolled and s.trust != 'excl': return
        if not s.is_anc(a, v.h0): raise Violation('rollback or fork behind the anchor accepted')
        if s.trust == 'excl':
            x = v.h0
            while x != a:
                nd = s.truth[x]
                if nd.kind != 'begin' and nd.inst != s.truth[a].inst: raise Violation('beyond the anchor something of another session accepted')
                x = nd.parent
        if s.every == 1 and not s.rolled:
            for x, d in s.acked_by:
                if (s.trust == 'excl' or d == v.dev) and not s.is_anc(x, v.h0): raise Violation('acknowledged and anchored flush lost silently')
    def check_delete(s, name, who):
        heads = [who.h]
        if s.store.mode != 'evil' and not s.tampered and s.live is not None and s.live is not who: heads.append(s.live.h)
        cks = {(c, x.ckh[c]) for x in ([who] if len(heads) == 1 else [who, s.live]) for c in x.cks}
        need = set()
        for hh in heads:
            nd = s.truth[hh]
            need |= {'l/%05d' % l[0].n for l in nd.locs if l}
            cks |= {c for _, c in nd.snaps}
        for c, hd in cks:
            need.add(c)
            if hd in s.ck:
                h, pages = s.ck[hd]; need |= set(pages); need |= {'l/%05d' % l[0].n for l in s.truth[h].locs if l}
        for c in s.clones if s.mode != 'evil' else ():               # who hides the hold from a parent can delete as well
            need.add(c.snap[0]); need |= {x[0] for x in c.pages if x}
            need |= {'l/%05d' % l[0].n for l in s.truth[s.ckh[c.snap[1]]].locs if l}
        if name in need: raise Violation('garbage collection deleted what is needed')
        if name[0] == 'l' and s.store.mode != 'evil' and not s.tampered:
            n = int(name[2:])
            x = s.live or who; lo = min([s.truth[s.ck[x.ckh[c]][0]].n for c in x.cks] or [0])
            if n > lo: raise Violation('garbage collection deleted log behind the older checkpoint')

class Vol:
    """one opening of the volume"""
    def __init__(s, w, dev): s.w, s.dev, s.F = w, dev, w.flaw; s.cks = []; s.ckh = {}; s.resume_gc = s.vh = s.jf = s.given_up = s.before = s.offered = None; s.batch = []; s.bulk = s.writes = False; s.bounds = []; s.told = 0; s.pending = None
    def sl(s, hdr, *a): return s.w.seal(hdr, *a, s.ring[hdr.ep])
    def op(s, x, hd, *a): return s.w.opened(x, hd, *a, s.ring.get(hd.ep, s.kid))
    def get(s, name):
        for _ in range(6):
            try: return s.w.store.get(name)
            except Transient:
                if s.F == 'error-is-absent': return None
        raise Alarm('the store does not answer')
    def put(s, name, obj):
        """the same bytes until they are stored; never other bytes under the same number"""
        for _ in range(4):
            r = s.w.store.put(name, obj)
            if r == 'ok': return True
            if r == 'exists': return s.same(name, obj)
        return False
    def same(s, name, obj):
        if s.get(name) != obj: return False
        s.w.store.true[name] = obj; return True                      # read back alike: acknowledged
    # -- objects
    def open_log(s, name, o):
        if type(o) is not Log: return None
        for hd in (o.hdr, o.h2)[:1 if s.F == 'single-prelude' else 2]:
            for x, i in ((o.sa, 'sa'), (o.sb, 'sb'))[:1 if s.F == 'single-summary' else 2]:
                p = s.op(x, hd, 'l', i, hd.n)
                if p and (hd.fmt == s.fmt or s.F == 'no-format-bind') and 'l/%05d' % hd.n == name: s.vh = hd; return p
        return None
    def open_ck(s, name, o, hdr=None):
        if type(o) is not Ckpt: return None
        for hd in [hdr] if hdr else (o.hdr, o.h2):
            for x, i in ((o.ra, 'ra'), (o.rb, 'rb')):
                p = s.op(x, hd, 'c', i, hd.n)
                if p and (hd.fmt == s.fmt or s.F == 'no-format-bind') and 'c/%05d' % hd.n == name: s.vh = hd; return p
        return None
    # -- map: pages from the checkpoint, loaded when needed, below what the log says
    def cur(s, lba, pages=None):
        if pages is None and lba in s.over: return s.over[lba]
        ref = (pages or s.pages)[lba // PER]
        if ref is None: return None
        name, hdr = ref; o = s.get(name)
        p = s.op(o.page, hdr, 'm', 0, name) if type(o) is MapO else None
        if p is None:
            if s.F == 'missing-is-hole': return None
            raise Alarm('EIO: map page')
        return dict(p).get(lba)
    def apply(s, hdr, sm):
        for lba, slot, cond in sm.entries:
            s.over[lba] = None if slot is None else (hdr, slot)
        for op, i, c in sm.snaps:
            if op == '+': s.snaps[i] = c
            elif op == '-': s.snaps.pop(i, None)
            elif op == 'c': s.holds.add((i, c))
            else: s.holds.discard((i, c))
    def step(s, hdr, sm, lone=False):
        if not lone or not s.mark or s.F == 'journal-lone-begin': s.mark = sm.mark     # where none was in use, the one that a lone begin names is needed
        if sm.kind == 'begin': s.ends[s.salt] = (s.n, s.h)
        s.apply(hdr, sm); s.h = H(sm, hdr); s.n, s.nxt, s.salt, s.sess = hdr.n, sm.nxt, hdr.salt, hdr.sess
    def read(s, lba, pages=None):
        loc = s.cur(lba, pages)
        if loc is None: return 0
        hdr, slot = loc
        o = next((x for x in s.queue if x.hdr == hdr), None) if pages is None else None
        o = o or s.get('l/%05d' % hdr.n)
        if type(o) is not Log or slot >= len(o.blocks):
            if s.F == 'missing-is-hole': return 0
            raise Alarm('EIO: block')
        if s.F in ('hdr-of-object', 'no-random'): hdr = o.hdr        # believes what stands before the object
        nonce, aad = slot, (hdr.n, slot, lba)
        if s.F == 'no-place': nonce, aad = o.blocks[slot].nonce, o.blocks[slot].aad
        p = s.op(o.blocks[slot], hdr, 'l', nonce, aad)
        if p is None: raise Alarm('EIO: block')
        return p
    # -- opening
    def load(s, rec):
        w = s.w; s.queue = []; s.ring = {}; s.kid = w.head; names = sorted(w.store.list('c'), reverse=True); why = 'no volume'
        for nm in names[:6]:
            o = s.get(nm); root = s.open_ck(nm, o)
            if root is None: why = 'checkpoint damaged'; continue
            if rec and w.trust == 'excl' and root.n > rec.n:
                if s.F == 'older-record-unchecked': continue
                raise Alarm('store older: a checkpoint is newer than the record')
            ep = s.vh.ep; s.ring = {e: k for e, k in root.keys}; s.ring[ep] = s.kid; s.ep = ep; s.holds = set(root.holds)
            s.acc = []; s.over = {}; s.pages = root.pages; s.snaps = dict(root.snaps); s.ends = dict(root.ends); s.cks = [nm]; s.ckh = {nm: s.vh}
            s.h, s.n, s.nxt, s.salt, s.sess = root.h, root.n, root.nxt, root.salt, root.sess; s.hdr0 = nm; s.mark = root.mark
            try: s.follow(rec, root); return
            except Alarm as e: why = str(e)
            if w.trust == 'none': break
        raise Alarm(why)
    def follow(s, rec, root):
        w, F = s.w, s.F; seen = rec is None or F == 'no-anchor'
        excl = w.trust == 'excl'; begun = s.ended = False
        def at():
            if s.n == rec.n and s.h != rec.h: raise Alarm('rolled back: another history at the anchor')
            return s.n == rec.n
        if not seen:
            if F == 'checkpoint-trusted' and root.n > 0: seen = True
            elif s.n <= rec.n: seen = at()
            else:                                                   # a device that comes back: its head lies behind the checkpoint
                e = root.ends and dict(root.ends).get(rec.salt)
                if rec.salt == root.salt or (e and e[0] >= rec.n and (e[0] != rec.n or e[1] == rec.h)): seen = True
                else: raise Alarm('forked')
            if F == 'fork-unchecked' and w.trust == 'shared': seen = True
        miss = 0
        while True:
            nm = 'l/%05d' % (s.nxt + miss); o = s.get(nm)
            sm = s.open_log(nm, o) if o is not None else None; hdr = s.vh
            if o is None and F == 'gap-accepted' and miss < 2: miss += 1; continue
            if sm is None or hdr.ep != s.ep: break                   # what an earlier key has made follows no root of a later one
            if sm.ph != s.h and not (F == 'gap-accepted' and miss) and F != 'chain-unchecked': break
            miss = 0
            if rec and seen and excl and F != 'any-session':
                if sm.kind == 'begin': begun = True
                elif begun or hdr.salt != rec.salt or rec.closed:
                    if hdr.salt == rec.salt and rec.closed: break
                    raise Alarm('store older: another session has written behind the anchor')
            if rec and seen and (sm.mark is None and sm.kind != 'begin' or F == 'journal-ended-by-begin' and sm.mark is None): s.ended = True   # the session of the record has ended its journal
            s.step(hdr, sm, sm.kind == 'begin' and rec and seen and excl); s.acc.append((nm, hdr))    # a begin that is not anchored takes nothing of what is owed
            if rec and not seen: seen = (s.n == rec.n) if F == 'chain-unchecked' else at()
            if rec and not seen and s.n > rec.n and F != 'fork-unchecked': raise Alarm('rolled back: another history at the anchor')
        if not seen: raise Alarm('rolled back: the anchor is not reached')
    def open(s, write=True, journal=False, forgo=False):
        w = s.w; rec = w.rec.get(s.dev) if w.trust != 'none' else None; s.fmt = w.fmt; s.anch = w.anch.get(s.dev); s.before = w.ancop.get(s.dev); s.writes = write
        for attempt in range(4):
            s.load(rec); s.h0 = s.h; s.batch, s.bounds, s.told, s.bulk = [], [], 0, False
            if write: w.store.true.update((nm, x) for nm, hd in s.acc for x in w.store.hist[nm] if x.hdr == hd)         # what was shown and accepted counts as stored
            if s.h not in w.truth: raise Violation('opened at something that was never written')
            if write or journal: s.take_over(rec, journal, forgo)
            if not write: return s
            w.holder[s.dev] = s; w.inst += 1; s.inst = w.inst; s.acked_n = s.n; s.flushes = 0; s.failed = False
            if s.F in ('resume', 'resume-fixed-keys') and rec and rec.closed and s.n == rec.n:
                s.jf = None; return s             # goes on in the session that was closed
            if s.jf and s.F != 'journal-no-takeover': s.append()   # nothing that an earlier session left behind follows this record
            if s.jf:
                if s.jf.right: s.jf.right = None; w.scarred = s.jf        # what was shown was accepted and is written to
                s.sync()
            if s.jf and not s.batch and s.F != 'journal-no-takeover': s.cov, s.covc, s.bounds = s.jn, s.jc, []
            salt = w.rand('salt%d' % (s.sess + 1)); h0 = s.h
            hdr = Hdr(s.fmt, salt, s.sess + 1, s.nxt, w.rand('o'), s.ep)
            skip = 1 if s.F == 'no-skip' else W
            sm = Sum('begin', s.h, s.n, s.nxt + skip, (), (), s.said() if s.F != 'journal-begin-forgets' else None); nd = w.truth[s.h]
            obj = Log(hdr, s.sl(hdr, 'l', 'sa', hdr.n, sm), s.sl(hdr, 'l', 'sb', hdr.n, sm), (), hdr)
            w.node(H(sm, hdr), s.h, 'begin', s.inst, nd.state, nd.locs, nd.snaps, hdr.n, nd.op, sm.mark)
            if s.given_up and w.trust == 'none': w.give_up(s)
            if s.given_up and w.mode == 'evil': w.scarred = s.given_up   # the begin may replace what the store hides and the journal no longer has
            if not s.put('l/%05d' % hdr.n, obj):
                o = s.get('l/%05d' % hdr.n); old = s.open_log('l/%05d' % hdr.n, o) if o is not None else None
                if old and (old.ph != s.h or s.vh.ep != s.ep) and w.trust == 'excl':          # a dead branch that was hidden; the trusted store is ours, so nobody else writes
                    if w.store.put('l/%05d' % hdr.n, obj, replace=True) != 'ok': continue
                    ST['dead branches replaced'] += 1
                elif attempt == 3: raise Alarm('another writer, or the store refuses')
                else: continue
            s.step(hdr, sm); s.acked_n = s.n
            if w.trust != 'none' and s.F != 'begin-not-anchored': s.anchor()
            return s
    def anchor(s, closed=False, h=None):
        w = s.w; h = h or s.h; op = w.truth[h].op
        if s.jf: op = max(op, s.synced[2])
        w.tstore(s, Rec(closed, s.salt, w.truth[h].n, h, s.synced[:2] if s.jf and not (s.F == 'journal-begin-forgets' and s.told and s.h == h and w.truth[h].kind == 'begin') else None), op)
    # -- journal
    def said(s): return (s.jf.id, s.cov, s.covc) if s.jf else None
    def take_over(s, rec, journal, forgo):
        """what the log names as its journal, and its records that are not covered: they are written again as if they came now"""
        w, F, m = s.w, s.F, s.mark; s.jf = s.given_up = None; journal = journal or s.offered
        if m is None:
            f = s.offered or w.file if journal else None                # who gave one to the attempt before gives it to this one
            if f and (f.kid != s.kid or f.given_up or f.lock not in (None, s)): f = None
            if journal and not f: i = w.rand('j%d' % len(w.files)); f = w.file = w.files[i] = Journal(i, s.kid, s.fmt, H('chain', i))
            if not f: return
        elif forgo:
            s.given_up = w.files.get(m[0]) or Journal(0, 0, 0, 0)
            if w.rng.random() < .5: return
            i = w.rand('j%d' % len(w.files)); f = w.file = w.files[i] = Journal(i, s.kid, s.fmt, H('chain', i)); m = None
        else:
            f = w.files.get(m[0])
            if not f or f.id != m[0] or f.kid != s.kid: raise Alarm('journal needed')
            s.offered = f
        assert not s.writes or f.lock in (None, s)
        good, c = [], f.chain; at = {f.first - 1: c}; j = f.first - 1
        for r in f.recs + f.pend:
            pt = w.opened(r.seal, s.jhdr(f, c, r.j, r.salt), 'j', 0, 0, s.kid) if F != 'tag-ignored' else r.seal.pt
            if pt is None or r.j != j + 1: break
            c = H('chain', c, r); j = r.j; at[j] = c; good.append((r, pt))
        if m is None:
            if any(pt for r, pt in good): raise Alarm('a journal with records that nobody asks for')
            s.cov, s.covc = j, c
        else:
            _, s.cov, s.covc = m
            if f.first > s.cov + 1: raise Alarm('store older: the log lacks what the journal has no more')
            if at.get(s.cov) != s.covc and any(pt and r.j >= s.cov for r, pt in good) and F != 'journal-mark-by-number': raise Alarm('the journal is of another branch')
            if rec and rec.j and rec.j[0] > s.cov and not s.ended and F != 'journal-older-unchecked':
                if rec.j[0] not in at or (at[rec.j[0]] != rec.j[1] and F != 'journal-chain-unchecked'): raise Alarm('journal older than the record')
            if j < s.cov: ST['journals shorter than the log'] += 1
            if j < s.cov and F == 'journal-new-identifier' and s.writes:
                i = w.rand('j%d' % len(w.files)); w.files.pop(f.id); f = w.file = w.files[i] = Journal(i, s.kid, s.fmt, H('chain', i)); good, j, c, s.cov, s.covc = [], 0, f.chain, 0, f.chain
        for r, pt in good:
            if r.j > s.cov and m is not None: s.batch += pt; s.bounds.append((len(s.batch), r.j, at[r.j])); ST['records taken over'] += bool(pt)
        s.told = len(s.batch); s.jf, s.jn, s.jc = f, j, c; s.synced = (j, c, s.top())
        if s.writes: f.recs, f.pend = [r for r, _ in good[:len(f.recs)]], [r for r, _ in good[len(f.recs):]]; f.lock = s
    def jhdr(s, f, c, j, salt): return (f.id, c, j, '' if s.F == 'journal-no-salt' else salt)
    def append(s):
        """a record of what was written since the last one: one value for each block, in the order of their places"""
        w, f = s.w, s.jf; w.store.tick(); s.batch[s.told:] = s.joined(s.batch[s.told:]); j = s.jn + 1; salt = w.rand('jr%d' % j); hd = s.jhdr(f, s.jc, j, salt); key = ('j', hd, s.kid); pt = tuple(s.batch[s.told:]); x = Seal(key, 0, 0, pt, True)
        if w.reg.setdefault((key, 0), (0, pt)) != (0, pt): raise Violation('nonce used twice')
        r = JRec(j, salt, x); f.pend.append(r); s.jn, s.jc = j, H('chain', s.jc, r); s.told = len(s.batch); s.bounds.append((s.told, s.jn, s.jc)); ST['records'] += 1
        if w.rng.random() < .2: f.keep()
    def joined(s, items):
        """nothing between the first of these writes and the last one is a state that anybody may see"""
        return [(l, x, items[-1][2]) for l, x in sorted({l: x for l, x, _ in items}.items())]
    def sync(s):
        w, f = s.w, s.jf; w.store.tick()
        if w.rng.random() < .01: f.recs += f.pend[:w.rng.randrange(len(f.pend) + 1)]; f.pend = []; s.failed = True; raise Alarm('trusted store or journal: the disk refuses')
        f.recs += f.pend; f.pend = []; s.synced = (s.jn, s.jc, s.top()); f.keep(); w.store.tick()
    def drop(s):
        """a half is begun anew: all records in it are covered by log objects that are stored"""
        f = s.jf; to = s.w.truth[s.stored_h()].mark; to = to[1] if to else 0
        if s.F == 'journal-dropped-early': to = s.cov
        k = [r for r in f.recs if r.j <= to]
        for r in k[:s.w.rng.randrange(len(k) + 1)]: f.first, f.chain = r.j + 1, H('chain', f.chain, r); f.recs.remove(r); ST['records dropped'] += 1
    def stored_h(s):
        low = min([o.hdr.n for o in s.queue]) - 1 if s.queue else s.n; h = s.h
        while s.w.truth[h].n > low: h = s.w.truth[h].parent
        return h
    def acknowledge(s):
        if s.jf and not s.jf.given_up: s.w.jacked = (s.w.jacked + [s.top()])[-3:]; ST['flushes that a journal acknowledged'] += 1
    def top(s): return s.batch[-1][2] if s.batch else s.w.truth[s.h].op
    def view(s):
        st = list(s.w.truth[s.h].state)
        for l, x, _ in s.batch: st[l] = x
        return tuple(st)
    def write(s, lba, val): s.batch.append((lba, val, s.w.op(s.top(), s.inst, lba, val)))
    def seal(s, k=None, bulk=False):
        """the first k writes of the batch as a log object; what no record has is appended to the journal, or else nothing is until everything is stored and anchored"""
        while not s.room(): s.push1()
        k = len(s.batch) if k is None else k
        if s.jf and k > s.told:
            if s.bulk or bulk: s.bulk = True
            else: s.append()
        if s.bounds and k <= s.bounds[-1][0] and s.F != 'journal-record-cut': k = min(p for p, _, _ in s.bounds if p >= k)   # whole records
        n = 0
        while s.bounds and s.bounds[0][0] <= k: n, s.cov, s.covc = s.bounds.pop(0)
        if s.F == 'journal-mark-ahead' and s.bounds: n, s.cov, s.covc = s.bounds.pop(0)
        s.bounds = [(p - k, j, c) for p, j, c in s.bounds]; s.told = max(0, s.told - k); items, s.batch = s.batch[:k], s.batch[k:]
        s.sealed(items)
    # -- writing
    def sealed(s, items, relocs=(), snaps=()):
        while not s.room(): s.push1()
        if snaps: s.bulk = True
        w = s.w; ents, blocks = [], []; nd = w.truth[s.h]; state, locs = list(nd.state), list(nd.locs)
        hdr = Hdr(s.fmt, s.salt, s.sess, s.nxt, w.rand('o'), s.ep)
        for lba, val, _ in items:
            if val == 0: ents.append((lba, None, None)); state[lba] = 0; locs[lba] = None
            else:
                k = len(blocks); ents.append((lba, k, None)); blocks.append(s.sl(hdr, 'l', k, (hdr.n, k, lba), val)); state[lba] = val; locs[lba] = (hdr, k)
        for lba, val, old in relocs:
            if s.F != 'relocate-blind' and dict((e[0], 1) for e in ents).get(lba): continue
            if s.F != 'relocate-blind':                                 # decided when it is sealed: nobody else appends
                try:
                    if s.cur(lba) != old: continue
                except Alarm: continue
            k = len(blocks); ents.append((lba, k, old)); blocks.append(s.sl(hdr, 'l', k, (hdr.n, k, lba), val))
            if locs[lba] == old: locs[lba] = (hdr, k)
        sm = Sum('data', s.h, s.n, hdr.n + 1, tuple(ents), tuple(snaps), s.said())
        obj = Log(hdr, s.sl(hdr, 'l', 'sa', hdr.n, sm), s.sl(hdr, 'l', 'sb', hdr.n, sm), tuple(blocks), hdr)
        sn = dict(nd.snaps)
        for op, i, c in snaps: sn.__setitem__(i, c) if op == '+' else op == '-' and sn.pop(i, None)
        w.node(H(sm, hdr), s.h, 'data', s.inst, tuple(state), tuple(locs), tuple(sorted(sn.items())), hdr.n, items[-1][2] if items else nd.op, sm.mark)
        s.step(hdr, sm); s.queue.append(obj)
    def partial(s, lba, half, val):
        """half of a block: the other half is what was written last, which may have to be read; if it can't be, nothing is written"""
        w = s.w; last = [x for l, x, _ in s.batch if l == lba]; halves = lambda x: list(x) if type(x) is tuple else [x, x]
        try: two = halves(last[-1] if last and s.F != 'partial-stale' else s.read(lba))
        except Alarm as e:
            ST['partial writes that failed'] += 1
            if not (w.store.mode == 'evil' or w.tampered or 'answer' in str(e)): raise Violation('error on a partial write without a cause: %s' % e)
            if s.F != 'partial-zeros': return
            two = [0, 0]
        want = halves(last[-1] if last else w.truth[s.h].state[lba]); two[half] = want[half] = val
        if two != want: raise Violation('a partial write took up what was not there')
        s.write(lba, tuple(two)); ST['partial writes'] += 1
    def room(s):
        low = min([o.hdr.n for o in s.queue]) - 1 if s.queue else s.n   # of the oldest that is not stored, not of how many are stored
        return s.nxt <= low + W or (s.F == 'window-by-count' and len(s.queue) < W)
    def push1(s):
        for _ in range(4):
            s.push()
            if s.room(): return
        s.failed = True; raise Alarm('flush failed: the store refuses')
    def push(s):
        q = list(s.queue); s.w.rng.shuffle(q)
        for o in q:
            r = s.w.store.put('l/%05d' % o.hdr.n, o)
            if r == 'ok' or (r == 'exists' and s.same('l/%05d' % o.hdr.n, o)): s.queue.remove(o)
            elif r == 'exists': s.failed = True; raise Alarm('fenced')
        if not s.queue: s.acked_n = s.n
        if s.jf and s.w.rng.random() < .4: s.drop()
    def flush(s, force=False):
        """with a journal: a record, synchronised; log objects come later"""
        w = s.w
        if not s.jf: return s.drain(force)
        if s.failed: raise Alarm('an earlier flush failed')
        if s.bulk:                                                     # no record may follow what no record has, before that is stored and anchored
            if s.F not in ('journal-bulk-unordered', 'journal-bulk-unanchored'): return s.drain()
            if s.F == 'journal-bulk-unanchored':
                for _ in range(4): s.push()
                if s.queue: s.failed = True; raise Alarm('flush failed: the store refuses')
            s.bulk = False
        if s.told < len(s.batch): s.append()
        if s.F != 'journal-not-synced': s.sync()
        s.flushes += 1
        if w.trust != 'none' and (force or s.flushes % w.every == 0):
            try: s.anchor(h=s.stored_h() if s.F != 'journal-anchors-unstored' else s.h)
            except Alarm: s.failed = True; raise
        s.acknowledge()
    def drain(s, force=False):
        """everything is stored, and by the policy anchored"""
        w = s.w
        if s.failed: raise Alarm('an earlier flush failed')
        if s.batch: s.seal(bulk=w.rng.random() < .5)
        if s.F == 'ack-before-put': w.acked.append(s.h); w.acked_by.append((s.h, s.dev))
        last = s.queue[-1] if s.queue else None
        if s.F == 'anchor-before-put' and w.trust != 'none': s.anchor()
        for _ in range(4):
            if not s.queue: break
            s.push()
            if s.F == 'ack-gap' and last not in s.queue: s.queue = []
        if s.queue and s.F == 'reseal':                                # what was refused is given up, and its number used again
            s.h = s.acked_h(); nd = w.truth[s.h]; s.n = nd.n; s.nxt = min(o.hdr.n for o in s.queue); s.queue = []
            s.over = dict(enumerate(nd.locs)); raise Alarm('flush failed: the store refuses')
        if s.queue: s.failed = True; raise Alarm('flush failed: the store refuses')
        s.flushes += 1
        if w.trust != 'none' and (force or s.jf or s.flushes % w.every == 0):
            try: s.anchor()
            except Alarm: s.failed = True; raise
        s.bulk = False; s.acknowledge()
        w.acked.append(s.h); w.acked_by.append((s.h, s.dev)); ST['acknowledged flushes'] += 1
    # -- checkpoint, snapshots, compaction, garbage
    def checkpoint(s):
        w = s.w
        if s.F != 'checkpoint-unflushed': s.drain(force=True)
        elif s.batch: s.seal()
        if s.pending:                                                  # the same bytes, until the store has them: those that it refused may come later
            name, o, hdr = s.pending
            if not s.put(name, o): return False
            s.pending = None; s.cks = (s.cks + [name])[-2:]; s.ckh[name] = hdr
        pages = list(s.pages)
        for p in range(NB // PER):
            if any(l // PER == p for l in s.over):
                m = {}
                for l in range(p * PER, p * PER + PER):
                    x = s.cur(l)
                    if x: m[l] = x
                hdr = Hdr(s.fmt, s.salt, s.sess, 0, w.rand('m%d.%d' % (p, s.n)), s.ep); name = 'm/' + hdr.osalt + ('.%d' % p)
                if not s.put(name, MapO(hdr, s.sl(hdr, 'm', 0, name, tuple(sorted(m.items()))))): return False
                pages[p] = (name, hdr)
        name = 'c/%05d' % s.n
        if name in s.cks: return True
        hdr = Hdr(s.fmt, s.salt, s.sess, s.n, w.rand('c'), s.ep)
        root = Root(s.n, s.h, s.nxt, s.salt, s.sess, tuple(pages), tuple(sorted(s.snaps.items())), tuple(sorted(s.ends.items())),
            () if s.F == 'rekey-forgets-key' else tuple(sorted((e, k) for e, k in s.ring.items() if e != s.ep)), tuple(sorted(s.holds)), s.said() if s.F != 'journal-not-in-root' else None)
        w.ck[hdr] = (s.h, [x[0] for x in pages if x]); w.ckh[hdr] = s.h
        o = Ckpt(hdr, s.sl(hdr, 'c', 'ra', s.n, root), s.sl(hdr, 'c', 'rb', s.n, root), hdr)
        if not s.put(name, o): s.pending = (name, o, hdr); return False
        s.pages = tuple(pages); s.over = {}
        s.cks = (s.cks + [name])[-2:]; s.ckh[name] = hdr; ST['checkpoints'] += 1
        return True
    def snapshot(s):
        if not s.checkpoint() or s.cks[-1] not in s.ckh: return
        i = s.w.ctr; s.w.ctr += 1; c = s.cks[-1]
        s.sealed((), (), (('+', i, (c, s.ckh[c])),)); s.drain(); ST['snapshots'] += 1
    def unsnap(s):
        free = [i for i in sorted(s.snaps) if s.F == 'clone-not-held' or all(h != i for h, _ in s.holds)]
        if free: s.sealed((), (), (('-', s.w.rng.choice(free), None),)); s.drain()
    # -- clones: held by the snapshot that they are of, before they exist and for as long as they do
    def clone(s):
        w = s.w
        if not s.snaps: return
        i = w.rng.choice(sorted(s.snaps)); r = s.open_ck(s.snaps[i][0], s.get(s.snaps[i][0]), s.snaps[i][1])
        if r is None: return
        w.ctr += 1; made = Clone(w.ctr, s.snaps[i], r.pages, w.truth[w.ckh[s.snaps[i][1]]].state, dict(s.ring))
        if s.F == 'clone-before-hold': w.clones.append(made)
        s.sealed((), (), (('c', i, made.id),)); s.drain(force=True)
        w.store.tick()                                                   # the clone's own checkpoint: without it the hold is all that there is
        if s.F != 'clone-before-hold': w.clones.append(made)
        ST['clones'] += 1
    def unclone(s):
        w = s.w
        if not s.holds: return
        i, c = w.rng.choice(sorted(s.holds))
        gone = [x for x in w.clones if x.id != c]
        if s.F != 'hold-goes-first': w.clones = gone                     # flattened, or deleted
        s.sealed((), (), (('u', i, c),)); s.drain(force=True)
        if s.F == 'hold-goes-first':
            s.unsnap(); s.gc(); w.clones = gone
    # -- another volume key: a checkpoint under it, the header, and only then anything else
    def rekey(s):
        w = s.w
        if s.jf and s.F != 'journal-rekey': return                       # refused while a journal is in use: its key comes from the volume key
        if not s.checkpoint(): return
        s.sealed((), (), ()); s.drain(force=True)
        w.kids += 1; kid = w.kids; ring = dict(s.ring)
        if s.F == 'rekey-header-first': w.header(kid)
        s.ep += 1; s.ring[s.ep] = kid; s.kid = kid
        if s.F == 'rekey-writes-first': w.ctr += 1; s.write(0, w.ctr); s.drain(force=True)
        try:
            if not s.checkpoint(): s.failed = True; raise Alarm('the store refuses the checkpoint')
            if s.F != 'rekey-header-first': w.header(kid)
        except Alarm: s.failed = True; raise                             # under which key others go on is not known
        s.sealed((), (), ()); s.drain(force=True); s.checkpoint(); ST['keys changed'] += 1
    def compact(s):
        if s.batch: s.flush()
        ls = []
        for l in range(NB):
            x = s.cur(l)
            if x and x[0].n <= s.acked_n: ls.append((l, s.read(l), x))
        s.w.rng.shuffle(ls)
        if ls:
            late = s.w.rng.random() < .5
            if late:                                                   # a write comes between choosing and writing
                s.w.ctr += 1; s.write(ls[0][0], s.w.ctr); s.seal()
            s.sealed((), ls[:2]); s.flush(); ST['relocations'] += 1
    def gc(s):
        w = s.w
        if s.F != 'gc-early' and not s.checkpoint(): return
        if len(s.cks) < 2 and s.F != 'gc-one-checkpoint': return
        if s.F == 'gc-early': 
            if s.batch: s.seal()
        listed = [x for p in 'lmc' for x in w.store.list(p)]
        keep, low = set(), None
        roots = list(s.cks) if s.F != 'gc-one-checkpoint' else s.cks[-1:]
        for c, hdr in [(c, s.ckh[c]) for c in roots] + (list(s.snaps.values()) if s.F != 'gc-ignores-snapshots' else []):
            r = s.open_ck(c, s.get(c), hdr)                                   # not another one of that number
            if r is None: return
            keep.add(c)
            if c in roots: low = r.n if low is None else min(low, r.n)
            for ref in r.pages:
                if ref: keep.add(ref[0])
            for l in range(NB):
                x = s.cur(l, r.pages)
                if x: keep.add('l/%05d' % x[0].n)
        for l in range(NB):
            x = s.cur(l)
            if x: keep.add('l/%05d' % x[0].n)
        if s.F == 'gc-early': low = s.n; keep = {x for x in keep if x[0] == 'l'} | {c for c in s.cks} | {r[0] for r in s.pages if r}; keep = {x for x in keep if x[0] != 'l' or x in {'l/%05d' % s.cur(l)[0].n for l in range(NB) if s.cur(l)}}
        dead = [x for x in listed if x not in keep and not (x[0] == 'l' and int(x[2:]) > low) and not (x[0] == 'c' and int(x[2:]) > low)]
        if s.F != 'gc-forgets-fences':                                  # or a writer that slept for long could put its next object there
            dead = [x for x in dead if not (x[0] == 'l' and getattr(s.open_log(x, s.get(x)), 'kind', '') == 'begin')]
        if w.stall and w.rng.random() < .6: s.resume_gc = dead; return  # stalls here; another writer may take over
        s.collect(dead)
    def collect(s, dead):
        w = s.w
        if s.F not in ('gc-unfenced', 'gc-early'): s.sealed((), (), ()); s.drain()   # still not fenced: after the list, before the first delete
        for x in dead: w.store.delete(x, s)
    def close(s):
        if s.jf and not s.failed:                                      # in this order
            s.drain(force=True); s.sync(); s.anchor(); f, c = s.jf, s.F == 'journal-closed-late'
            if not c and s.F != 'journal-not-wiped': f.first, f.chain, f.recs = s.jn + 1, s.jc, []; f.keep(); s.w.store.tick()     # a half without records, and then the other one's head is wiped
            s.jf = f.lock = None; s.sealed((), (), ()); s.drain(); s.checkpoint(); ST['closed with a journal'] += 1
            if c: f.first, f.chain, f.recs = s.jn + 1, s.jc, []
        elif s.batch and not s.failed: s.flush()
        clean = not s.failed and not s.queue
        if s.F in ('resume', 'resume-fixed-keys') and s.failed: clean = True
        if clean and s.w.trust != 'none':
            if s.failed: s.w.tstore(s, Rec(True, s.salt, s.acked_n, s.acked_h(), None), s.w.truth[s.acked_h()].op)
            else: s.anchor(closed=True)
    def acked_h(s):
        h = s.h
        while s.w.truth[h].n > s.acked_n: h = s.w.truth[h].parent
        return h

    def fork(s):
        """the process is copied while it runs (a virtual machine that is resumed twice)"""
        v = copy.copy(s); v.over, v.queue, v.batch, v.snaps, v.ends, v.cks, v.ckh = dict(s.over), list(s.queue), list(s.batch), dict(s.snaps), dict(s.ends), list(s.cks), dict(s.ckh)
        v.ring, v.holds, v.bounds = dict(s.ring), set(s.holds), list(s.bounds)
        if s.jf: v.jf = copy.copy(s.jf); v.jf.put(s.jf.whole()); v.jf.given_up = s.w.copied = True
        return v

def make(w):
    """a new volume: what was there under the same volume key is given up, and stays known to the adversary"""
    w.fmt = w.rand('fmt'); w.store.o = {}; w.store.true = {}; w.store.late = []; w.rec = {}; w.truth = {}; w.acked = []; w.acked_by = []; w.anch = {}; w.ck = {}; w.live = None; w.clones = []; w.files = {}; w.file = None; w.jacked = []; w.copied = w.harmed = False; w.scarred = None; w.ops.append(Op(None, 0, (0,) * NB))
    hdr = Hdr(w.fmt, w.rand('salt0'), 0, 0, w.rand('c'), 0); h = H('made', hdr)
    w.node(h, None, 'begin', 0, (0,) * NB, (None,) * NB, (), 0, len(w.ops) - 1, None)
    root = Root(0, h, 1, hdr.salt, 0, (None,) * (NB // PER), (), (), (), (), None)
    o = Ckpt(hdr, w.seal(hdr, 'c', 'ra', 0, root, w.head), w.seal(hdr, 'c', 'rb', 0, root, w.head), hdr)
    w.store.o['c/00000'] = w.store.true['c/00000'] = o; w.store.hist.setdefault('c/00000', []).append(o); w.ck[hdr] = (h, []); w.ckh[hdr] = h
    if w.trust != 'none':
        for d in range(w.ndev): w.rec[d] = Rec(True, hdr.salt, 0, h, None); w.anch[d] = h; w.ancop[d] = (len(w.ops) - 1, 0)

def reads(w, v, quiet=False):
    """everything is what it was, or an error; no error without a cause"""
    nd = w.truth[v.h]; bad = 0; view = v.view(); new = {l: x for l, x, _ in v.batch}
    def one(lba, want, pages=None):
        try: got = new[lba] if pages is None and lba in new else v.read(lba, pages)
        except Alarm as e:
            ST['read errors'] += 1
            if not (quiet or w.store.mode == 'evil' or w.tampered or 'answer' in str(e)): raise Violation('error on reading without a cause: %s' % e)
            return 1
        if got != want: raise Violation('wrong data accepted')
        ST['reads'] += 1; return 0
    for lba in range(NB): bad += one(lba, view[lba])
    if sorted(v.snaps) != [i for i, _ in nd.snaps]: raise Violation('snapshots vanished or came back')
    for i, (name, hdr) in sorted(v.snaps.items()):
        try: r = v.open_ck(name, v.get(name), hdr)
        except Alarm: r = None
        if r is None:
            if not (quiet or w.store.mode != 'honest' or w.tampered): raise Violation('snapshot lost')
            continue
        for lba in range(NB): one(lba, w.truth[w.ckh[hdr]].state[lba], r.pages)
    for c in w.clones:                                               # through the parent's objects, with the parent's keys as they were
        ring, v.ring = v.ring, c.ring
        try:
            for lba in range(NB): one(lba, c.state[lba], c.pages)
        finally: v.ring = ring
    return bad

def fenced_by_nobody(w, v, e):
    if w.mode == 'evil' or w.tampered or str(e) != 'fenced' or w.live is not v: return
    raise Violation('false alarm: fenced, and nobody else writes')

def work(w, v, rng, n):
    for _ in range(n):
        r = rng.random()
        if v.jf and rng.random() < .35:                                # what a journal is for: flushes that are local, and objects behind them
            if r < .45:
                for _ in range(rng.randrange(1, 4)): w.ctr += 1; v.write(rng.randrange(NB), w.ctr)
            if r < .25 and not v.bulk: v.append()
            elif r < .5: v.flush()
            elif r < .8 and v.batch and v.room(): v.seal(rng.randrange(1, len(v.batch) + 1), rng.random() < .12)
            else: v.push()
        elif r < .10: w.ctr += 1; v.partial(rng.randrange(NB), rng.randrange(2), w.ctr)
        elif r < .42:
            w.ctr += 1; v.write(rng.randrange(NB), 0 if rng.random() < .1 else w.ctr)
        elif r < .50 and v.batch and v.room(): v.seal(rng.randrange(1, len(v.batch) + 1) if v.jf else None, rng.random() < .25); ST['sealed without flush'] += 1
        elif r < .55: v.push()
        elif r < .58:                                                # one object is refused for a while, those behind it are stored
            v.flush(); w.store.stuck = 'l/%05d' % v.nxt; ST['bursts behind a refused object'] += 1
            try:
                for _ in range(7):
                    w.ctr += 1; v.write(rng.randrange(NB), w.ctr)
                    if v.room(): v.seal()
                    v.push()
            finally: w.store.stuck = None
        elif r < .75: v.flush()
        elif r < .82: v.checkpoint()
        elif r < .85: v.snapshot()
        elif r < .865: v.unsnap()
        elif r < .88:
            if w.store.fuse is None and rng.random() < .5: w.store.fuse = rng.randrange(1, 9)      # a crash while a clone is made
            v.clone()
        elif r < .885: v.unclone()
        elif r < .895: v.rekey()
        elif r < .925: v.compact()
        elif r < .96: v.gc()
        elif v.jf or not v.batch: reads(w, v)

def tamper(w, rng):
    """between sessions: an older store, objects of before, dropped ones that come back"""
    st = w.store; k = rng.randrange(6); w.tampered = True; ST['attacks between sessions'] += 1
    if k == 0 and st.snaps: st.o = dict(rng.choice(st.snaps))
    elif k == 1:
        for x in rng.sample(sorted(st.hist), min(3, len(st.hist))): st.o[x] = rng.choice(st.hist[x])
    elif k == 2:
        for x in sorted(st.hist):
            if len(st.hist[x]) > 1 or x not in st.o: st.o[x] = st.hist[x][0]       # the one that was dropped or replaced
    elif k == 3:
        for x in sorted(st.o)[-rng.randrange(1, 5):]: st.o.pop(x)
    elif k == 5 and w.trust != 'excl': w.head = rng.choice(w.heads)   # a header of before, with a key of before (THREAT-MODEL.md has what it does beside a record)
    elif st.o: x = rng.choice(sorted(st.o)); st.o[x] = flip(st.o[x], rng)

def vandal(w, rng):
    """between sessions: the journal's disk is the attacker's"""
    free = [f for i, f in sorted(w.files.items()) if f.lock is None and f.copies]
    if not free: return
    f = rng.choice(free); f.right = f.right or f.whole(); k = rng.randrange(4); w.harmed = True; ST['attacks on a journal'] += 1
    if k < 2: f.put(rng.choice(f.copies) if rng.random() < .5 else max(f.copies, key=lambda c: c[0] + len(c[2]) + len(c[3])))             # an older one
    elif k == 2: a = f.recs + f.pend; f.recs, f.pend = a[:rng.randrange(len(a) + 1)], []
    elif f.recs: i = rng.randrange(len(f.recs)); f.recs[i] = f.recs[i]._replace(seal=f.recs[i].seal._replace(ok=False))
def righted(w):
    for f in w.files.values():
        if f.right: f.put(f.right); f.right = None
    w.harmed = w.scarred is not None

def scenario(seed, flaw, w=None, depth=0):
    rng = random.Random(seed)
    if w is None: w = World(rng, flaw); make(w)
    zombies, reader = [], None
    for cyc in range(rng.randrange(2, 8)):
        dev = rng.randrange(w.ndev); st = w.store; st.mode = w.mode if rng.random() < .8 else ('honest' if w.mode != 'evil' else 'evil')
        st.fuse = rng.randrange(1, 60) if rng.random() < .35 else None; w.live = None; w.stall = False
        if any(z.jf for z in zombies) and rng.random() < .5: zombies = [z for z in zombies if not z.jf]
        w.settle(zombies); jn = w.journal and rng.random() < .85; forgo = any(z.jf for z in zombies) or rng.random() < .04
        v = Vol(w, dev); ST['openings'] += 1
        try: v.open(True, jn, forgo); w.check_open(v); w.live = v
        except Crash: continue
        except Alarm as e:
            st.fuse = None; ST['refused openings'] += 1
            if w.rolled or w.harmed and w.trust == 'none': return
            if w.mode == 'evil':
                if w.trust != 'excl': return
                st.o = dict(st.true); w.tampered = False; st.late = []; w.head = w.heads[-1]
            w.settle(zombies); righted(w); st.mode = 'honest'; v = Vol(w, dev)
            try: v.open(True, jn, forgo or w.copied); w.check_open(v); w.live = v; reads(w, v)
            except Crash: continue
            except Alarm as e2:
                if w.scarred: return
                if 'trusted store' in str(e2): continue
                raise Violation('false alarm at opening: %s' % e2)
            st.mode = w.mode
        if w.mixed: return
        # ---- a flipped bit costs one unit
        if w.mode == 'honest' and not w.tampered and rng.random() < .5:
            f, st.fuse = st.fuse, None; x = rng.choice(sorted(st.o)); old = st.o[x]; st.o[x] = new = flip(old, rng); ST['flipped bits'] += 1
            u = Vol(w, dev)
            try: u.open(write=False)
            except Alarm as e: raise Violation('a flipped bit cost the volume: %s' % e)
            if u.h != v.h: raise Violation('a flipped bit cost the tail of the log')
            if reads(w, u, True) > (PER if x[0] == 'm' else 1): raise Violation('a flipped bit cost more than its unit')
            st.o[x] = old; st.fuse = f
        try:
            if rng.random() < .25:                                  # refused, closed in good order if the design says so, then the dropped bytes
                ST['refused and closed'] += 1
                st.fuse = None; v.flush(force=True)
                for _ in range(rng.randrange(1, 3)): w.ctr += 1; v.write(rng.randrange(2), w.ctr)
                before = dict(st.o); w.refuse = True; m = st.mode; st.mode = 'flaky'
                try: v.flush()
                except Alarm: pass
                finally: w.refuse = False; st.mode = m
                if rng.random() < .3 and flaw == 'reseal': w.ctr += 1; v.write(0, w.ctr); v.flush()
                try: v.close()
                except Alarm: pass
                if w.mode == 'evil':
                    w.settle(zombies); v = Vol(w, dev); st.mode = 'honest'
                    v.open(True, jn, forgo); w.check_open(v); w.live = v
                    for _ in range(rng.randrange(1, 4)): w.ctr += 1; v.write(rng.randrange(2), w.ctr); v.flush()
                    if rng.random() < .5: v.checkpoint()
                    if rng.random() < .5: v.close()
                    for x in sorted(st.hist):
                        if x[0] == 'l' and x not in before and len(st.hist[x]) > 1: st.o[x] = rng.choice(st.hist[x]); w.tampered = True
                    if v.jf or not v.batch: reads(w, v, True)               # what was acknowledged and withheld is missing: EIO, never other bytes
                continue
            if v.jf and w.vandal and rng.random() < .1:               # part of what was not synchronised is lost, another session begins, and all of it is back
                ST['lost records put back'] += 1; st.fuse = None; v.flush(); f = v.jf
                for _ in range(rng.randrange(2, 5)): w.ctr += 1; v.write(rng.randrange(NB), w.ctr); v.append()
                all_of_it = f.whole(); f.recs += f.pend[:rng.randrange(len(f.pend))]; f.pend = []; f.lock = None
                v = Vol(w, dev); v.open(True, jn, forgo); w.check_open(v); w.live = v; w.settle(zombies)
                if v.jf is f: f.right = f.whole(); f.put(all_of_it); w.harmed = True
                continue
            if v.jf and w.mode == 'evil' and rng.random() < .1:       # what no record has is stored, and hidden once a record follows
                ST['unrecorded objects hidden'] += 1; st.fuse = None; v.drain(); before = dict(st.o); w.ctr += 1; v.write(rng.randrange(NB), w.ctr); v.seal(bulk=True)
                for _ in range(4): v.push()
                w.ctr += 1; v.write(rng.randrange(NB), w.ctr); st.fuse = rng.randrange(8)
                try: v.flush()
                finally: st.fuse = None; st.o = before; w.tampered = True
                continue
            w.stall = rng.random() < .3 and w.mode != 'evil'
            if rng.random() < .5: st.snaps.append(dict(st.o)); st.snaps = st.snaps[-6:]
            if reader and w.mode == 'honest' and reader.hdr0 in v.cks + [c for c in v.cks]: reads(w, reader)
            work(w, v, rng, 0 if v.jf and rng.random() < .2 else rng.randrange(2, 22))
            if w.mode == 'honest' and rng.random() < .3: reader = Vol(w, dev).open(write=False)
            r = rng.random()
            if r < .08 and w.mode == 'honest':                       # the running process is copied
                u = v.fork(); ST['processes copied'] += 1
                for x in rng.sample((u, v), 2):
                    try:
                        w.ctr += 1; x.write(rng.randrange(NB), w.ctr); x.flush()
                        if x.jf and rng.random() < .5: x.seal(); x.push()
                    except Alarm: pass
            elif r < .16 and w.mode == 'honest' and depth == 0:      # volume and store copied, both written to under one key
                ST['copies written to'] += 1
                x = copy.deepcopy(w); x.reg = w.reg; x.rng = x.store.rng = random.Random(seed + 1 + 7919 * cyc); x.live = None; x.store.fuse = None; x.settle()
                scenario(seed + 7, flaw, x, 1)
            elif r < .22 and depth == 0:                             # made again under the same volume key
                ST['made again'] += 1; make(w); zombies = []; reader = None; w.tampered = False; continue
            elif r < .55: v.close()
            elif w.mode != 'evil': zombies.append(v)
            else: st.fuse = None
        except Crash: pass
        except Alarm as e: ST['alarms while open'] += 1; fenced_by_nobody(w, v, e)
        st.fuse = None
        # ---- writers that were thought dead
        if zombies and w.mode != 'evil' and rng.random() < .6:
            z = rng.choice(zombies); b = Vol(w, dev); w.settle(zombies)
            try: b.open(True, w.journal, any(y.jf for y in zombies)); w.check_open(b); w.live = b; work(w, b, rng, 6)
            except (Alarm, Crash): b = None
            ST['stalled writers resumed'] += 1; m = st.mode; zs = z
            try:
                if z.resume_gc is not None: d, z.resume_gc = z.resume_gc, None; z.collect(d)
                if rng.random() < .4: z.gc()
                elif rng.random() < .3: z.close()
                else: w.ctr += 1; z.write(rng.randrange(NB), w.ctr); z.flush(); z.gc()
            except Violation: raise
            except (Alarm, Crash): pass
            zombies.remove(zs)
        # ---- the adversary between sessions
        if w.mode == 'evil' and rng.random() < .6: tamper(w, rng)
        if w.vandal and rng.random() < .5: w.settle(zombies); vandal(w, rng)
        if w.trust != 'none' and w.recs and rng.random() < .05:
            d, old, a, o = rng.choice(w.recs)
            if old: w.rec[d] = old; w.anch[d] = a; w.ancop[d] = o; w.rolled = True; ST['trusted store put back'] += 1
    # ---- at the end: honest again, and everything that was acknowledged is there
    st = w.store; st.fuse = None; w.live = None
    if w.rolled or w.copied or w.harmed and w.trust == 'none': return
    if w.mode == 'evil':
        if w.trust != 'excl': return
        st.o = dict(st.true); w.tampered = False; st.late = []; w.head = w.heads[-1]
    w.settle(); righted(w); st.mode = 'honest'
    for dev in range(w.ndev):
        v = Vol(w, dev)
        try: v.open(False, True); w.check_open(v)
        except Alarm as e:
            if w.scarred: return
            raise Violation('false alarm at the end: %s' % e)
        reads(w, v)

FLAWS = ('no-random','no-object-salt','no-object-key','no-place','no-format-bind','hdr-of-object','tag-ignored','reseal','resume','resume-fixed-keys',
  'any-session','begin-not-anchored','no-anchor','chain-unchecked','checkpoint-trusted','fork-unchecked','gap-accepted','error-is-absent','missing-is-hole','ack-before-put','anchor-before-put','ack-gap','no-fence','no-skip','window-by-count',
  'store-not-held','relocate-blind','older-record-unchecked','checkpoint-unflushed','gc-early','gc-one-checkpoint','gc-ignores-snapshots','gc-unfenced','gc-forgets-fences','single-summary','single-prelude',
  'rekey-header-first','rekey-writes-first','rekey-forgets-key','clone-not-held','clone-before-hold','hold-goes-first','partial-zeros','partial-stale',
  'journal-begin-forgets','journal-lone-begin','journal-not-in-root','journal-mark-ahead','journal-mark-by-number','journal-dropped-early','journal-not-synced','journal-older-unchecked','journal-chain-unchecked',
  'journal-no-takeover','journal-no-salt','journal-new-identifier','journal-anchors-unstored','journal-bulk-unordered','journal-bulk-unanchored','journal-closed-late','journal-not-wiped','journal-rekey','journal-record-cut','journal-ended-by-begin')

def run(seed, runs, flaw, enough=None):
    """enough: stop once something was found and so many volumes were tried"""
    rng = random.Random(seed); found = {}; first = 0
    for i in range(1, runs + 1):
        sub = rng.randrange(1 << 40)
        try: scenario(sub, flaw)
        except Violation as e:
            first = first or i; c = found.setdefault(str(e).split(':')[0], [0, sub]); c[0] += 1
        if first and enough and i >= enough: break
    return i, found, first

if __name__ == '__main__':
    a = sys.argv; opt = lambda n, d: a[a.index(n) + 1] if n in a else d
    if '--one' in a: scenario(int(opt('--one', 0)), opt('--flaw', None)); print('nothing found'); sys.exit()
    seed, runs = int(opt('--seed', 1)), int(opt('--runs', 2000)); t = time.time()
    if '--flaws' in a:
        missed = 0
        for f in FLAWS:
            n, found, first = run(seed, runs, f, 300); missed += not found
            print('%-22s %s' % (f, 'first in volume %d; of %d: %s' % (first, n, ', '.join('%s %d' % (k, c[0]) for k, c in sorted(found.items(), key=lambda x: -x[1][0]))) if found else 'NOT CAUGHT in %d volumes' % n), flush=True)
        print('%d of %d caught' % (len(FLAWS) - missed, len(FLAWS))); sys.exit(missed > 0)
    n, found, _ = run(seed, runs, opt('--flaw', None))
    print('volumes', n, dict(ST)); print('violations', {k: tuple(v) for k, v in found.items()} or 0, '%.0f s' % (time.time() - t))
    sys.exit(bool(found))
