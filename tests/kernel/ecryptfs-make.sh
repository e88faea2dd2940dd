#!/bin/sh
# Lower trees made by the kernel's eCryptfs on /dev/vda, one directory for each way to mount it, and what is in them for
# whoever reads them: /share/CASE.files (SHA-256 of contents), /share/CASE.stat (metadata and link targets).
# $1: files in each tree beside the usual ones; the other words: the cases to make.
set -eu
more=$1
shift
cases=" $* "
mount -t ext4 /dev/vda /mnt
modprobe ecryptfs
mkdir -p /tmp/upper
keys() {
    printf 'correct horse' | ecryptfs-add-passphrase --fnek - > /tmp/keys
}
keys
sig=$(sed -n 's/.*\[\([0-9a-f]*\)\].*/\1/p' /tmp/keys | head -n1)
fnek=$(sed -n 's/.*\[\([0-9a-f]*\)\].*/\1/p' /tmp/keys | tail -n1)
echo "sig=$sig fnek=$fnek"

fill() { # directory files
    cd "$1"
    : > empty
    for size in 1 15 16 17 4095 4096 4097 8192 40959 40961 65536 300000; do
        head -c "$size" /share/plain.bin > "bytes-$size"
    done
    printf 'a' > a
    printf 'long' > "$(head -c 143 /dev/zero | tr '\0' n)"
    printf 'odd' > 'spaces and "quotes", <&> % \ ;'
    printf 'utf' > 'Grüße-日本語'
    mkdir directory directory/inner
    printf 'nested\n' > 'directory/inner/nested file'
    ln -s directory/inner link
    ln -s "$(head -c 600 /dev/zero | tr '\0' t)" long-link
    # Grown by a hole, grown by writing behind the end, cut, appended to, overwritten inside, moved, with a second name.
    printf 'head' > hole; truncate -s 50000 hole
    printf 'tail' | dd of=behind bs=1 seek=30000 conv=notrunc 2> /dev/null
    head -c 50000 /share/plain.bin > cut; truncate -s 9001 cut
    head -c 5000 /share/plain.bin > cut-and-grown; truncate -s 100 cut-and-grown; truncate -s 20000 cut-and-grown
    head -c 5000 /share/plain.bin > appended; printf 'more' >> appended
    head -c 60000 /share/plain.bin > inside; printf 'inside' | dd of=inside bs=1 seek=45053 conv=notrunc 2> /dev/null
    head -c 5000 /share/plain.bin > before; mv before directory/after
    ln appended directory/second-name
    chmod 0751 cut; chmod 0600 inside; chown 1000:70000 cut directory
    i=0
    while [ "$i" -lt "$2" ]; do
        name=$(head -c $((i * 7 % 137 + 1)) /dev/zero | tr '\0' x)$i
        head -c $((i * 977 % 70000)) /share/plain.bin > "directory/$name"
        i=$((i + 1))
    done
    cd /
}
lower() { # case options files
    case $cases in *" $1 "*) ;; *) return ;; esac
    mkdir "/mnt/$1"
    mount -i -t ecryptfs -o "ecryptfs_sig=$sig,$2" "/mnt/$1" /tmp/upper
    fill /tmp/upper "$3"
    if [ -e /share/large ] && [ "$1" = aes256 ]; then cp /share/large /tmp/upper; fi
    umount /tmp/upper
    echo 3 > /proc/sys/vm/drop_caches
    mount -i -t ecryptfs -o "ecryptfs_sig=$sig,$2" "/mnt/$1" /tmp/upper
    (cd /tmp/upper && find . -type f -exec sha256sum {} +) > "/share/$1.files"
    (cd /tmp/upper && find . -exec stat -c '%n|%F|%a|%s|%h|%Y|%u|%g' {} + && find . -type l -exec readlink {} \;) > "/share/$1.stat"
    umount /tmp/upper
    echo "$1: made [$(cut -d' ' -f1 /proc/uptime)]"
}
names="ecryptfs_fnek_sig=$fnek"
lower aes128-plain-names "ecryptfs_cipher=aes,ecryptfs_key_bytes=16" "$more"
lower aes128   "ecryptfs_cipher=aes,ecryptfs_key_bytes=16,$names" "$more"
lower aes192   "ecryptfs_cipher=aes,ecryptfs_key_bytes=24,$names" "$more"
lower aes256   "ecryptfs_cipher=aes,ecryptfs_key_bytes=32,$names" "$more"
lower des3     "ecryptfs_cipher=des3_ede,ecryptfs_key_bytes=24,$names" "$more"
lower blowfish "ecryptfs_cipher=blowfish,ecryptfs_key_bytes=16,$names" "$more"
lower blowfish56 "ecryptfs_cipher=blowfish,ecryptfs_key_bytes=56,$names" "$more"
lower twofish  "ecryptfs_cipher=twofish,ecryptfs_key_bytes=32,$names" "$more"
lower cast5    "ecryptfs_cipher=cast5,ecryptfs_key_bytes=16,$names" "$more" || echo "cast5: refused"
lower cast6    "ecryptfs_cipher=cast6,ecryptfs_key_bytes=32,$names" "$more"
lower xattr    "ecryptfs_cipher=aes,ecryptfs_key_bytes=16,ecryptfs_xattr_metadata,$names" "$more"
lower mixed    "ecryptfs_cipher=aes,ecryptfs_key_bytes=32,$names,ecryptfs_fn_cipher=blowfish,ecryptfs_fn_key_bytes=32" "$more"
umount /mnt
echo made
