#!/bin/sh
# Plain dm-crypt: for every line "NAME KIND OPTIONS" of /share/volumes the kernel opens /share/NAME.img by cryptsetup,
# with the passphrase (KIND "passphrase", which is hashed) or the key file (KIND "key-file", which is not), and writes
# /share/plain.bin into it.
set -eu
while read -r name kind options; do
    cp "/share/$name.img" /tmp/disk
    loop=$(losetup --find --show /tmp/disk)
    if [ "$kind" = key-file ]; then
        cryptsetup open --batch-mode --type plain --key-file /share/key $options "$loop" volume
    else
        cryptsetup open --batch-mode --type plain $options "$loop" volume < /share/passphrase
    fi
    dd if=/share/plain.bin of=/dev/mapper/volume bs=64k conv=fsync 2> /dev/null
    cryptsetup close volume
    losetup -d "$loop"
    cp /tmp/disk "/share/$name.img"
    echo "$name: written"
done < /share/volumes
