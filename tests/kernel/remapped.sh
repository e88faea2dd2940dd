#!/bin/sh
# Volumes in the middle of their re-encryption as mappings: the tables are those of cryptsetup; a mapping follows the re-encryption of its
# volume while files on it are written, through kills and failing disks; and what one of the programs left the other goes on with. For each
# line "NAME KIND" of /share/rewritten, with at most so many kills as /share/kills says, on a disk of so many MiB as /share/size says. The
# rest is done where there are more than a few kills.
# Fails at the first difference.
set -eu
export LD_LIBRARY_PATH=/share
cp /share/atrest /tmp/atrest
most=$(cat /share/kills)
mib=$(cat /share/size)
atrest=/tmp/atrest
mkdir /tmp/names && ln -s "$atrest" /tmp/names/cryptsetup
ours=/tmp/names/cryptsetup
fail() { echo "$*"; cat /tmp/out 2> /dev/null || true; dmsetup table; dmesg | tail -n 5; exit 1; }
modprobe dm-mod
modprobe dm-crypt
dmsetup version > /dev/null
mkdir -p /run/cryptsetup
cost="--pbkdf pbkdf2 --pbkdf-force-iterations 1000"
small="--luks2-metadata-size 16k --luks2-keyslots-size 1m"

truncate -s "${mib}M" /tmp/below
loop=$(losetup -f)
losetup "$loop" /tmp/below
sectors=$(blockdev --getsz "$loop")
whole() { echo "0 $sectors linear $loop 0"; }
# All behind this sector fails.
broken() { printf '0 %d linear %s 0\n%d %d error\n' "$1" "$loop" "$1" $((sectors - $1)); }
below() { # reads a table: what the volume lies on is this from now on
    dmsetup load below && dmsetup resume below
}
whole | dmsetup create below
device=/dev/mapper/below

look() { # FILE: the mapping, as it is
    dmsetup table --showkeys volume > "$1" 2> /tmp/out || fail "$name: no mapping"
    dmsetup info --noheadings -c -o name,uuid,read_only,segments volume >> "$1"
    sha256sum < /dev/mapper/volume >> "$1"
}

make() { # a new volume that begins to be re-encrypted as KIND says; `sum` is of its plaintext
    rm -f /tmp/header
    header=
    begin=
    case $kind in
    encrypt)
        begin="--encrypt --reduce-device-size 4M -c aes-xts-plain64"
        head -c $((mib - 4 << 20)) /dev/urandom > $device
        sum=$(head -c $((mib - 4 << 20)) $device | sha256sum)
        return ;;
    decrypt)
        header="--header /tmp/header"
        begin="--decrypt" ;;
    key) ;;
    cipher) begin="-c aes-cbc-essiv:sha256 -s 256" ;;
    sector) begin="--sector-size 4096 --force-offline-reencrypt" ;;
    esac
    [ -z "$header" ] || truncate -s 16M /tmp/header
    sector_size="--sector-size 512"
    cryptsetup luksFormat -q --type luks2 $sector_size $cost $small $header $device /share/key > /tmp/out 2>&1 || fail "$name: not made"
    cryptsetup open --key-file /share/key $header $device volume
    head -c $((mib * 500000)) /dev/urandom | dd of=/dev/mapper/volume bs=64k conv=fsync 2> /dev/null
    sum=$(sha256sum < /dev/mapper/volume)
    cryptsetup close volume
}

begun() { # PROGRAM: begins it, and does nothing more
    $1 reencrypt -q --init-only $begin $cost $header --key-file /share/key $device > /tmp/out 2>&1 || fail "$name: $1 does not begin it"
}

same() { # WHAT: the plaintext is what it was
    echo 3 > /proc/sys/vm/drop_caches
    [ "$(head -c "${1:-100000000}" /dev/mapper/volume | sha256sum)" = "$sum" ] || fail "$name: $2: other plaintext"
}

finished() { # WHAT: the plaintext is what it was, and the mapping goes, as it does by itself where all is plaintext
    if [ "$kind" = decrypt ]; then
        [ -z "$(dmsetup ls | grep volume)" ] || fail "$name: $1: still mapped"
        echo 3 > /proc/sys/vm/drop_caches
        [ "$(sha256sum < $device)" = "$sum" ] || fail "$name: $1: not decrypted"
    else
        same $size "$1"
        cryptsetup close volume
    fi
}

refused() { # what is suspended is no re-encryption that was cut off, and a copy of a header in front is none of its own
    cryptsetup luksSuspend volume
    $atrest --yes reencrypt --resume --online volume --key-file /share/key > /tmp/out 2>&1 && fail "$name: suspended, and gone on with"
    grep -q "is suspended" /tmp/out || fail "$name: not told that it is suspended"
    cryptsetup luksResume --key-file /share/key volume
    rm -f /tmp/front
    cryptsetup luksHeaderBackup --header-backup-file /tmp/front $device
    $atrest --yes reencrypt --online volume --decrypt --header /tmp/front --key-file /share/key > /tmp/out 2>&1 && fail "$name: decrypted over its header"
    grep -q "while it is closed" /tmp/out || fail "$name: not told why it is not decrypted"
    $ours reencrypt -q --force-offline-reencrypt --key-file /share/key $device > /tmp/out 2>&1 && fail "$name: offline, and open"
    grep -q "volume" /tmp/out || fail "$name: not told which mapping is open"
}

while read -r name kind; do
    size=100000000
    [ "$kind" != encrypt ] || size=$((mib - 4 << 20))
    # 1. Half done: both open it with the same tables.
    make
    begun cryptsetup
    broken $((mib * 1250)) | below
    $ours reencrypt -q --resume-only --hotzone-size 1M $header --key-file /share/key $device > /tmp/out 2>&1 && fail "$name: written to a broken disk"
    whole | below
    cryptsetup open --key-file /share/key $header $device volume > /tmp/out 2>&1 || fail "$name: cryptsetup does not open it"
    look /tmp/theirs
    $atrest close volume > /tmp/out 2>&1 || fail "$name: ours does not close it"
    [ ! -e /dev/mapper/volume ] || fail "$name: /dev/mapper/volume is still there"
    $atrest open $device --dm volume $header --key-file /share/key > /tmp/out 2>&1 || fail "$name: ours does not open it"
    look /tmp/ours
    diff /tmp/theirs /tmp/ours || fail "$name: not the same"
    same $size half
    $ours status volume $header | grep -q "reencryption:  in-progress" || fail "$name: $($ours status volume $header)"
    # 2. It goes on while it is open; then it is done.
    $ours reencrypt -q --resume-only --active-name volume $header --key-file /share/key > /tmp/out 2>&1 || fail "$name: not gone on with"
    finished "gone on with"
    if [ $kind != decrypt ]; then
        cryptsetup luksDump $device | grep -q "online-reencrypt" && fail "$name: not done"
        cryptsetup open --key-file /share/key $device volume || fail "$name: cryptsetup does not open what is done"
        refused
        finished "done"
    fi
    echo "$name: same, and gone on with"

    # 3. From the beginning, with a disk that breaks in the middle: the zone alone fails, and all goes on once the disk is whole.
    make
    begun $ours
    $ours open --key-file /share/key $header $device volume
    broken $((mib * 1500)) | below
    $ours reencrypt -q --resume-only --hotzone-size 1M --active-name volume $header --key-file /share/key > /tmp/out 2>&1 && fail "$name: no error"
    [ "$(dmsetup info -c --noheadings -o suspended volume)" = Active ] || fail "$name: it waits for ever"
    whole | below
    $ours reencrypt -q --resume-only --active-name volume $header --key-file /share/key > /tmp/out 2>&1 || fail "$name: not gone on with after an error"
    dmsetup table | grep -q error && fail "$name: still broken"
    finished "after an error"

    # 4. Killed again and again.
    make
    begun $ours
    $ours open --key-file /share/key $header $device volume
    kills=0
    while
        $ours reencrypt -q --resume-only --hotzone-size 256k --active-name volume $header --key-file /share/key > /tmp/out 2>&1 &
        process=$!
        sleep "$((kills % 3)).$((10 + kills * 7 % 80))"
        kill -9 $process 2> /dev/null
    do
        wait $process 2> /dev/null || true
        kills=$((kills + 1))
        [ $kills -lt $most ] || break
    done
    status=0
    wait $process 2> /dev/null || status=$?
    # The last kill may have come when all was done, and nothing was left to go on with.
    [ $kills -ge $most ] || [ $status = 0 ] || grep -q "no re-encryption" /tmp/out || fail "$name: status $status after $kills kills"
    if [ $kills -ge $most ]; then
        $ours reencrypt -q --resume-only --active-name volume $header --key-file /share/key > /tmp/out 2>&1 || grep -q "no re-encryption\|neither a process" /tmp/out || fail "$name: not gone on with after a kill"
    fi
    finished "after $kills kills"
    echo "$name: an error and $kills kills"
done < /share/rewritten

[ $most -gt 10 ] || exit 0

# It is opened as soon as its encryption has begun, and goes on then, or when the device is named again.
name=named kind=encrypt
for way in --init-only ""; do
    make
    $ours reencrypt -q $begin $way $cost --key-file /share/key $device volume > /tmp/out 2>&1 || fail "$name: not begun and opened"
    same $((mib - 4 << 20)) begun
    if [ -n "$way" ]; then
        cryptsetup status volume | grep -q "reencryption:  in-progress" || fail "$name: not begun"
        $ours reencrypt -q --key-file /share/key $device > /tmp/out 2>&1 || fail "$name: not gone on with"
        same $((mib - 4 << 20)) done
    fi
    cryptsetup status volume | grep -q "reencryption:  in-progress" && fail "$name: not done"
    $ours close volume
done
echo "named: opened"

# Its header lies in front of the data: the header goes to a file, and the data over it.
name=front kind=decrypt header="--header /tmp/header"
for way in --init-only ""; do
    rm -f /tmp/header
    cryptsetup luksFormat -q --type luks2 $cost $small --offset 8192 $device /share/key > /tmp/out 2>&1 || fail "$name: not made"
    cryptsetup open --key-file /share/key $device volume
    size=$(blockdev --getsize64 /dev/mapper/volume)
    head -c "$size" /dev/urandom | dd of=/dev/mapper/volume bs=64k conv=fsync 2> /dev/null
    sum=$(sha256sum < /dev/mapper/volume)
    $ours reencrypt -q --decrypt $header $way $cost --key-file /share/key $device > /tmp/out 2>&1 || fail "$name: not begun"
    if [ -n "$way" ]; then
        $ours status volume $header | grep -q "reencryption:  in-progress" || fail "$name: not begun"
        same "$size" begun
        cryptsetup close volume
        cryptsetup open --key-file /share/key $header $device volume > /tmp/out 2>&1 || fail "$name: cryptsetup does not open it"
        same "$size" "opened again"
        $ours reencrypt -q $header --key-file /share/key $device > /tmp/out 2>&1 || fail "$name: not gone on with"
    fi
    [ -z "$(dmsetup ls | grep volume)" ] || fail "$name: still mapped"
    echo 3 > /proc/sys/vm/drop_caches
    [ "$(head -c "$size" $device | sha256sum)" = "$sum" ] || fail "$name: not decrypted"
done
# The head is the last zone. Where it can't be written, the mapping can be closed; who is killed there leaves what the next one completes,
# and that has no mapping.
rm -f /tmp/header
cryptsetup luksFormat -q --type luks2 $cost $small --offset 8192 $device /share/key > /tmp/out 2>&1 || fail "$name: not made"
cryptsetup open --key-file /share/key $device volume
sum=$(sha256sum < /dev/mapper/volume)
$ours reencrypt -q --decrypt $header --init-only $cost --key-file /share/key $device > /tmp/out 2>&1 || fail "$name: not begun"
printf '0 8 error\n8 %d linear %s 8\n' $((sectors - 8)) "$loop" | below
$ours reencrypt -q $header --key-file /share/key $device > /tmp/out 2>&1 && fail "$name: written to a broken disk"
$ours status volume $header | grep -q "reencryption:  in-progress" || fail "$name: no mapping of LUKS2 any more"
$ours close volume > /tmp/out 2>&1 || fail "$name: not closed"
whole | below
cp /tmp/header /tmp/saved-header
dd if=$device of=/tmp/saved-data bs=1M 2> /dev/null
wait=0
until $atrest info /tmp/header | grep "in progress" | grep -qv "between two zones"; do
    wait=$((wait + 1))
    [ $wait -lt 60 ] || fail "$name: never killed while the head was written"
    cp /tmp/saved-header /tmp/header
    dd if=/tmp/saved-data of=$device bs=1M conv=fsync 2> /dev/null
    $ours reencrypt -q --resume-only $header --key-file /share/key $device > /tmp/out 2>&1 &
    process=$!
    sleep 0.$((100 + wait * 29 % 900))
    kill -9 $process 2> /dev/null
    wait $process 2> /dev/null || true
done
$ours open --key-file /share/key $header $device volume > /tmp/out 2>&1 && fail "$name: plaintext is mapped"
grep -q "all of it is plaintext" /tmp/out || fail "$name: not told that it is plaintext"
echo 3 > /proc/sys/vm/drop_caches
[ "$(head -c "$size" $device | sha256sum)" = "$sum" ] || fail "$name: not decrypted by opening it"
echo "front: decrypted"

# A mapping that shows a part of the data: that part alone is re-encrypted.
name=part kind=key
make
size=$((4 << 20))
cryptsetup open --key-file /share/key $device volume
cryptsetup resize --key-file /share/key --device-size 4M volume
sum=$(sha256sum < /dev/mapper/volume)
$ours reencrypt -q $cost --key-file /share/key --device-size 3M $device > /tmp/out 2>&1 && fail "$name: of another size"
$ours reencrypt -q $cost --key-file /share/key --device-size 4M --hotzone-size 1M $device > /tmp/out 2>&1 || fail "$name: not done"
[ "$(blockdev --getsize64 /dev/mapper/volume)" = $size ] || fail "$name: another size"
same $size done
cryptsetup close volume
cryptsetup open --key-file /share/key $device volume
same $size "opened again"
cryptsetup close volume
echo "part: re-encrypted"

# Who writes meanwhile loses nothing: each block has its number, and is read back at the end.
name=writer kind=key
make
begun $ours
$ours open --key-file /share/key $device volume
(
    i=0
    while [ ! -e /tmp/stop ]; do
        at=$((i * 37 % 3400))
        printf '%4096d' $i | dd of=/dev/mapper/volume bs=4k seek=$at oflag=direct conv=notrunc 2> /dev/null || echo "$i failed" >> /tmp/failed
        echo "$at $i" >> /tmp/written
        i=$((i + 1))
    done
) &
writer=$!
$ours reencrypt -q --resume-only --hotzone-size 256k --active-name volume --key-file /share/key > /tmp/out 2>&1 || fail "not gone on with beside a writer"
touch /tmp/stop
wait $writer
[ ! -e /tmp/failed ] || fail "$(cat /tmp/failed)"
$ours close volume
cryptsetup open --key-file /share/key $device volume
tac /tmp/written | awk '!seen[$1]++' | while read -r at i; do
    [ "$(dd if=/dev/mapper/volume bs=4k skip="$at" count=1 2> /dev/null)" = "$(printf '%4096d' "$i")" ] || fail "block $at is not $i"
done
cryptsetup close volume
echo "writer: $(wc -l < /tmp/written) blocks"

# Nobody opens it while somebody goes on with it, by cryptsetup's lock.
make
begun $ours
uuid=$(cryptsetup luksUUID $device)
/share/flock -x "/run/cryptsetup/LN_LUKS2-reencryption-$uuid" sleep 1000 &
holder=$!
while /share/flock -n -x "/run/cryptsetup/LN_LUKS2-reencryption-$uuid" true; do sleep 0.05; done
status=0
$atrest open $device --dm volume --key-file /share/key > /tmp/out 2>&1 || status=$?
[ $status = 5 ] && grep -q "another process is re-encrypting" /tmp/out || fail "opened beside a re-encryption: $status"
status=0
$atrest reencrypt --resume --key-file /share/key $device > /tmp/out 2>&1 || status=$?
[ $status = 5 ] || fail "gone on with beside a re-encryption: $status"
pkill -P $holder sleep 2> /dev/null || true
kill $holder 2> /dev/null || true
echo "lock: respected"
