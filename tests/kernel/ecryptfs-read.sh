#!/bin/sh
# Lower trees on /dev/vda that were not made here: mounted one after the other and read. For each line of /share/cases (CASE,
# mount options after the signature): /share/CASE.hashes of contents, /share/CASE.links of link targets. Then files are changed,
# and one is made. Cases with plain names come first: their key is taken from /share/wrapped, the passphrase wrapped by us.
set -eu
mount -t ext4 /dev/vda /mnt
modprobe ecryptfs
mkdir -p /tmp/upper
signatures() {
    sed -n 's/.*\[\([0-9a-f]*\)\].*/\1/p' /tmp/keys
}
printf 'login passphrase' | ecryptfs-insert-wrapped-passphrase-into-keyring /share/wrapped - > /tmp/keys
sig=$(signatures)
fnek=
while read -r case options; do
    case $fnek$options in *FNEK)
        printf 'correct horse' | ecryptfs-add-passphrase --fnek - > /tmp/keys
        [ "$(signatures | head -n1)" = "$sig" ]
        fnek=$(signatures | tail -n1) ;;
    esac
    options=$(echo "$options" | sed "s/FNEK/$fnek/")
    mount -i -t ecryptfs -o "ecryptfs_sig=$sig,$options" "/mnt/$case" /tmp/upper
    (cd /tmp/upper && find . -type f -size -3000000k -exec sha256sum {} +) > "/share/$case.hashes"
    (cd /tmp/upper && find . -type l -exec readlink {} \;) > "/share/$case.links"
    if [ -e /tmp/upper/huge ]; then
        dd if=/tmp/upper/huge bs=4096 skip=1048577 2> /dev/null | sha256sum > "/share/$case.huge"
        printf 'by the kernel' | dd of=/tmp/upper/huge bs=1 seek=4294971500 conv=notrunc 2> /dev/null
    fi
    printf 'by the kernel' >> /tmp/upper/grown
    printf 'by the kernel' > '/tmp/upper/made by the kernel'
    umount /tmp/upper
    echo "$case: read"
done < /share/cases
umount /mnt
