#!/bin/sh
# Writes /share/plain.bin through every table of /share/tables (name, cipher, key, IV offset, options), checks that it
# reads back, and saves the ciphertext as /share/ciphertext/NAME. Fails if a table is refused or misread.
sectors=$(($(stat -c %s /share/plain.bin) / 512))
truncate -s $((sectors * 512)) /tmp/disk
loop=$(losetup --find --show /tmp/disk)
failures=0
while read -r name cipher key offset options; do
    [ "$options" = - ] && options=
    dd if=/dev/zero of="$loop" bs=512 count="$sectors" conv=fsync 2> /dev/null
    echo "0 $sectors crypt $cipher $key $offset $loop 0 $options" > /tmp/table
    if dmsetup create case /tmp/table 2> /tmp/err; then
        dd if=/share/plain.bin of=/dev/mapper/case bs=64k conv=fsync 2> /dev/null
        echo 3 > /proc/sys/vm/drop_caches
        if cmp -s /share/plain.bin /dev/mapper/case; then result=ok; else result=MISREAD; fi
        dmsetup remove case
        cat "$loop" > "/share/ciphertext/$name"
    else
        result="refused: $(tail -n 1 /tmp/err) $(dmesg | grep 'device-mapper: table' | tail -n 1)"
    fi
    [ "$result" = ok ] || { failures=$((failures + 1)); echo "$name: $result"; }
done < /share/tables
echo "$failures tables refused or misread"
exit $((failures > 0))
