"""Makes later-headers.json: the metadata of LUKS2 headers that versions of cryptsetup and systemd made which Debian 12 does not have.

    scripts/debian-root --suite trixie target/trixie cryptsetup-bin systemd-cryptsetup libtss2-esys-3.0.2-0t64 libtss2-rc0t64 libtss2-tcti-swtpm0t64
    crates/volume/tests/vectors/later-headers.py target/trixie target/sid > crates/volume/tests/vectors/later-headers.json

As root; swtpm and openssl are the host's. What takes a drive that encrypts, or one with metadata of its own, is written here by hand; the
cryptsetup that has it reads it then, and its version is named. Bytes 0 to 63 are the volume key of them all."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

CHEAP = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000"
PLACE = "--luks2-keyslots-size 1m --offset 4096"
FORMAT = f"cryptsetup -q luksFormat --type luks2 -s 512 --volume-key-file vk {CHEAP} {PLACE} vol one"
ARGON = "--pbkdf argon2id --pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1"
REENCRYPT = f"cryptsetup -q reencrypt --init-only -d one {CHEAP} --key-slot 0"
LUKS1 = "cryptsetup -q luksFormat --type luks1 -s 512 --volume-key-file vk --pbkdf-force-iterations 1000 vol one"
ENROL = "systemd-cryptenroll --unlock-key-file=one --tpm2-device=swtpm:host=127.0.0.1,port=$PORT vol"

# What was done, what becomes of such a header (it opens, is unfinished, or is refused for a reason), and the commands.
DONE = [
    ("luksFormat", "opens", [FORMAT]),
    ("luksFormat --sector-size 4096, Argon2id", "opens", [FORMAT.replace(CHEAP, ARGON) + " --sector-size 4096"]),
    (
        "luksAddKey, --unbound, config --priority, token add",
        "opens",
        [
            FORMAT,
            f"cryptsetup -q luksAddKey {ARGON} -d one vol two",
            f"cryptsetup -q luksAddKey --unbound -s 256 {CHEAP} vol two",
            "cryptsetup config --priority prefer -S 1 vol",
            "cryptsetup config --priority ignore -S 2 vol",
            "cryptsetup token add --key-description atrest:none vol",
        ],
    ),
    ("erase", "opens", [FORMAT, "cryptsetup -q erase vol"]),
    ("convert from LUKS1", "opens", [LUKS1, "cryptsetup -q convert --type luks2 vol"]),
    (
        "reencrypt --key-size 256 to a new key, finished",
        "other key",
        [FORMAT, f"cryptsetup -q reencrypt --force-offline-reencrypt -d one -S 0 -s 256 {CHEAP} vol"],
    ),
    *(
        (f"reencrypt --init-only --resilience {how}", "unfinished", [FORMAT, f"{REENCRYPT} --resilience {how} vol"])
        for how in ("checksum", "checksum --resilience-hash sha512", "journal", "none")
    ),
    (
        "reencrypt --encrypt --init-only --reduce-device-size",
        "unfinished",
        [
            f"cryptsetup -q reencrypt --encrypt --init-only --reduce-device-size 4m -s 512 --volume-key-file vk {CHEAP}"
            " --luks2-keyslots-size 1m --key-file one vol",
        ],
    ),
    (
        "reencrypt --encrypt --init-only --header",
        "unfinished",
        [
            "cp vol data",
            f"cryptsetup -q reencrypt --encrypt --init-only --header vol -s 512 --volume-key-file vk {CHEAP}"
            " --luks2-keyslots-size 1m --key-file one data",
        ],
    ),
    *(
        (
            f"reencrypt --decrypt --init-only --header, --resilience {how}",
            "unfinished",
            [
                "rm -f header",
                FORMAT,
                f"cryptsetup -q reencrypt --decrypt --init-only --force-offline-reencrypt --hotzone-size 256k --header header --resilience {how} -d one vol",
                "mv header vol",
            ],
        )
        for how in ("checksum", "journal")
    ),
    ("systemd-cryptenroll --recovery-key", "opens", [FORMAT, "systemd-cryptenroll --unlock-key-file=one --recovery-key vol"]),
    ("systemd-cryptenroll --tpm2-device", "opens", [FORMAT, f"{ENROL} --tpm2-pcrs=7+11"]),
    ("systemd-cryptenroll --tpm2-with-pin", "opens", [FORMAT, f"NEWPIN=1234 {ENROL} --tpm2-pcrs=7 --tpm2-with-pin=yes"]),
    (
        "systemd-cryptenroll --tpm2-public-key, --tpm2-pcrs=",
        "opens",
        [FORMAT, f"{ENROL} --tpm2-pcrs= --tpm2-public-key=signer.pem --tpm2-public-key-pcrs=11"],
    ),
]

BY_HAND = [
    ("cryptsetup open --persistent --perf-high_priority", "opens", lambda m: m["config"].update(flags=["high_priority"])),
    ("luksFormat --hw-opal-only", "opal", lambda m: opal(m, "hw-opal", 32)),
    ("luksFormat --hw-opal", "opal", lambda m: opal(m, "hw-opal-crypt", 32)),
    ("luksFormat --integrity-inline", "inline-hw-tags", lambda m: integrity(m, True, {})),
    ("luksFormat --integrity-key-size 256", "tags", lambda m: integrity(m, False, {"key_size": 32})),
    ("a requirement of a version to come", "of-tomorrow", lambda m: require(m, "of-tomorrow")),
    ("a re-encryption of a version to come", "online-reencrypt-v9", lambda m: require(m, "online-reencrypt-v9")),
    ("a token of a kind to come", "opens", lambda m: m["tokens"].update({"3": {"type": "of-tomorrow", "keyslots": ["0"], "a": {"b": [1]}}})),
    (
        "systemd-cryptenroll --tpm2-pcrlock (systemd 257), after an enrolment",
        "opens",
        lambda m: m["tokens"].update(
            {
                "0": {
                    "type": "systemd-tpm2",
                    "keyslots": ["0"],
                    "tpm2-blob": ["AAAA", "AAAA"],
                    "tpm2-pcrs": [],
                    "tpm2-policy-hash": ["00" * 32, "11" * 32],
                    "tpm2_srk": "gQAAAQ==",
                    "tpm2_pcrlock": True,
                    "tpm2_pcrlock_nv": "AYGAAA==",
                }
            }
        ),
    ),
]


def require(metadata, name):
    metadata["config"]["requirements"] = {"mandatory": [name]}


def opal(metadata, kind, size):
    segment = metadata["segments"]["0"]
    segment.update(type=kind, size="1048576", opal_segment_number=1, opal_key_size=size, opal_segment_size="1048576")
    if kind == "hw-opal":
        for name in ("iv_tweak", "encryption", "sector_size"):
            del segment[name]
    require(metadata, "opal")


def integrity(metadata, inline, more):
    segment = metadata["segments"]["0"]
    none = {"journal_encryption": "none", "journal_integrity": "none"}
    segment["integrity"] = {"type": "hmac(sha256)", **none, **more}
    metadata["keyslots"]["0"].update(key_size=96)
    metadata["keyslots"]["0"]["area"].update(size="385024")
    if inline:
        require(metadata, "inline-hw-tags")


def metadata_of(image):
    with open(image, "rb") as file:
        header = file.read(16384)
    assert header[:8] == b"LUKS\xba\xbe\0\2"
    return header[4096:].split(b"\0")[0].decode()


def with_metadata(image, metadata):
    """Puts it into both copies, with their checksums (LUKS2 On-Disk Format Specification, section 2.1)."""
    text = metadata.encode()
    with open(image, "r+b") as file:
        for at in (0, 16384):
            file.seek(at)
            copy = bytearray(file.read(16384))
            copy[4096:] = text.ljust(12288, b"\0")
            copy[448:512] = bytes(64)
            copy[448:480] = hashlib.sha256(copy).digest()
            file.seek(at)
            file.write(copy)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Tpm:
    def __init__(self):
        self.state = tempfile.mkdtemp()
        self.port = free_port() // 2 * 2
        words = f"swtpm socket --tpm2 --server type=tcp,port={self.port} --ctrl type=tcp,port={self.port + 1} --tpmstate dir={self.state}"
        self.child = subprocess.Popen([*words.split(), "--flags", "not-need-init,startup-clear"])

    def end(self):
        self.child.terminate()
        self.child.wait()
        shutil.rmtree(self.state)


def made_in(root, is_last):
    work = os.path.join(root, "work")
    os.makedirs(work, exist_ok=True)

    def run(line, port=0):
        mounts = "for it in dev proc sys; do mount --rbind /$it $0/$it; done; exec chroot $0 sh -c \"$1\""
        return subprocess.run(
            ["unshare", "--mount", "sh", "-e", "-c", mounts, os.path.abspath(root), f"cd /work && export PORT={port} && {line}"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/sbin:/usr/bin", "SYSTEMD_LOG_LEVEL": "err"},
        )

    def fresh():
        files = {"one": b"one", "two": b"two", "vk": bytes(range(64)), "vol": bytes(24 << 20)}
        for name, content in files.items():
            with open(os.path.join(work, name), "wb") as file:
                file.write(content)

    versions = {"cryptsetup": run("cryptsetup --version").stdout.split()[1], "systemd-cryptenroll": run("systemd-cryptenroll --version").stdout.split()[1]}
    pem = os.path.join(work, "signer.pem")
    subprocess.run(f"openssl genrsa 2048 2> /dev/null | openssl rsa -pubout -out {pem} 2> /dev/null", shell=True, check=True)
    image = os.path.join(work, "vol")
    for did, becomes, lines in DONE:
        fresh()
        tpm = Tpm() if any("tpm2" in line for line in lines) else None
        for line in lines:
            run(line, tpm.port if tpm else 0)
        if tpm:
            tpm.end()
        program = "systemd-cryptenroll" if did.startswith("systemd") else "cryptsetup"
        yield {"by": f"{program.split('-')[0]} {versions[program]}", "did": did, "becomes": becomes, "metadata": metadata_of(image)}
    for did, becomes, change in BY_HAND if is_last else []:
        fresh()
        run(FORMAT)
        metadata = json.loads(metadata_of(image))
        change(metadata)
        metadata = json.dumps(metadata, separators=(",", ":"))
        with_metadata(image, metadata)
        # It must be a header by the rules of the version that has the field.
        run("cryptsetup luksDump vol")
        yield {"by": f"hand, read by cryptsetup {versions['cryptsetup']}", "did": did, "becomes": becomes, "metadata": metadata}
    shutil.rmtree(work)


headers = [header for root in sys.argv[1:] for header in made_in(root, root == sys.argv[-1])]
print("[")
print(",\n".join(json.dumps(header, separators=(",", ":")) for header in headers))
print("]")
