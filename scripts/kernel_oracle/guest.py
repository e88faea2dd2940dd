"""Boots the guest in QEMU and brings back its output and exit status."""

import contextlib
import hashlib
import lzma
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

from . import OracleError, initramfs, packages

EXIT_TIMEOUT = 124

# The kernel's self-tests of each cipher would take most of a run.
# Where an initramfs lies that QEMU does not place.
INITRAMFS = 512 << 20
COMMAND_LINE = ("console=ttyS0 loglevel=5 panic=-1 oops=panic nokaslr mitigations=off no_timer_check "
                "random.trust_cpu=on 8250.nr_uarts=1 cryptomgr.notests")


def prepare(args, note):
    """The paths of the kernel image and the constant initramfs, fetched and built when they are missing."""
    with packages.locked(args.cache):
        kernel = packages.kernel_tree(args.cache, args.kernel_deb, note)
        usr = packages.tools_tree(args.cache, note) / "usr"
        [modules] = kernel.glob("usr/lib/modules/*")
        [image] = kernel.glob("boot/vmlinuz-*")
        recipe = hashlib.sha256("\0".join(args.module).encode())
        for source in (packages, initramfs):
            recipe.update(pathlib.Path(source.__file__).read_bytes())
        archive = args.cache / f"{kernel.name}-{recipe.hexdigest()[:16]}.cpio"
        if not archive.exists():
            note("building the initramfs")
            with replacing(archive) as stream:
                initramfs.build(stream, modules, usr, args.module)
        vmlinux = args.cache / f"{kernel.name}.vmlinux"
        if not vmlinux.exists():
            note("uncompressing the kernel")
            with replacing(vmlinux) as stream:
                stream.write(uncompressed(image) or image.read_bytes())
        return vmlinux, archive


@contextlib.contextmanager
def replacing(path):
    """A stream whose contents appear at path all at once, or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="partial-", delete=False) as stream:
        try:
            yield stream
        except BaseException:
            os.unlink(stream.name)
            raise
    os.rename(stream.name, path)


def uncompressed(bzimage):
    """The ELF kernel inside an xz-compressed bzImage, or None for any other kind.

    QEMU enters an ELF kernel directly (PVH), which spares the emulated processor the decompression:
    a third of the boot time.
    """
    data = bzimage.read_bytes()
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = ((data[0x1f1] or 4) + 1) * 512 + offset
    if data[start:start + 6] != b"\xfd7zXZ\0":
        return None
    return lzma.LZMADecompressor().decompress(data[start:start + length])


def boot(args, note):
    """Run the script in the guest and return its exit status."""
    if args.script == "-":
        text = sys.stdin.buffer.read()
    else:
        text = pathlib.Path(args.script).read_bytes()
    vmlinux, base = prepare(args, note)
    with tempfile.TemporaryDirectory(prefix="kernel-oracle-") as scratch:
        archive, status = pathlib.Path(scratch, "initramfs"), pathlib.Path(scratch, "status")
        console = args.console or pathlib.Path(scratch, "console")
        shutil.copyfile(base, archive)
        with open(archive, "ab") as stream:
            initramfs.script_archive(stream, text, args.argument, bool(args.share), args.net)
        started = time.monotonic()
        with relays({"out": sys.stdout, "err": sys.stderr}) as streams:
            argv = qemu_arguments(args, vmlinux, archive, status, console, streams)
            with emulator(argv, streams.values()) as qemu:
                try:
                    qemu.wait(timeout=args.timeout)
                except subprocess.TimeoutExpired:
                    print(f"kernel-oracle: no exit within {args.timeout:g} s; guest killed", file=sys.stderr)
                    return EXIT_TIMEOUT
        note(f"guest ran for {time.monotonic() - started:.1f} s")
        answer = status.read_text().strip() if status.exists() else ""
        if not answer.isdigit():
            log = console.read_text(errors="replace").splitlines()[-25:] if console.exists() else []
            raise OracleError("\n  ".join([f"the guest stopped without a status (qemu exit {qemu.returncode})", *log]))
        return int(answer)


def qemu_arguments(args, image, archive, status, console, streams):
    argv = [args.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc",
            "-accel", f"tcg,thread={'single' if args.count_instructions else 'multi'}", "-cpu", "max",
            "-smp", str(args.cpus), "-m", str(args.memory),
            "-kernel", str(image), *initramfs_arguments(args, archive),
            "-chardev", f"file,id=console,path={console}", "-serial", "chardev:console",
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
    if args.count_instructions:
        argv += ["-icount", "shift=1,sleep=off"]
    for name, descriptor in streams.items():
        argv += ["-add-fd", f"fd={descriptor},set={descriptor}",
                 "-chardev", f"file,id={name},append=on,path=/dev/fdset/{descriptor}"]
    argv += ["-chardev", f"file,id=status,path={status}"]
    for name in ("out", "err", "status"):
        argv += ["-device", f"virtserialport,chardev={name},name={name}"]
    for index, specification in enumerate(args.disk):
        argv += disk_arguments(index, specification)
    if args.vhost_user:
        argv += ["-object", f"memory-backend-memfd,id=memory,size={args.memory}M,share=on",
                 "-machine", "memory-backend=memory"]
    for index, specification in enumerate(args.vhost_user):
        argv += vhost_user_arguments(index, specification)
    if args.share:
        share = args.share.replace(",", ",,")
        argv += ["-virtfs", f"local,path={share},mount_tag=share,security_model=none,multidevs=remap"]
    if args.net:
        argv += ["-netdev", "user,id=net0", "-device", "virtio-net-pci,netdev=net0,romfile="]
    return argv


def initramfs_arguments(args, archive):
    if not args.tpm:
        return ["-initrd", str(archive), "-append", COMMAND_LINE]
    # Where QEMU puts an initramfs by itself, it overwrites the firmware's tables if there is a TPM. memmap= keeps the kernel from giving
    # the memory out, in which there is one already.
    size = archive.stat().st_size
    place = f"initrdmem={INITRAMFS:#x},{size} memmap={-(-size >> 20)}M${INITRAMFS:#x}"
    return ["-device", f"loader,file={archive},addr={INITRAMFS:#x},force-raw=on", "-append", f"{COMMAND_LINE} {place}",
            "-chardev", f"socket,id=tpm,path={os.path.abspath(args.tpm)}", "-tpmdev", "emulator,id=tpm0,chardev=tpm",
            "-device", "tpm-tis,tpmdev=tpm0"]


def disk_arguments(index, specification):
    """QEMU's arguments for one --disk IMG[,ro][,bs=N]."""
    path, *options = specification.split(",")
    if not os.path.exists(path):
        raise OracleError(f"no such disk image: {path}")
    drive = f"if=none,id=disk{index},format=raw,cache=unsafe,discard=unmap,file={os.path.abspath(path)}"
    device = f"virtio-blk-pci,drive=disk{index},serial=disk{index}"
    for option in options:
        if option == "ro":
            drive += ",readonly=on"
        elif option in ("bs=512", "bs=1024", "bs=2048", "bs=4096"):
            size = option[3:]
            device += f",logical_block_size={size},physical_block_size={size}"
        else:
            raise OracleError(f"unknown disk option: {option}")
    return ["-drive", drive, "-device", device]


def vhost_user_arguments(index, specification):
    """QEMU's arguments for one --vhost-user SOCKET[,queues=N]."""
    path, _, queues = specification.partition(",queues=")
    device = f"vhost-user-blk-pci,chardev=vhost{index}" + (f",num-queues={queues}" if queues else "")
    return ["-chardev", f"socket,id=vhost{index},path={os.path.abspath(path)}", "-device", device]


@contextlib.contextmanager
def relays(sinks):
    """Pipes for QEMU to write to, each copied to its sink as data arrives. QEMU adopts write-only descriptors alone."""
    def copy(source, sink):
        with os.fdopen(source, "rb", buffering=0) as stream:
            while data := stream.read(65536):
                with contextlib.suppress(BrokenPipeError):
                    sink.buffer.write(data)
                    sink.buffer.flush()

    writers, threads = {}, []
    for name, sink in sinks.items():
        reader, writers[name] = os.pipe()
        threads.append(threading.Thread(target=copy, args=(reader, sink)))
        threads[-1].start()
    try:
        yield writers
    finally:
        for descriptor in writers.values():
            os.close(descriptor)
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def emulator(argv, descriptors):
    """A running QEMU, which ends when the block is left and when this program is told to end."""
    qemu = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=descriptors)

    def end():
        if qemu.poll() is None:
            qemu.kill()
        qemu.wait()

    def stop(number, _frame):
        end()
        sys.exit(128 + number)

    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    previous = {number: signal.signal(number, stop) for number in signals}
    try:
        yield qemu
    finally:
        end()
        for number, handler in previous.items():
            signal.signal(number, handler)
