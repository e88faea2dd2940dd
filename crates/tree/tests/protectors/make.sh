#!/bin/bash
# Lets google/fscrypt encrypt directories of a filesystem with protectors of every kind, for tests of what reads its metadata.
#
#   unshare --mount --propagation private make.sh DIRECTORY
#
# Needs root, loop devices and a kernel with fscrypt. Leaves in DIRECTORY:
#   data.img      an ext4 whose directories custom, shared, raw, login, lanes and old are encrypted
#   system.img    the ext4 on which a user's login protector lies, to which data.img has a link
#   raw.key       what the raw key protector wants
#   status        what fscrypt says of data.img
#   recovery      the passphrase of the recovery protector that fscrypt made for the directory login
# Everything runs in a root directory of its own, so that neither this system's /etc nor its /.fscrypt is touched.
set -euo pipefail
cd "$1"
umask 022
image() { truncate -s 24M "$1" && mkfs.ext4 -q -b 4096 -O encrypt "$1"; }
image system.img
image data.img
mkdir root
mount -o loop system.img root
trap 'umount -R root' EXIT
for directory in usr dev proc sys; do
    mkdir "root/$directory"
    mount --rbind "/$directory" "root/$directory"
done
for link in bin sbin lib lib64; do
    [ ! -e "/$link" ] || ln -s "usr/$link" "root/$link"
done
mkdir -p root/etc root/tmp root/run root/home/alice root/data
cp -a /etc/pam.d /etc/security /etc/nsswitch.conf /etc/login.defs root/etc/
[ ! -e /etc/pam.conf ] || cp /etc/pam.conf root/etc/
cp -r /etc/ld.so.* root/etc/
mount -o loop data.img root/data
inside() { chroot root "$@"; }

echo 'root:x:0:0:root:/root:/bin/sh' > root/etc/passwd
echo 'root:x:0:' > root/etc/group
echo 'root:*:19000:0:99999:7:::' > root/etc/shadow
echo 'alice:x:4242:4242::/home/alice:/bin/sh' >> root/etc/passwd
echo 'alice:x:4242:' >> root/etc/group
echo "alice:$(openssl passwd -6 'lögin pass'):19000:0:99999:7:::" >> root/etc/shadow

config() { # POLICY-VERSION PADDING [KIB LANES]
    cat > root/etc/fscrypt.conf << END
{"source": "custom_passphrase", "hash_costs": {"time": "2", "memory": "${3-512}", "parallelism": "${4-2}"},
 "options": {"padding": "$2", "contents": "AES_256_XTS", "filenames": "AES_256_CTS", "policy_version": "$1"},
 "use_fs_keyring_for_v1_policies": true, "allow_cross_user_metadata": true}
END
}
encrypt() { # DIRECTORY ARGUMENTS: with the secret on standard input
    local directory=$1
    shift
    mkdir "root/data/$directory"
    inside fscrypt encrypt "/data/$directory" --quiet "$@" > /dev/null
    echo "what $directory holds" > "root/data/$directory/file"
}
config 2 32
inside fscrypt setup / --quiet > /dev/null
inside fscrypt setup /data --quiet > /dev/null
echo 'correct horse' | encrypt custom --name=mine
inside fscrypt status /data/custom > custom.status
protector=$(awk '/custom protector/ { print $1 }' custom.status)
echo 'correct horse' | encrypt shared --protector="/data:$protector"
policy=$(inside fscrypt status /data/shared | awk '/^Policy:/ { print $2 }')
echo 'battery staple' | inside fscrypt metadata create protector /data --quiet --source=custom_passphrase --name=second
second=$(inside fscrypt status /data | awk '/"second"/ { print $1 }')
printf 'battery staple\ncorrect horse\n' | inside fscrypt metadata add-protector-to-policy --quiet \
    --protector="/data:$second" --unlock-with="/data:$protector" --policy="/data:$policy"
head -c 32 /dev/urandom > root/raw.key
encrypt raw --source=raw_key --name=token --key=/raw.key < /dev/null
mv root/raw.key .
printf 'lögin pass\n' | encrypt login --source=pam_passphrase --user=alice
sed -n '/^    [a-z]*$/ { s/ //gp; q }' root/data/login/fscrypt_recovery_readme.txt > recovery
# As many lanes as a machine with 255 processors gets, and the least memory for them.
config 2 32 2040 255
echo 'many lanes' | encrypt lanes --name=lanes
config 1 16
echo 'open sesame' | encrypt old --name=old
inside fscrypt status /data > status
