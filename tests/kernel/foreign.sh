#!/bin/sh
# Mappings of volumes of other systems, by cryptsetup and by ours, for every line "NAME DEVICE TYPE KEY HASH" of /share/volumes: each shows
# plaintext with this SHA-256, and what is written through ours is read through that of cryptsetup. Fails at the first difference.
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
