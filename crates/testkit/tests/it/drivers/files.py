"""Makes, changes, renames and removes files in a directory, and prints what must be there afterwards.

    files.py make DIR SEED COUNT   does it and prints the list that it expects
    files.py list DIR              prints what is there
"""
import hashlib, os, random, sys


def line(path, data):
    return f"{path} {'directory' if data is None else hashlib.sha256(data).hexdigest()}"


def make(root, seed, count):
    rng = random.Random(seed)
    there = {}  # relative path: bytes, or None for a directory

    def at(path):
        return os.path.join(root, path)

    def files():
        return [path for path, data in there.items() if data is not None]

    directories = [""]
    made = 0
    while made < count:
        step = rng.randrange(10)
        chosen = rng.choice(files()) if step >= 6 and files() else None
        if made % 50 == 0 and len(directories) <= made // 50 + 1:
            path = os.path.join(rng.choice(directories), f"directory {len(directories)}")
            os.mkdir(at(path))
            directories.append(path)
            there[path] = None
        if chosen is None:
            name = f"{made}" if rng.randrange(4) else f"{made} naïve Größe " + "x" * rng.randrange(60)
            path = os.path.join(rng.choice(directories), name)
            data = rng.randbytes(rng.choice([0, 1, 511, 4096, rng.randrange(20000)]))
            with open(at(path), "wb") as file:
                file.write(data)
            there[path] = data
            made += 1
        elif step == 6:
            more = rng.randbytes(rng.randrange(1, 3000))
            with open(at(chosen), "ab") as file:
                file.write(more)
            there[chosen] += more
        elif step == 7:
            path = os.path.join(rng.choice(directories), f"renamed {made} {rng.randrange(1 << 30)}")
            os.rename(at(chosen), at(path))
            there[path] = there.pop(chosen)
        elif step == 8:
            over = rng.choice(files())
            if over != chosen:
                os.rename(at(chosen), at(over))
                there[over] = there.pop(chosen)
        elif rng.randrange(3) == 0:
            os.remove(at(chosen))
            del there[chosen]
    return [line(path, data) for path, data in there.items()]


def listed(root):
    for directory, names, files in os.walk(root):
        inner = os.path.relpath(directory, root)
        for name in names:
            if name not in ("lost+found", "System Volume Information"):
                yield line(os.path.normpath(os.path.join(inner, name)), None)
        for name in files:
            # libfuse's name for what was removed before the kernel has said that it is closed.
            if name.startswith(".fuse_hidden"):
                continue
            with open(os.path.join(directory, name), "rb") as file:
                yield line(os.path.normpath(os.path.join(inner, name)), file.read())


if sys.argv[1] == "make":
    lines = make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    lines = listed(sys.argv[2])
print("\n".join(sorted(lines)))
