#!/bin/sh
# Mappings of ours against cryptsetup's: for every line "NAME DEVICE OPTIONS" of /share/mappings both open the volume, each
# closes what the other has opened, and table, UUID, what `cryptsetup status` says and the plaintext have to be the same.
# Then: names and devices that are taken, a wrong passphrase, and a mapping in use. Fails at the first difference.
set -eu
export LD_LIBRARY_PATH=/share
changed=
# In memory: each start of a program from /share would read it anew.
cp /share/atrest /tmp/atrest
atrest=/tmp/atrest
ln -s "$atrest" /tmp/cryptsetup
mkdir /tmp/names && ln -s "$atrest" /tmp/names/cryptsetup
fail() { echo "$*"; dmesg | tail -n 5; exit 1; }

look() { # FILE: everything that tells the mapping `volume`, and the one below it if there is one
    {
        dmsetup table --showkeys | sort
        dmsetup info --noheadings -c -o name,uuid,read_only,segments | sort
        cryptsetup status volume | grep -v -e '^  device:' -e '^  loop:'
        head -c 1048576 /dev/mapper/volume | sha256sum
    } > "$1" 2>&1 || fail "$name: $(cat "$1")"
    # A file is on any loop device that was free.
    sed -i 's/ 7:[0-9]* / LOOP /' "$1"
}

change() { # what is done to the mapping `volume` while it is open, in turns by cryptsetup and by us
    sectors=$(blockdev --getsz /dev/mapper/volume)
    dmsetup table --showkeys volume > /tmp/before
    # What cryptsetup makes of it in the same words is what we make of it.
    for by in cryptsetup /tmp/names/cryptsetup; do
        $by resize volume --size 1024 --key-file /share/key || fail "$name: $by does not resize"
        [ "$(blockdev --getsz /dev/mapper/volume)" = 1024 ] || fail "$name: $by: $(blockdev --getsz /dev/mapper/volume)"
        dmsetup table --showkeys volume > "/tmp/table.$(echo "$by" | tr / -)"
        $by resize volume --key-file /share/key || fail "$name: $by does not resize to all"
        [ "$(blockdev --getsz /dev/mapper/volume)" = "$sectors" ] || fail "$name: $by: $(blockdev --getsz /dev/mapper/volume)"
    done
    diff /tmp/table.cryptsetup /tmp/table.-tmp-names-cryptsetup || fail "$name: not the same after a resize"
    dmsetup table --showkeys volume | diff /tmp/before - || fail "$name: another table after a resize"
    ! $atrest resize volume --size 1000 --key-file /share/key 2> /tmp/out || fail "$name: a size of no sectors"
    case $options in *plain*) return ;; esac
    dd if=/dev/mapper/volume bs=64k count=1 2> /dev/null | sha256sum > /tmp/plain.sum
    for by in cryptsetup /tmp/names/cryptsetup; do
        for back in cryptsetup /tmp/names/cryptsetup; do
            $by luksSuspend volume || fail "$name: $by does not suspend"
            [ "$(dmsetup info -c --noheadings -o suspended volume)" = Suspended ] || fail "$name: $by has not suspended it"
            # The kernel has no key any more, and wipes it to random bytes: no table shows the old one.
            dmsetup table --showkeys volume | diff -q /tmp/before - > /dev/null && fail "$name: $by has left the key"
            $atrest status volume | grep -q suspended || fail "$name: $($atrest status volume)"
            ! $back luksResume volume --key-file /share/second > /dev/null 2>&1 || fail "$name: $back takes a wrong key"
            $back luksResume volume --key-file /share/key || fail "$name: $back does not resume"
            dmsetup table --showkeys volume | diff /tmp/before - || fail "$name: another table after $by and $back"
            echo 3 > /proc/sys/vm/drop_caches
            dd if=/dev/mapper/volume bs=64k count=1 2> /dev/null | sha256sum | diff /tmp/plain.sum - || fail "$name: other data"
        done
    done
    # Other options in place, and back.
    for by in cryptsetup /tmp/names/cryptsetup; do
        $by refresh volume --allow-discards --perf-no_read_workqueue --key-file /share/key || fail "$name: $by does not refresh"
        dmsetup table --showkeys volume > "/tmp/table.$(echo "$by" | tr / -)"
    done
    diff /tmp/table.cryptsetup /tmp/table.-tmp-names-cryptsetup || fail "$name: not the same after a refresh"
    /tmp/cryptsetup refresh volume --key-file /share/key || fail "$name: not refreshed to what it was"
    dmsetup table --showkeys volume | grep -q allow_discards && fail "$name: discards are still passed on"
    true
}

# Before there is any mapping.
$atrest status | grep -q "^nothing is open" || fail "status: $($atrest status)"
[ "$($atrest status --json)" = "[]" ] || fail "status: $($atrest status --json)"

while read -r name device options; do
    case $device in
        file:*) cp "/share/${device#file:}" /tmp/volume; device=/tmp/volume ;;
    esac
    # The one option that has another name.
    theirs=$(echo "$options" | sed 's/--read-only/--readonly/')
    cryptsetup open --key-file /share/key $theirs "$device" volume || fail "$name: cryptsetup does not open it"
    look /tmp/theirs
    $atrest close volume > /dev/null || fail "$name: ours does not close it"
    [ ! -e /dev/mapper/volume ] || fail "$name: /dev/mapper/volume is still there"
    $atrest open "$device" --dm volume --key-file /share/key $options > /dev/null || fail "$name: ours does not open it"
    look /tmp/ours
    diff /tmp/theirs /tmp/ours || fail "$name: not the same"
    $atrest status --json volume > /tmp/status || fail "$name: no status"
    cryptsetup close volume || fail "$name: cryptsetup does not close it"
    # The same by the names of cryptsetup, which tell it in the same words.
    /tmp/cryptsetup open --key-file /share/key $theirs "$device" volume || fail "$name: not opened by its name"
    look /tmp/ours
    diff /tmp/theirs /tmp/ours || fail "$name: not the same by its name"
    cryptsetup status volume > /tmp/theirs && /tmp/cryptsetup status volume > /tmp/ours
    diff /tmp/theirs /tmp/ours || fail "$name: another status"
    /tmp/cryptsetup close volume || fail "$name: not closed by its name"
    [ -z "$(losetup --noheadings --list)" ] || fail "$name: a loop device is left: $(losetup --list)"
    # /tmp is memory here.
    rm -f /tmp/volume
    echo "$name: same"
done < /share/mappings

# The same for volumes with tags, which cryptsetup makes, in all ways of /share/ways. What is written through the one mapping is read through the other.
while read -r name options; do
    truncate -s 6M /tmp/volume
    device=$(losetup -f)
    losetup "$device" /tmp/volume
    cost="--pbkdf pbkdf2 --pbkdf-force-iterations 1000 --luks2-metadata-size 16k --luks2-keyslots-size 1m"
    cryptsetup luksFormat -q --type luks2 $cost $options "$device" /share/key > /dev/null 2>&1 || fail "$name: not made"
    while IFS= read -r way <&3; do
        cryptsetup open --key-file /share/key $way "$device" volume 2> /tmp/messages || fail "$name: $(cat /tmp/messages)"
        head -c 100000 /dev/urandom > /tmp/theirs.bin
        dd if=/tmp/theirs.bin of=/dev/mapper/volume bs=4k conv=fsync 2> /dev/null
        look /tmp/theirs
        $atrest close volume > /dev/null || fail "$name: ours does not close it"
        [ -z "$(dmsetup ls | grep volume)" ] || fail "$name: left behind: $(dmsetup ls)"
        $atrest open "$device" --dm volume --key-file /share/key $way > /dev/null || fail "$name: ours does not open it"
        look /tmp/ours
        diff /tmp/theirs /tmp/ours || fail "$name: not the same"
        head -c 100000 /dev/mapper/volume | cmp - /tmp/theirs.bin || fail "$name: something else is read"
        $atrest status volume | grep -q "byte tags in /dev/mapper/volume_dif" || fail "$name: $($atrest status volume)"
        cryptsetup close volume || fail "$name: cryptsetup does not close it"
        echo "$name $way: same"
    done 3< /share/ways
    # A byte of the data turned over must not be read.
    printf x | dd of="$device" bs=1 seek=5000000 conv=notrunc 2> /dev/null
    echo 3 > /proc/sys/vm/drop_caches
    $atrest open "$device" --dm volume --key-file /share/key > /dev/null
    ! cat /dev/mapper/volume > /dev/null 2>&1 || fail "$name: a changed byte was read"
    $atrest close volume > /dev/null
    status=0
    $atrest decrypt --key-file /share/key "$device" /tmp/plain > /tmp/out 2>&1 || status=$?
    [ $status = 4 ] && grep -q "its tag is wrong" /tmp/out || fail "$name: status $status: $(cat /tmp/out)"
    rm -f /tmp/plain /tmp/plain.atrest-checkpoint
    $atrest open "$device" --dm volume --allow-discards --key-file /share/key > /tmp/out 2>&1 && fail "$name: discards"
    grep -q "passes no discards on" /tmp/out && [ -z "$(dmsetup ls | grep volume)" ] || fail "$name: $(cat /tmp/out) $(dmsetup ls)"
    losetup -d "$device"
    rm -f /tmp/volume
done < /share/tagged

# Options that the header asks for from now on, whoever sets them.
truncate -s 4M /tmp/volume
cost="--pbkdf pbkdf2 --pbkdf-force-iterations 1000 --luks2-metadata-size 16k --luks2-keyslots-size 1m"
cryptsetup luksFormat -q --type luks2 $cost /tmp/volume /share/key
$atrest open /tmp/volume --dm volume --key-file /share/key --allow-discards --perf-same_cpu_crypt --persistent > /dev/null
cryptsetup luksDump /tmp/volume | grep -q "^Flags:.*allow-discards same-cpu-crypt" || fail "$(cryptsetup luksDump /tmp/volume)"
$atrest close volume > /dev/null
cryptsetup open --key-file /share/key /tmp/volume volume
dmsetup table volume | grep -q "allow_discards same_cpu_crypt" || fail "$(dmsetup table volume)"
cryptsetup close volume
# What is asked for together with --persistent takes the place of what was asked for before, at once.
$atrest open /tmp/volume --dm volume --key-file /share/key --perf-no_read_workqueue --persistent > /dev/null
dmsetup table volume | grep -q no_read_workqueue || fail "$(dmsetup table volume)"
dmsetup table volume | grep -q "discards\|same_cpu" && fail "$(dmsetup table volume)"
$atrest open --refresh /tmp/volume --dm volume --key-file /share/key --persistent > /dev/null
dmsetup table volume | grep -q workqueue && fail "$(dmsetup table volume)"
cryptsetup luksDump /tmp/volume | grep -q "^Flags:.*(no flags)" || fail "$(cryptsetup luksDump /tmp/volume)"
# Closed as soon as nobody has it.
sleep 100 < /dev/mapper/volume &
holder=$!
$atrest close volume > /dev/null 2>&1 && fail "closed in use"
$atrest close --deferred volume > /dev/null
dmsetup info volume | grep -q "DEFERRED REMOVE" || fail "not deferred: $(dmsetup info volume)"
$atrest close --cancel-deferred volume > /dev/null
dmsetup info volume | grep -q "DEFERRED REMOVE" && fail "still deferred"
$atrest close --deferred volume > /dev/null
kill $holder
wait $holder || true
tries=0
while [ -n "$(dmsetup ls | grep volume)" ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "not removed"
    sleep 0.05
done
rm -f /tmp/volume /dev/mapper/volume
# Two parts of a device, of which nobody watches whether they overlap.
set -- $(grep -v file: /share/mappings | head -n 1)
shared="--type plain --cipher aes-xts-plain64 --key-size 256 --hash sha256 --key-file /share/key --keyfile-size 32 --size 128"
/tmp/cryptsetup open $shared "$2" one || fail "not opened as plain"
/tmp/cryptsetup open $shared --offset 256 "$2" two 2> /dev/null && fail "opened twice without --shared"
/tmp/cryptsetup open $shared --offset 256 --shared "$2" two || fail "not shared"
cryptsetup close two && cryptsetup close one
# Another hash is another key, and a plain mapping is refreshed by its name alone.
plain="--cipher aes-xts-plain64 --key-size 256"
echo -n words | /tmp/cryptsetup open --type plain --hash sha256 $plain "$2" one 2> /dev/null || fail "not opened as plain"
echo -n words | /tmp/cryptsetup refresh --hash sha512 $plain --allow-discards one 2> /dev/null && fail "refreshed with another key"
dmsetup table one | grep -q allow_discards && fail "$(dmsetup table one)"
echo -n words | /tmp/cryptsetup refresh --hash sha256 $plain --allow-discards one 2> /dev/null || fail "not refreshed"
dmsetup table one | grep -q allow_discards || fail "$(dmsetup table one)"
cryptsetup close one

expect() { # STATUS WORDS COMMAND...: fails so, and says so
    expected=$1 words=$2
    shift 2
    status=0
    "$@" > /tmp/out 2>&1 || status=$?
    [ "$status" = "$expected" ] || fail "$*: status $status: $(cat /tmp/out)"
    grep -q "$words" /tmp/out || fail "$*: $(cat /tmp/out)"
}
set -- $(grep -v file: /share/mappings | head -n 1)
device=$2
open="$atrest open --key-file /share/key --dm"
$open volume "$device" > /dev/null
expect 5 "already exists" $open volume "$device"
expect 5 "in use\|busy" $open other "$device"
expect 2 "passphrase" $atrest open --key-file /share/second --dm other /dev/vdc
expect 1 "is not a name" $open "a b" /dev/vdc
[ ! -e /dev/mapper/other ] || fail "a mapping was left behind"
[ "$(dmsetup ls | wc -l)" = 1 ] || fail "$(dmsetup ls)"
mke2fs -q -t ext4 -F /dev/mapper/volume
mkdir -p /mnt/volume
mount -t ext4 /dev/mapper/volume /mnt/volume
expect 5 "in use" $atrest close volume
$atrest status | grep -q "volume: $device at /dev/mapper/volume.*in use" || fail "$($atrest status)"
umount /mnt/volume
$atrest close volume > /dev/null
expect 4 "no open volume" $atrest close volume
dmsetup create linear --table "0 8 linear $device 0"
expect 4 "is not an encrypted volume" $atrest close linear
dmsetup remove linear
cp "/share/$(awk '/file:/ { print $1; exit }' /share/mappings).img" /tmp/volume
$open file /tmp/volume > /dev/null
expect 5 "busy" $open other /tmp/volume
expect 5 "busy" $atrest format --yes --key-file /share/key --type luks1 --pbkdf-force-iterations 1000 /tmp/volume
expect 5 "busy" $atrest decrypt --key-file /share/key /tmp/volume /tmp/plain
$atrest close file > /dev/null
$atrest decrypt --key-file /share/key /tmp/volume /tmp/plain > /dev/null 2>&1
echo "bad input: refused"
