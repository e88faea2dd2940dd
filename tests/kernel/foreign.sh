#!/bin/sh
# Mappings of volumes of other systems, by cryptsetup and by ours, for every line "NAME DEVICE TYPE KEY HASH" of /share/volumes: each shows
# plaintext with this SHA-256, and what is written through ours is read through that of cryptsetup. Then VeraCrypt volumes of ours, and an encrypted
# system. Fails at the first difference.
set -eu
export LD_LIBRARY_PATH=/share
# In memory: each start of a program from /share would read it anew.
cp /share/atrest /tmp/atrest
atrest=/tmp/atrest
fail() { echo "$*"; dmesg | tail -n 5; exit 1; }

shows() { # BY: the mapping `volume` has the plaintext that is expected
    [ "$(sha256sum < /dev/mapper/volume)" = "$hash  -" ] || fail "$name: $1 shows something else"
}

while read -r name device kind key hash; do
    cryptsetup open --type "$kind" --key-file "/share/$key" "$device" volume || fail "$name: cryptsetup does not open it"
    shows cryptsetup
    $atrest close volume > /dev/null || fail "$name: ours does not close it"
    $atrest open "$device" --dm volume --key-file "/share/$key" > /dev/null || fail "$name: ours does not open it"
    shows ours
    # Behind what BitLocker has moved.
    head -c 4096 /dev/urandom > /tmp/written
    dd if=/tmp/written of=/dev/mapper/volume bs=4096 seek=3 conv=fsync 2> /dev/null
    cryptsetup close volume || fail "$name: cryptsetup does not close it"
    cryptsetup open --type "$kind" --key-file "/share/$key" "$device" volume
    dd if=/dev/mapper/volume bs=4096 skip=3 count=1 2> /dev/null | cmp - /tmp/written || fail "$name: something else was written"
    cryptsetup close volume
    echo "$name: same"
done < /share/volumes

# VeraCrypt volumes of ours, for every line "NAME HASH SHA-256": cryptsetup finds the header with nothing but the hash said, and its mapping has the
# plaintext that ours has. Ours by the kernel is made of the same tables.
while read -r name hash hash_of_plain; do
    cp "/share/$name.hc" /tmp/volume
    device=$(losetup -f)
    losetup "$device" /tmp/volume
    narrow="--type tcrypt --veracrypt-pim 1 --hash $hash"
    cryptsetup open -q $narrow --test-passphrase "$device" < /share/second || fail "$name: cryptsetup does not take the password"
    cryptsetup open -q $narrow --tcrypt-backup --test-passphrase "$device" < /share/second || fail "$name: cryptsetup does not open the copy"
    cryptsetup open -q $narrow "$device" volume < /share/second || fail "$name: cryptsetup does not open it"
    [ "$(sha256sum < /dev/mapper/volume)" = "$hash_of_plain  -" ] || fail "$name: another plaintext"
    dmsetup table --showkeys | sort > /tmp/theirs
    $atrest close volume > /dev/null || fail "$name: ours does not close it"
    [ -z "$(dmsetup ls | grep volume)" ] || fail "$name: left behind: $(dmsetup ls)"
    $atrest open "$device" --dm volume $narrow --key-file /share/second > /dev/null || fail "$name: ours does not open it"
    dmsetup table --showkeys | sort | diff /tmp/theirs - || fail "$name: other tables"
    cryptsetup close volume || fail "$name: cryptsetup does not close it"
    losetup -d "$device"
    rm -f /tmp/volume
    echo "$name: same"
done < /share/veracrypt

# A system that VeraCrypt has encrypted: the header is in front of the partitions of the drive, and the system is the first of them.
read -r drive hash < /share/system
name="the system on $drive"
system="--type tcrypt --tcrypt-system --veracrypt-pim 1 --hash sha512"
sectors=$(blockdev --getsz "${drive}1")
for device in "${drive}1" "$drive"; do
    cryptsetup open -q $system "$device" volume < /share/second || fail "$name: cryptsetup does not open $device"
    # Of a whole drive it maps all that lies behind the beginning of the system; ours ends where the system does.
    theirs=$(dd if=/dev/mapper/volume bs=512 count="$sectors" 2> /dev/null | sha256sum)
    [ "$theirs" = "$hash  -" ] || fail "$name: cryptsetup shows something else of $device"
    dmsetup table --showkeys > /tmp/theirs
    $atrest close volume > /dev/null || fail "$name: ours does not close it"
    $atrest open "$device" --dm volume $system --key-file /share/second > /dev/null || fail "$name: ours does not open $device"
    shows ours
    [ "$device" = "$drive" ] || dmsetup table --showkeys | diff /tmp/theirs - || fail "$name: another table of $device"
    cryptsetup close volume || fail "$name: cryptsetup does not close it"
    $atrest decrypt "$device" /tmp/plain --quiet $system --key-file /share/second || fail "$name: not decrypted on $device"
    [ "$(sha256sum < /tmp/plain)" = "$hash  -" ] || fail "$name: $device decrypts to something else"
    rm /tmp/plain
done
# Not the system: another partition of the drive.
status=0
$atrest open "${drive}2" --dm volume $system --key-file /share/second > /tmp/out 2>&1 || status=$?
[ $status != 0 ] && grep -q "is no part of it" /tmp/out || fail "$name: status $status: $(cat /tmp/out)"
[ -z "$(dmsetup ls | grep volume)" ] || fail "$name: left behind: $(dmsetup ls)"
echo "system: same"
