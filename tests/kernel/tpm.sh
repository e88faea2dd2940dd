#!/bin/sh
# What a TPM opens, without udev: /dev/vda, into which a root file system is put, and /dev/vdb, which also wants a PIN. Both have a token of a
# security key, which is not there. Every part ends with a line "NAME: good".
set -eu
export LD_LIBRARY_PATH=/share
cp /share/atrest /tmp/atrest
fail() { echo "$*"; dmesg | tail -n 5; exit 1; }
good() { echo "$*: good"; }
says() { # WORDS: the messages have them
    grep -q -- "$1" /tmp/out || fail "no \"$1\" in: $(cat /tmp/out)"
}
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
modprobe dm-crypt
[ -c /dev/tpmrm0 ] || fail "the guest has no TPM"

# What they hold, put there by cryptsetup.
cryptsetup open --key-file /share/key /dev/vdb theirs
echo owner | dd of=/dev/mapper/theirs conv=notrunc 2> /dev/null
cryptsetup close theirs
cryptsetup open --key-file /share/key /dev/vda theirs
mke2fs -q -t ext4 /dev/mapper/theirs
mkdir -p /mnt/a
mount -t ext4 /dev/mapper/theirs /mnt/a
mkdir -p /mnt/a/sbin /mnt/a/bin /mnt/a/proc /mnt/a/sys /mnt/a/dev /mnt/a/run
cp /bin/busybox /mnt/a/bin/busybox
cat > /mnt/a/sbin/init <<'EOF'
#!/bin/busybox sh
echo "init of the encrypted root: $$"
EOF
chmod +x /mnt/a/sbin/init
umount /mnt/a
cryptsetup close theirs

# atrest unlock, on a terminal on which the wrong PIN is typed first.
cat > /tmp/crypttab <<EOF
pinned /dev/vdb none luks
EOF
: > /tmp/out
(
    count=0
    for pin in 1111 2718; do
        count=$((count + 1))
        until [ "$(grep -o 'PIN of token' /tmp/out | wc -l)" -ge $count ] || [ -e /tmp/ended ]; do sleep 0.1; done
        printf '%s\n' $pin
    done
    until [ -e /tmp/ended ]; do sleep 0.1; done
) | /share/script -qfec "/tmp/atrest unlock --crypttab /tmp/crypttab; echo \$? > /tmp/ended" /tmp/out > /dev/null || true
[ "$(cat /tmp/ended)" = 0 ] || fail "unlock: $(cat /tmp/out)"
says "the PIN is wrong, and wrong ones are counted"
[ "$(head -n 1 /dev/mapper/pinned | tr -d '\0')" = "owner" ] || fail "the mapping shows something else"
/tmp/atrest close pinned > /dev/null
good "TPM2 and PIN"

# atrest-init as the first process of a name space of its own, whose root is a file system in memory. PCR 15 is zero before.
pcr() { cat /sys/class/tpm/tpm0/pcr-sha256/15; }
[ "$(pcr | tr -d 0)" = "" ] || fail "PCR 15 is $(pcr) before anything was opened"
mkdir -p /tmp/ram
mount -t tmpfs tmpfs /tmp/ram
mkdir -p /tmp/ram/etc /tmp/ram/lib64 /tmp/ram/lib /tmp/ram/proc
cp /share/atrest-init /tmp/ram/init
cp /usr/lib64/ld-linux-x86-64.so.2 /tmp/ram/lib64
cp /share/libgcc_s.so.1 /usr/lib/x86_64-linux-gnu/libc.so.6 /tmp/ram/lib
echo "root /dev/vda none" > /tmp/ram/etc/crypttab
echo "root=/dev/mapper/root ro" > /tmp/cmdline
unshare -m -p -f sh -c 'mount -t proc proc /tmp/ram/proc && mount --bind /tmp/cmdline /tmp/ram/proc/cmdline &&
    LD_LIBRARY_PATH=/lib exec chroot /tmp/ram /init' > /tmp/out 2>&1 || fail "init: $(cat /tmp/out)"
umount -l /tmp/ram
says "init of the encrypted root: 1"
! grep -q "waiting for a security key" /tmp/out || fail "it waits for a security key: $(cat /tmp/out)"
[ "$(pcr | tr -d 0)" != "" ] || fail "PCR 15 does not tell which root was opened"
/tmp/atrest close root > /dev/null
good "root by TPM2"

# It was sealed to PCRs 7 and 15 as these were before the root was opened.
echo "again /dev/vda none luks" > /tmp/crypttab
status=0
/tmp/atrest unlock --no-questions --crypttab /tmp/crypttab > /tmp/out 2>&1 < /dev/null || status=$?
[ "$status" != 0 ] || fail "it opens in another state"
says "the PCRs 7+15 of the TPM have changed since it was enrolled"
good "once a root is open"
