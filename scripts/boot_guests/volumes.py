"""The encrypted roots: one file system, which says who it is, in volumes that open in different ways."""

import json
import os
import pathlib
import shutil

from . import run, security_key, tang, tpm

UUID = "7b1d3a54-91c5-4d0c-8c8a-3f5a6f6f2026"
MOVED = "00000000-91c5-4d0c-8c8a-3f5a6f6f2026"
PASSPHRASE, PIN = "correct horse", "2718"
SECRET = "what the owner hides"
FACTOR, OTHER_FACTOR = "a passphrase of a factor", "that of another factor"
COUNTER = "tpm2:0x01800001"

# What is started on each root. The attacker's looks for the owner's volume on the second disk and has the TPM open it.
INIT = r"""#!/bin/busybox sh
PATH=/bin; export PATH
busybox mount -t proc proc /proc 2> /dev/null; busybox mount -t sysfs sysfs /sys 2> /dev/null; busybox mount -t devtmpfs dev /dev 2> /dev/null
busybox mount -t tmpfs tmpfs /run 2> /dev/null
echo "ROOT OF: WHO"
echo "ROOT IS: $(busybox grep ' / ' /proc/mounts | busybox tail -n 1)"
echo "PCR 7: $(busybox cat /sys/class/tpm/tpm0/pcr-sha256/7)"
echo "PCR 15: $(busybox cat /sys/class/tpm/tpm0/pcr-sha256/15)"
echo "UP FOR: $(busybox cut -d ' ' -f 1 /proc/uptime)"
STEAL
busybox sync
echo "ENDED"
echo o > /proc/sysrq-trigger
busybox sleep 60
"""
STEAL = r"""/atrest-init unlock --crypttab /etc/stolen --cmdline /dev/null --timeout 20
busybox mount -t ext4 -o ro /dev/mapper/stolen /mnt && echo "STOLEN: $(busybox cat /mnt/secret)" || echo "STOLEN: nothing"
"""


def file_system(place: pathlib.Path, who: str, busybox: pathlib.Path, init: pathlib.Path | None) -> pathlib.Path:
    """An ext4 image of 24 MiB. With `init` it is the attacker's."""
    tree = place / f"tree-{who}"
    for directory in ("bin", "sbin", "etc", "mnt", "proc", "sys", "dev", "run", "tmp"):
        (tree / directory).mkdir(parents=True)
    shutil.copy(busybox, tree / "bin" / "busybox")
    (tree / "bin" / "sh").symlink_to("busybox")
    (tree / "etc" / "os-release").write_text("ID=guest\n")
    steal = "busybox true"
    if init:
        shutil.copy(init, tree / "atrest-init")
        (tree / "etc" / "stolen").write_text("stolen /dev/vdb none luks,headless\n")
        steal = STEAL
    else:
        (tree / "secret").write_text(SECRET)
    script = tree / "sbin" / "init"
    script.write_text(INIT.replace("STEAL", steal).replace("WHO", who))
    script.chmod(0o755)
    image = place / f"{who}.ext4"
    run("truncate", "--size", "24M", image)
    run("mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", tree, image)
    return image


class Volumes:
    """Makes the volumes. All have the same UUID, and a passphrase in the first keyslot."""

    def __init__(self, place: pathlib.Path, atrest: pathlib.Path, busybox: pathlib.Path, init: pathlib.Path):
        self.place, self.atrest = place, atrest
        self.state, self.keys = place / "tpm-state", tang.keys(place / "tang")
        self.key, self.pin = place / "passphrase", place / "pin"
        self.key.write_text(PASSPHRASE)
        self.pin.write_text(PIN)
        self.key_pin, self.security = place / "key-pin", place / "security-key.json"
        self.key_pin.write_text(security_key.PIN)
        self.owners = self.encrypted("owner", file_system(place, "owner", busybox, None))
        self.attackers = self.encrypted("attacker", file_system(place, "attacker", busybox, init))
        with tpm.on_host(self.state) as port:
            self.sealed = self.enrolled("sealed", "--tpm2", "--pcrs", "7", "--pin-file", self.pin, port=port)
            self.stealable = self.enrolled("stealable", "--tpm2", "--pcrs", "7", port=port)
            self.bound_to_pcr_15 = self.enrolled("pcr-15", "--tpm2", "--pcrs", "7+15", port=port)
            # systemd 252 makes its storage key anew each time.
            self.of_old_systemd = self.enrolled("old-systemd", "--tpm2", "--old-systemd", "--pcrs", "7+15", port=port)
            for image, pcrs in ((self.stealable, "7"), (self.bound_to_pcr_15, "7,15")):
                self.clevis(image, "tpm2", {"pcr_bank": "sha256", "pcr_ids": pcrs}, port)
            self.two_of_three = self.copy("two-of-three")
            adv = json.loads(tang.advertisement(self.keys))
            servers = [{"url": f"http://{address}", "adv": adv} for address in (tang.NOBODY, tang.ADDRESS)]
            self.clevis(self.two_of_three, "sss", {"t": 2, "pins": {"tang": servers, "tpm2": {"pcr_bank": "sha256", "pcr_ids": "7"}}}, port)
            self.shared = self.sharing("shared", port=port)
            self.counted = self.copy("counted")
            self.pinned(self.counted, port)
            self.outdated = self.place / "outdated.img"
            run("cp", "--sparse=always", self.counted, self.outdated)
            self.pinned(self.counted, port)
            with security_key.on_host(self.security, place) as key:
                self.keyed = self.enrolled("keyed", "--fido2", "--pin-file", self.key_pin, key=key, port=port)
                # A TPM that opens it, and a security key that nobody has plugged in.
                self.keyed_or_sealed = self.place / "keyed-or-sealed.img"
                run("cp", "--sparse=always", self.keyed, self.keyed_or_sealed)
                self.enrol(self.keyed_or_sealed, "--tpm2", "--pcrs", "7", port=port)
                self.shared_with_key = self.sharing("shared-with-key", f"fido2-pin={self.key_pin}", port=port, key=key)
        with tpm.on_host(place / "another-tpm") as port:
            self.shared_elsewhere = self.sharing("shared-elsewhere", port=port)
        self.bound = self.copy("bound")
        words = ["key", "add", self.bound, "--key-file", self.key, "--tang", f"http://{tang.ADDRESS}", "--yes"]
        tang.while_served(self.keys, self.atrest, *words)

    def encrypted(self, who: str, plain: pathlib.Path) -> pathlib.Path:
        image = self.place / f"{who}.img"
        run("truncate", "--size", "40M", image)
        run(self.atrest, "format", "--yes", "--key-file", self.key, "--uuid", UUID, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", image)
        run(self.atrest, "encrypt", "--yes", "--key-file", self.key, plain, image)
        return image

    def copy(self, name: str) -> pathlib.Path:
        image = self.place / f"{name}.img"
        run("cp", "--sparse=always", self.owners, image)
        return image

    def enrolled(self, name: str, *words, port: int, key: pathlib.Path | None = None) -> pathlib.Path:
        image = self.copy(name)
        self.enrol(image, *words, port=port, key=key)
        return image

    def enrol(self, image: pathlib.Path, *words, port: int, key: pathlib.Path | None = None) -> None:
        env = {**os.environ, "ATREST_TPM": f"tcp:127.0.0.1:{port}"}
        if key:
            env["ATREST_FIDO2"] = f"unix:{key}"
        run(self.atrest, "key", "add", image, "--key-file", self.key, *words, env=env)

    def sharing(self, name: str, first: str = "tpm2", *, port: int, key: pathlib.Path | None = None) -> pathlib.Path:
        """Two of three open it: the TPM or what else is first, and two passphrases."""
        factors = [first]
        for text in (FACTOR, OTHER_FACTOR):
            file = self.place / f"factor-{len(factors)}"
            file.write_text(text)
            factors.append(f"passphrase={file}")
        cost = ("--pbkdf-memory", "64", "--pbkdf-force-iterations", "4")
        state = ("--pcrs", "7") if first == "tpm2" else ()
        return self.enrolled(name, "--any", "2", *factors, *state, *cost, port=port, key=key)

    def pinned(self, image: pathlib.Path, port: int) -> None:
        env = {**os.environ, "ATREST_TPM": f"tcp:127.0.0.1:{port}"}
        run(self.atrest, "header", "pin", image, "--key-file", self.key, "--store", COUNTER, env=env)

    def clevis(self, image: pathlib.Path, pin: str, config: dict, port: int) -> None:
        run("clevis", "luks", "bind", "-y", "-f", "-d", image, "-k", self.key, pin, json.dumps(config), env=tpm.tools(port))
        for kind in ("-t", "-s", "-l"):
            run("tpm2_flushcontext", "-Q", kind, env=tpm.tools(port))

    def stolen(self, image: pathlib.Path) -> pathlib.Path:
        """The owner's volume as the attacker keeps it: by another UUID, so that his own is the only one of its name."""
        moved = self.place / f"stolen-{image.name}"
        if not moved.exists():
            run("cp", "--sparse=always", image, moved)
            run(self.atrest, "header", "set", moved, "--uuid", MOVED)
        return moved

    def key_id(self, image: pathlib.Path) -> str:
        """The identifier of the volume key, as `expect-key=` takes it."""
        told = json.loads(run(self.atrest, "info", "--unlock", "--json", "--key-file", self.key, image))
        return told["key_id"]
