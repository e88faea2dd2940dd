#!/bin/sh
# `atrest unlock` and atrest-init, without udev: the volumes /dev/vda (key file, label first), /dev/vdb and /dev/vdc (one passphrase),
# /dev/vdd (its header is in header.img), /dev/vde (a root file system is put into it). Every part ends with a line "NAME: good".
set -eu
export LD_LIBRARY_PATH=/share
# In memory: each start of a program from /share would read it anew.
cp /share/atrest /tmp/atrest
atrest=/tmp/atrest
fail() { echo "$*"; dmesg | tail -n 5; exit 1; }
good() { echo "$*: good"; }
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
modprobe dm-crypt
cp /share/header.img /tmp/header.img
mkdir -p /mnt/a
passphrase=$(cat /share/second)

# What each volume holds, put there by cryptsetup.
open_theirs() { # NAME CRYPTSETUP'S WORDS: writes its name into it
    name=$1
    shift
    cryptsetup open "$@" theirs
    echo "this is $name" | dd of=/dev/mapper/theirs conv=notrunc 2> /dev/null
    cryptsetup close theirs
}
open_theirs a --key-file /share/key /dev/vda
open_theirs b --key-file /share/second /dev/vdb
open_theirs c --key-file /share/second /dev/vdc
open_theirs d --key-file /share/key --header /tmp/header.img /dev/vdd
holds() { # MAPPING NAME: the mapping shows that volume
    [ "$(head -n 1 "/dev/mapper/$1" | tr -d '\0')" = "this is $2" ] || fail "$1 does not show volume $2"
    cryptsetup status "$1" > /tmp/status || fail "cryptsetup: $(cat /tmp/status)"
}
unlock() { # STATUS WORDS...: runs it with these words, its messages go to /tmp/out
    expected=$1
    shift
    status=0
    $atrest unlock --no-questions "$@" > /tmp/out 2>&1 < /dev/null || status=$?
    [ "$status" = "$expected" ] || fail "unlock $*: status $status: $(cat /tmp/out)"
}
says() { # WORDS: the messages have them
    grep -q -- "$1" /tmp/out || fail "no \"$1\" in: $(cat /tmp/out)"
}
# Types a line after each question, on a terminal of its own.
typing() { # LINES WORDS...: LINES are separated by '|'
    lines=$1
    shift
    : > /tmp/out
    (
        count=0
        IFS='|'
        for line in $lines; do
            count=$((count + 1))
            until [ "$(grep -o 'Passphrase for' /tmp/out | wc -l)" -ge $count ]; do sleep 0.1; done
            printf '%s\n' "$line"
        done
        # `script` ends with its input; the program is to end first.
        until [ -e /tmp/ended ]; do sleep 0.1; done
    ) | {
        status=0
        /share/script -qfec "$atrest unlock $*; echo \$? > /tmp/ended" /tmp/out > /dev/null || true
        [ -e /tmp/ended ] || fail "the program did not end: $(cat /tmp/out)"
    }
    status=$(cat /tmp/ended)
    rm -f /tmp/ended
}
close() { for name; do $atrest close "$name" > /dev/null || fail "close $name"; done; }
uuid() { cryptsetup luksUUID "$1"; }

# Key file by label, a header elsewhere, a key by name, a script, and a plain volume; and a line that makes no sense.
cat > /tmp/keyscript <<EOF
#!/bin/sh
[ "\$1" = "an argument" ] && [ "\$CRYPTTAB_NAME" = scripted ] && printf %s "$passphrase"
EOF
chmod +x /tmp/keyscript
mkdir -p /run/cryptsetup-keys.d
cp /share/second /run/cryptsetup-keys.d/named.key
truncate -s 4M /tmp/plain
cat > /tmp/crypttab <<EOF
# volumes of this test
keyed    LABEL=first                /share/key      luks,discard,tpm2-device=auto
nonsense sda
apart    /dev/vdd                   /share/key      header=/tmp/header.img,colour=red
named    UUID=$(uuid /dev/vdb)      none            readonly
scripted /dev/vdc                   an\\040argument keyscript=/tmp/keyscript
plain    /tmp/plain                 /share/key      plain,cipher=aes-xts-plain64,size=512,offset=8
later    UUID=nowhere               none            noauto
EOF
unlock 1 --crypttab /tmp/crypttab --json
for name in keyed apart named scripted plain; do [ -b "/dev/mapper/$name" ] || fail "no $name: $(cat /tmp/out)"; done
[ ! -e /dev/mapper/later ] || fail "later is open"
holds keyed a; holds apart d; holds named b; holds scripted c
says "/tmp/crypttab:3: .*sda.* is no device"
says "/tmp/crypttab:4: the option colour=red is not known"
says "/tmp/crypttab:2: tpm2-device can't be served here"
dmsetup table keyed | grep -q allow_discards || fail "$(dmsetup table keyed)"
[ "$(blockdev --getro /dev/mapper/named)" = 1 ] || fail "named can be written"
dmsetup table plain > /tmp/ours
unlock 1 --crypttab /tmp/crypttab
says "keyed: /dev/mapper/keyed is there already"
close keyed apart named scripted plain
truncate -s 4M /tmp/plain
cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512 --offset 8 --key-file /share/key /tmp/plain plain
dmsetup table plain | sed 's/ 7:[0-9]* / LOOP /' > /tmp/theirs
sed -i 's/ 7:[0-9]* / LOOP /' /tmp/ours
diff /tmp/theirs /tmp/ours || fail "the plain volume is not the same"
cryptsetup close plain
rm /run/cryptsetup-keys.d/named.key
good "crypttab"

# One passphrase for two volumes, and the wrong one asked again.
cat > /tmp/crypttab <<EOF
one   UUID=$(uuid /dev/vdb)
other UUID=$(uuid /dev/vdc) none
EOF
typing "zebra|$passphrase" --crypttab /tmp/crypttab
[ "$status" = 0 ] || fail "status $status: $(cat /tmp/out)"
holds one b; holds other c
[ "$(grep -o 'Passphrase for' /tmp/out | wc -l)" = 2 ] || fail "asked otherwise than twice: $(cat /tmp/out)"
says "no keyslot opens with this passphrase"
! grep -q -e "$passphrase" -e zebra /tmp/out || fail "what was typed was shown: $(cat /tmp/out)"
close one other
echo "one UUID=$(uuid /dev/vdb) none tries=2" > /tmp/two
typing "wrong|again" --crypttab /tmp/two
[ "$status" = 2 ] || fail "status $status: $(cat /tmp/out)"
says "2 passphrases were wrong"
echo "one UUID=$(uuid /dev/vdb) none timeout=1" > /tmp/two
typing "" --crypttab /tmp/two
[ "$status" = 2 ] || fail "status $status: $(cat /tmp/out)"
says "no passphrase was typed in time"
unlock 2 --crypttab /tmp/two
says "no console to ask"
good "passphrases"

# Keys and headers on another device, which is left as it was; a missing one is told, and somebody is asked instead.
truncate -s 24M /tmp/stick
mke2fs -q -t ext4 -L stick /tmp/stick
mount -t ext4 -o loop /tmp/stick /mnt/a
cp /share/key /tmp/header.img /mnt/a
umount /mnt/a
sum=$(sha256sum < /tmp/stick)
losetup /dev/loop6 /tmp/stick
cat > /tmp/crypttab <<EOF
keyed UUID=$(uuid /dev/vda) /key:LABEL=stick
apart /dev/vdd /key:LABEL=stick header=/header.img:LABEL=stick
EOF
unlock 0 --crypttab /tmp/crypttab
holds keyed a; holds apart d
[ -z "$(grep atrest-mount /proc/mounts)" ] || fail "still mounted: $(cat /proc/mounts)"
close keyed apart
echo "keyed /dev/vda /key:LABEL=lost keyfile-timeout=1" > /tmp/two
unlock 2 --crypttab /tmp/two
says "the key's device LABEL=lost has not come within 1 s"
echo "keyed /dev/vda /nokey:LABEL=stick" > /tmp/two
unlock 2 --crypttab /tmp/two
says "the key file /nokey on /dev/loop6: No such file"
[ "$(sha256sum < /tmp/stick)" = "$sum" ] || fail "the stick was written to"
good "keys elsewhere"

# The kernel command line, in three dialects.
line() { # STATUS COMMAND LINE
    echo "$2" > /tmp/cmdline
    unlock "$1" --no-crypttab --cmdline /tmp/cmdline
}
a=$(uuid /dev/vda)
line 0 "quiet rd.luks.name=$a=systemd rd.luks.key=$a=/key:LABEL=stick rd.luks.options=$a=discard root=/dev/mapper/systemd"
holds systemd a
dmsetup table systemd | grep -q allow_discards || fail "$(dmsetup table systemd)"
close systemd
line 0 "rd.luks.uuid=luks-$(echo "$a" | cut -c 1-13) rd.luks.key=/key:LABEL=stick:UUID=$a"
holds "luks-$(echo "$a" | cut -c 1-13)" a
close "luks-$(echo "$a" | cut -c 1-13)"
line 0 "cryptdevice=LABEL=first:mkinitcpio:allow-discards cryptkey=rootfs:/share/key"
holds mkinitcpio a
close mkinitcpio
line 0 "cryptdevice=UUID=$a:mkinitcpio cryptkey=LABEL=stick:ext4:/key"
holds mkinitcpio a
close mkinitcpio
{ head -c 4096 /dev/urandom; cat /share/key; head -c 4096 /dev/urandom; } > /tmp/raw
truncate -s 64K /tmp/raw
losetup /dev/loop5 /tmp/raw
line 0 "cryptdevice=/dev/vda:mkinitcpio cryptkey=/dev/loop5:4096:$(wc -c < /share/key)"
holds mkinitcpio a
close mkinitcpio
losetup -d /dev/loop5
good "command lines"

# A device that comes late, one that never comes, and the boot that goes on without it.
echo "late PARTLABEL=late /share/second" > /tmp/crypttab
cp /share/disk.img /tmp/disk
dd if=/dev/vdb of=/tmp/disk bs=1M seek=1 conv=notrunc 2> /dev/null
(sleep 3; losetup -P /dev/loop4 /tmp/disk) &
unlock 0 --crypttab /tmp/crypttab
says "waiting for PARTLABEL=late"
holds late b
close late
losetup -d /dev/loop4
cat > /tmp/crypttab <<EOF
never UUID=$(uuid /dev/vdb | tr 0-9a-f 1-9a-f0) /share/second
keyed UUID=$a /share/key
EOF
unlock 4 --crypttab /tmp/crypttab --device-timeout 2
says "never: UUID=.* has not come within 2 s (/tmp/crypttab:1)"
holds keyed a
close keyed
sed -i 's/second$/second nofail,x-systemd.device-timeout=1/' /tmp/crypttab
unlock 0 --crypttab /tmp/crypttab
says "has not come within 1 s"
holds keyed a
close keyed
good "late devices"

# atrest-init as the first process of a name space of its own, whose root is a file system in memory.
cryptsetup open --key-file /share/key /dev/vde root
mke2fs -q -t ext4 -L system /dev/mapper/root
mount -t ext4 /dev/mapper/root /mnt/a
mkdir -p /mnt/a/sbin /mnt/a/bin /mnt/a/proc /mnt/a/sys /mnt/a/dev /mnt/a/run /mnt/a/old
cp /bin/busybox /mnt/a/bin/busybox
cat > /mnt/a/sbin/init <<'EOF'
#!/bin/busybox sh
echo "init of the encrypted root: $$ $*"
/bin/busybox grep ' / ' /proc/mounts
/bin/busybox ls /
EOF
chmod +x /mnt/a/sbin/init
umount /mnt/a
cryptsetup close root
mkdir -p /tmp/ram
boot() { # COMMAND LINE: what is said on standard output goes to /tmp/out
    mount -t tmpfs tmpfs /tmp/ram
    mkdir -p /tmp/ram/etc/keys /tmp/ram/lib64 /tmp/ram/lib /tmp/ram/proc
    cp /share/atrest-init /tmp/ram/init
    cp /usr/lib64/ld-linux-x86-64.so.2 /tmp/ram/lib64
    cp /share/libgcc_s.so.1 /usr/lib/x86_64-linux-gnu/libc.so.6 /tmp/ram/lib
    cp /share/key /tmp/ram/etc/keys/root
    echo "root LABEL=crypt-root /etc/keys/root" > /tmp/ram/etc/crypttab
    echo "$1" > /tmp/cmdline
    status=0
    unshare -m -p -f sh -c 'mount -t proc proc /tmp/ram/proc && mount --bind /tmp/cmdline /tmp/ram/proc/cmdline &&
        LD_LIBRARY_PATH=/lib exec chroot /tmp/ram /init single' > /tmp/out 2>&1 || status=$?
    left=$(ls /tmp/ram)
    umount -l /tmp/ram
}
boot "quiet root=/dev/mapper/root ro"
says "init of the encrypted root: 1 single"
says "/dev/mapper/root / ext4 ro"
[ "$(sed -n '/^bin$/,$p' /tmp/out | tr '\n' ' ')" = "bin dev lost+found old proc run sbin sys " ] || fail "$(cat /tmp/out)"
close root
boot "root=LABEL=system rw init=/bin/busybox rootflags=noatime -- x"
close root
boot "root=LABEL=system init=/sbin/missing rd.timeout=2"
[ "$status" = 1 ] || fail "status $status: $(cat /tmp/out)"
close root
good "init"
[ -z "$(dmsetup ls | grep -v 'No devices')" ] || fail "$(dmsetup ls)"
