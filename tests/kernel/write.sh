#!/bin/sh
# The kernel writes: for every line "NAME DEVICE OPTIONS" of /share/volumes (OPTIONS of luksFormat, or "-" for a volume
# that is formatted already) make ext4, copy /share/tree into it, add the passphrase /share/second, and leave the
# SHA-256 of the whole plaintext in /share/NAME.sha256.
set -eu
while read -r name device options; do
    if [ "$options" != - ]; then
        cryptsetup luksFormat --batch-mode $options "$device" /share/key
    fi
    cryptsetup open --key-file /share/key "$device" volume
    mkfs.ext4 -q /dev/mapper/volume
    mkdir -p /mnt/volume
    mount -t ext4 /dev/mapper/volume /mnt/volume
    cp -r /share/tree/. /mnt/volume
    ln -s directory/inner.txt /mnt/volume/link
    umount /mnt/volume
    sha256sum < /dev/mapper/volume | cut -d ' ' -f 1 > "/share/$name.sha256"
    cryptsetup close volume
    cryptsetup luksAddKey --batch-mode --key-file /share/key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$device" /share/second
    echo "$name: written [$(cut -d ' ' -f 1 /proc/uptime) s]"
done < /share/volumes
