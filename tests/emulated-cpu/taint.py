"""Which instructions of a disassembled function let a secret decide where the program goes or what it reads.

valgrind follows secrets through AES-NI and AVX2 but knows neither AVX-512 nor VAES, so the code for those is judged as
it was generated. What vector registers load from memory is secret, but for constants; so is all that is computed from
it. A secret must not reach the flags that a jump looks at, nor an address.

Blind spots, stated because they are there: words that general registers load from elsewhere than the stack frame count
as public (pointers and lengths come that way), and so does what a function is called with; bytes so loaded must not
become an index, but may be branched on (flags and tags come that way). The scalar code around the
vectors is the same source as in the AVX2 build, which valgrind does follow.
"""

import re

GENERAL = {}
for number in range(8, 16):
    for suffix in ("", "d", "w", "b"):
        GENERAL[f"r{number}{suffix}"] = f"r{number}"
for name in ("ax", "bx", "cx", "dx"):
    for alias in (f"r{name}", f"e{name}", name, f"{name[0]}l", f"{name[0]}h"):
        GENERAL[alias] = f"r{name}"
for name in ("si", "di", "bp", "sp"):
    for alias in (f"r{name}", f"e{name}", name, f"{name}l"):
        GENERAL[alias] = f"r{name}"

IN_ADDRESS = "secret in an address"
CALLER_SAVED = {"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"}
NO_FLAGS = re.compile(r"^(mov|lea|v|k|p[a-z]|cmov|set|push|pop|bswap|xchg|call|ret|nop|rep|mulx|rorx|shlx|shrx|sarx|andn|not"
                      r"|cvt|aes|shuf|unpck|xorps|endbr|data16|cs|prefetch|lock|ud2|int3|cpuid|xgetbv|cld|out|hlt|bnd)")
FLAGS_FROM_VECTORS = re.compile(r"^v?(ptest|testp[sd]|u?comis[sd])")
MASK_TO_FLAGS = re.compile(r"^(kortest|ktest)")
USES_FLAGS = re.compile(r"^(adc|sbb|cmov|set|rcl|rcr|adcx|adox)")
TOUCHES_WIDE = re.compile(r"\bzmm\d|\b[xy]mm(1[6-9]|2\d|3[01])\b|\bk[1-7]\b|^v(aes|pclmulqdq).*\by")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\s*(.*?)\s*(?:#.*)?$")
FUNCTION = re.compile(r"^([0-9a-f]+) <(.*)>:$")
DESTINATION_ONLY = re.compile(r"^(mov|v|k|lea|set|pop|cvt|mulx|rorx|shlx|shrx|sarx|andn|bsf|bsr|lzcnt|tzcnt|popcnt)")
# What reads all of its operands, or writes none.
READS_ONLY = re.compile(r"^(cmp|test|push|bt$|vptest|vtest|kortest|ktest|vucomis|vcomis|ucomis|comis|prefetch|nop|out)")


def register(operand):
    """The name that stands for all aliases of a register, or None."""
    operand = re.sub(r"\{.*?\}", "", operand).strip()
    if operand in GENERAL:
        return GENERAL[operand]
    vector = re.fullmatch(r"[xyz]mm(\d+)", operand)
    if vector:
        return f"v{vector[1]}"
    return operand if re.fullmatch(r"k[0-7]", operand) else None


def split(operands):
    parts, depth, part = [], 0, ""
    for letter in operands:
        depth += letter in "[{(<"
        depth -= letter in "]})>"
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [part.strip() for part in parts + [part] if part.strip()]


class Instruction:
    def __init__(self, address, name, operands):
        self.address, self.name = address, name
        self.text = f"{name} {operands}"
        self.operands = split(operands)
        self.masks = re.findall(r"\{(k[1-7])\}", operands)
        self.target = None
        if name.startswith(("j", "call", "loop")):
            target = re.match(r"([0-9a-f]+) <", operands)
            self.target = int(target[1], 16) if target else None

    def memory(self, operand):
        """(registers of the address, key of a slot in the frame or None), if the operand is in memory."""
        inside = re.search(r"\[(.*?)\]", operand)
        if not inside:
            return None
        registers = [GENERAL[word] for word in re.findall(r"[a-z]+\d*[a-z]?", inside[1]) if word in GENERAL]
        vectors = re.findall(r"[xyz]mm\d+", inside[1])
        slot = f"@{inside[1]}" if registers in (["rsp"], ["rbp"]) else None
        return registers + [register(vector) for vector in vectors], slot, not registers


def functions(lines):
    """Name and instructions of each function in `objdump -d -M intel --no-show-raw-insn -C`."""
    name, body = None, []
    for line in lines:
        start = FUNCTION.match(line)
        if start:
            if body:
                yield name, body
            name, body = start[2], []
            continue
        found = INSTRUCTION.match(line)
        if found and name:
            body.append(Instruction(int(found[1], 16), found[2], found[3]))
    if body:
        yield name, body


def is_wide(body):
    return any(TOUCHES_WIDE.search(instruction.text) for instruction in body)


def ends(instruction):
    """Whether nothing comes after it: a return, or a call of what never returns."""
    never_returns = re.search(r"<core::(panicking|\w+::\w*fail|\w+::\w+::\w*fail)", instruction.text)
    return instruction.name in ("ret", "ud2") or instruction.name == "call" and never_returns is not None


def step(instruction, secret, narrow=False):
    """(what is secret afterwards, what is wrong with the instruction or None). With `narrow`, loaded bytes are secret."""
    name, operands = instruction.name, instruction.operands
    if name.startswith(("rep", "lock", "bnd", "data16", "cs", "ds")) and operands:
        words = operands[0].split(None, 1)
        if name.startswith("rep"):
            wrong = "secret count or address" if {"rcx", "rsi", "rdi"} & secret else None
            return secret, wrong
        name, operands = words[0], words[1:] + operands[1:]
    if " nop " in f" {instruction.text} ":
        return secret, None
    memories = [memory for memory in map(instruction.memory, operands) if memory]
    if name != "lea":
        for registers, _, _ in memories:
            if secret.intersection(registers):
                return secret, IN_ADDRESS
    if name.startswith("j"):
        if name != "jmp":
            return secret, "jump on a secret" if "flags" in secret else None
        return secret, "jump to a secret" if any(register(o) in secret for o in operands) else None
    if name == "call":
        wrong = "call of a secret" if any(register(o) in secret for o in operands) else None
        kept = {place for place in secret if place not in CALLER_SAVED and place[0] not in "vk" and place != "flags"}
        return kept, wrong
    if name in ("ret", "ud2", "int3", "hlt", "endbr64", "vzeroupper", "cld"):
        return ({p for p in secret if p[0] != "v"} if name == "vzeroupper" else secret), None
    if name == "vzeroall":
        return {place for place in secret if place[0] != "v"}, None

    reads_only = bool(READS_ONLY.match(name))
    overwrites = bool(DESTINATION_ONLY.match(name)) or name == "imul" and len(operands) == 3
    # FMA-like and ternary-logic instructions, insertions under a mask, and legacy SSE read their destination too.
    if re.match(r"^v(pternlog|fm|fn|pdpb|permi2|permt2|pmadd52|pshldv|pshrdv)|^kunpck", name):
        overwrites = False
    zeroing = "{z}" in instruction.text
    if instruction.masks and not zeroing:
        overwrites = False
    clears = len(operands) >= 2 and len(set(operands)) == 1 and re.match(r"^(xor|sub|v?pxor|vxorp|kxor)", name)

    def value(operand):
        memory = instruction.memory(operand)
        if memory is None:
            return register(operand) in secret
        registers, slot, constant = memory
        if name == "lea":
            return any(part in secret for part in registers)
        if slot is not None:
            return slot in secret
        vector = name.startswith(("v", "k", "p", "mova", "movu", "aes")) and not name.startswith(("push", "pop"))
        byte = narrow and operand.startswith("BYTE PTR")
        return (vector or byte) and not constant and "rip" not in operand

    sources = operands if reads_only or not overwrites else operands[1:]
    tainted = any(value(operand) for operand in sources) or any(mask in secret for mask in instruction.masks)
    if USES_FLAGS.match(name):
        tainted = tainted or "flags" in secret
    if name in ("mul", "div", "idiv") or name == "imul" and len(operands) == 1:
        tainted = tainted or "rax" in secret or (name != "mul" and name != "imul" and "rdx" in secret)
    if name == "mulx":
        tainted = tainted or "rdx" in secret
    if re.match(r"^i?div", name) and tainted:
        return secret, "division of a secret"
    if re.match(r"^v?p(gather|scatter)|^v(gather|scatter)", name) and tainted:
        return secret, IN_ADDRESS
    after = set(secret)

    def assign(place, is_secret):
        after.discard(place)
        if is_secret:
            after.add(place)

    if clears:
        tainted = False
    if not reads_only and operands:
        targets = [operands[0]]
        if name in ("mulx", "xchg"):
            targets = operands[:2]
        for operand in targets:
            memory = instruction.memory(operand)
            if memory is None:
                place = register(operand)
                if place:
                    assign(place, tainted)
            elif memory[1] is not None:
                assign(memory[1], tainted)
    if name in ("mul", "imul") and len(operands) == 1 or name in ("cqo", "cdq"):
        assign("rax", tainted)
        assign("rdx", tainted)
    if FLAGS_FROM_VECTORS.match(name) or MASK_TO_FLAGS.match(name):
        assign("flags", tainted)
    elif not NO_FLAGS.match(name):
        # A byte may be branched on, so it may choose as well.
        assign("flags", tainted and not narrow)
    return after, None


def leaks(body, bytes_too=True):
    """(address, text, reason) for every instruction that lets a secret out."""
    found = walk(body, narrow=False)
    for address, (text, reason) in walk(body, narrow=True).items() if bytes_too else ():
        # Flags and tags are bytes that may be branched on, by a table too; an index that was a byte is a table of bytes.
        if reason == IN_ADDRESS and not text.startswith("jmp"):
            found.setdefault(address, (text, reason))
    return [(address, *found[address]) for address in sorted(found)]


def walk(body, narrow):
    """Instructions that let a secret out, over all paths."""
    index = {instruction.address: number for number, instruction in enumerate(body)}
    states, found = {}, {}
    # Where jump tables lead is not looked up: what nothing else reaches is entered with nothing secret.
    entries = [0]
    for number, instruction in enumerate(body[:-1]):
        if instruction.name == "jmp" or ends(instruction):
            entries.append(number + 1)
    work = [(entry, frozenset()) for entry in reversed(entries)]
    while work:
        number, incoming = work.pop()
        known = states.get(number)
        state = incoming if known is None else known | incoming
        if known is not None and state == known:
            continue
        while number < len(body):
            known = states.get(number)
            if known is not None:
                state = frozenset(state | known)
                if state == known:
                    break
            states[number] = frozenset(state)
            instruction = body[number]
            after, wrong = step(instruction, set(state), narrow)
            if wrong:
                found[instruction.address] = (instruction.text, wrong)
            state = frozenset(after)
            if instruction.name.startswith("j"):
                if instruction.target in index:
                    work.append((index[instruction.target], state))
                if instruction.name == "jmp":
                    break
            if ends(instruction):
                break
            number += 1
    return found
