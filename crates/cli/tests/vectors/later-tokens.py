"""Makes later-tokens.json: tokens that versions of systemd enrolled which Debian 12 does not have, the TPM that opens them, and the passphrases
of their keyslots.

    crates/cli/tests/vectors/later-tokens.py ROOT... > crates/cli/tests/vectors/later-tokens.json

As root. A root is a Debian by scripts/debian-root (crates/volume/tests/vectors/later-headers.py says with which packages). What the tokens seal
is unsealed by tpm2-tools, and the passphrase is made of it by hashlib and the reference Argon2 (libargon2). It opens the keyslot: cryptsetup
says so."""

import base64
import ctypes
import hashlib
import hmac
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

PIN = "2718"
FORMAT = "cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 vol one"
ENROL = "systemd-cryptenroll --unlock-key-file=one --tpm2-device=swtpm:host=127.0.0.1,port=$PORT vol"
WAYS = [
    ("--tpm2-pcrs=7+11", ""),
    ("--tpm2-pcrs=", ""),
    ("--tpm2-pcrs=7 --tpm2-with-pin=yes", PIN),
    ("--tpm2-pcrs= --tpm2-with-pin=yes", PIN),
]


def derived(token, pin):
    """How the PIN is shown to the TPM, and what else the secret is made with."""
    if not pin:
        return b"", None
    salt = base64.b64decode(token["tpm2_salt"])
    if "tpm2_argon2id_memcost" in token:
        cost = (token["tpm2_argon2id_iterations"], token["tpm2_argon2id_memcost"] // 1024, token["tpm2_argon2id_lanes"])
        both, size = ctypes.create_string_buffer(64), ctypes.c_size_t
        library = ctypes.CDLL("libargon2.so.1")
        code = library.argon2id_hash_raw(*cost, pin.encode(), size(len(pin)), salt, size(len(salt)), both, size(64))
        assert code == 0, code
        both = both.raw
        return base64.b64encode(both[32:]), both[:32]
    return base64.b64encode(hashlib.pbkdf2_hmac("sha256", pin.encode(), salt, 10000, 32)), None


def hkdf(key, salt, info):
    return hmac.digest(hmac.digest(salt, key, "sha256"), info + b"\1", "sha256")


def unsealed(token, pin, place, env):
    blob = base64.b64decode(token["tpm2-blob"])
    private = 2 + int.from_bytes(blob[:2], "big")
    public = 2 + int.from_bytes(blob[private : private + 2], "big")
    (place / "private").write_bytes(blob[:private])
    (place / "public").write_bytes(blob[private : private + public])
    auth, more = derived(token, pin)
    # The TPM's authorisation value is the hash, without zeros at its end.
    auth = hashlib.sha256(auth).digest().rstrip(b"\0") if auth else b""
    bank, mask = token.get("tpm2-pcr-bank", "sha256"), ",".join(map(str, token["tpm2-pcrs"]))
    lines = ["tpm2_load -Q -C 0x81000001 -r private -u public -c object", "tpm2_startauthsession -Q --policy-session -S session"]
    if mask:
        lines.append(f"tpm2_policypcr -Q -S session -l {bank}:{mask}")
    if pin:
        lines.append("tpm2_policyauthvalue -Q -S session")
    shown = f"session:session+hex:{auth.hex()}" if pin else "session:session"
    lines.append(f"tpm2_unseal -Q -c object -p {shown} -o secret")
    for line in lines:
        subprocess.run(line.split(), cwd=place, env=env, check=True)
    for kind in ("-t", "-s", "-l"):
        subprocess.run(["tpm2_flushcontext", "-Q", kind], env=env, check=True)
    secret = (place / "secret").read_bytes()
    return base64.b64encode(hkdf(more, secret, b"systemd-tpm2-argon2id-lock") if more else secret).decode()


def main(roots):
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1] // 2 * 2
        words = f"swtpm socket --tpm2 --server type=tcp,port={port} --ctrl type=tcp,port={port + 1} --tpmstate dir={scratch}"
        tpm = subprocess.Popen([*words.split(), "--flags", "not-need-init,startup-clear"])
        time.sleep(1)
        env = {**os.environ, "TPM2TOOLS_TCTI": f"swtpm:host=127.0.0.1,port={port}"}
        made = [token for root in roots for token in tokens_of(root, port, place, env)]
        # Written when it changes: it is whole now.
        tpm.terminate()
        tpm.wait()
        state = (place / "tpm2-00.permall").read_bytes().hex()
    print(json.dumps({"state": state, "tokens": made}, indent=1))


def tokens_of(root, port, place, env):
    root = os.path.abspath(root)
    work = pathlib.Path(root) / "work"
    work.mkdir(exist_ok=True)

    def run(line, pin=""):
        mounts = "for it in dev proc sys; do mount --rbind /$it $0/$it; done; exec chroot $0 sh -c \"$1\""
        words = ["unshare", "--mount", "sh", "-e", "-c", mounts, root, f"cd /work && export PORT={port} NEWPIN={pin} && {line}"]
        quiet = {"PATH": "/usr/sbin:/usr/bin", "SYSTEMD_LOG_LEVEL": "err"}
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=quiet).stdout

    version = run("systemd-cryptenroll --version").split()[1]
    for way, pin in WAYS:
        (work / "one").write_text("one")
        (work / "vol").write_bytes(bytes(20 << 20))
        run(FORMAT)
        run(f"{ENROL} {way}", pin)
        token = json.loads(run("cryptsetup token export --token-id 0 vol"))
        passphrase = unsealed(token, pin, place, env)
        (work / "two").write_text(passphrase)
        run("cryptsetup open --test-passphrase --key-file two -S 1 vol")
        yield {"by": f"systemd {version}", "did": f"systemd-cryptenroll {way}", "pin": pin, "passphrase": passphrase, "token": token}


main(sys.argv[1:])
