"""LittleFS by littlefs-python, which has the C library in it and none of our code.

    littlefs_image.py read IMAGE ERASE PROG DIRECTORY       copies everything in IMAGE to DIRECTORY
    littlefs_image.py write DIRECTORY IMAGE ERASE PROG N V  makes IMAGE of N blocks, on-disk version V, with what is in DIRECTORY
"""
import pathlib, sys

import littlefs


def filesystem(image, erase, prog, blocks, version=0):
    context = littlefs.UserContext(buffsize=0)
    context.buffer = image
    kwargs = {"disk_version": version} if version else {}
    return littlefs.LittleFS(
        context=context, mount=False, block_size=erase, block_count=blocks, read_size=prog, prog_size=prog,
        cache_size=erase, lookahead_size=16, **kwargs,
    )


def read(image, erase, prog, directory):
    data = bytearray(pathlib.Path(image).read_bytes())
    before = bytes(data)
    fs = filesystem(data, int(erase), int(prog), len(data) // int(erase))
    fs.mount()
    root = pathlib.Path(directory)
    root.mkdir()
    for place, directories, files in fs.walk("/"):
        here = root / place.strip("/")
        for name in directories:
            (here / name).mkdir()
        for name in files:
            with fs.open(f"{place.rstrip('/')}/{name}", "rb") as file:
                (here / name).write_bytes(file.read())
    fs.unmount()
    assert bytes(data) == before, "reading wrote"


def write(directory, image, erase, prog, blocks, version):
    erase, blocks = int(erase), int(blocks)
    data = bytearray(b"\xff" * (erase * blocks))
    fs = filesystem(data, erase, int(prog), blocks, int(version, 0))
    fs.format()
    fs.mount()
    root = pathlib.Path(directory)
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir():
            fs.mkdir(name)
        else:
            with fs.open(name, "wb") as file:
                file.write(path.read_bytes())
    fs.unmount()
    pathlib.Path(image).write_bytes(data)


{"read": read, "write": write}[sys.argv[1]](*sys.argv[2:])
