#!/bin/sh
# A security key as a device of the kernel. /share is the root of the machine that starts the guest: its systemd, libfido2, cryptsetup and Python run
# in there, and write to memory alone. $1 is the directory with atrest and the key in software. Every part ends with a line "NAME: good".
set -eu
mkdir /tmp/all
cp "/share$1"/* /tmp/all
modprobe uhid
modprobe hid-generic
mount -o remount,bind,ro /share
mount -o bind /dev /share/dev
mount -t proc proc /share/proc
mount -t sysfs sysfs /share/sys
mount -t tmpfs tmpfs /share/tmp
mount -t tmpfs tmpfs /share/run
cp /tmp/all/* /share/tmp
cd /share/tmp
fail() { echo "fails: $*"; cat /share/tmp/said 2> /dev/null || true; dmesg | tail -n 5; exit 1; }
good() { echo "$*: good"; }
there() { chroot /share /bin/sh -c "cd /tmp && PATH=/usr/sbin:/usr/bin:/sbin:/bin && LC_ALL=C && export PATH LC_ALL && $1" > said 2>&1; }
plugged_in() { # FILE OF ITS SECRETS, PIN: a key in the place of the one before
    for process in key_pid device_pid; do
        [ ! -e $process ] || kill "$(cat $process)" 2> /dev/null || true
    done
    rm -f key.socket
    while [ -e /dev/hidraw0 ]; do sleep 0.1; done
    state="{\"path\": \"/tmp/key.socket\", \"state\": \"/tmp/$1\", \"pin\": $2, \"protocols\": [2, 1], \"touch\": true, \"fault\": null,"
    echo "$state \"options\": {\"up\": true, \"pinUvAuthToken\": true}}" > wanted
    # shellcheck disable=SC2016 # the shell in there is meant
    chroot /share /bin/sh -c 'echo $$ > /tmp/key_pid && exec /usr/bin/python3 /tmp/authenticator.py "$(cat /tmp/wanted)"' > key.log 2>&1 &
    while [ ! -S key.socket ]; do sleep 0.1; done
    # shellcheck disable=SC2016 # the shell in there is meant
    chroot /share /bin/sh -c 'echo $$ > /tmp/device_pid && exec /usr/bin/python3 /tmp/uhid.py /tmp/key.socket' > device.log 2>&1 &
    while [ ! -c /dev/hidraw0 ]; do sleep 0.1; done
}

printf passphrase > key
printf 1234 > pin
cost='--pbkdf pbkdf2 --pbkdf-force-iterations 1000'
there "./atrest format --yes --size 20M --key-file key $cost vol" || fail "the volume is not made"
plugged_in secrets null
good "the kernel has the device"

there "PASSWORD=passphrase systemd-cryptenroll --fido2-device=/dev/hidraw0 vol" || fail "systemd does not enrol"
there "./atrest key test vol --token-only --token-id 0" || fail "we do not open what systemd enrolled"
good "what systemd enrols opens here"

there "./atrest key add vol --key-file key --fido2" || fail "we do not enrol"
there "./atrest key test vol --token-only --token-id 1" || fail "we do not open what we enrolled"
there "cryptsetup open --test-passphrase --token-only --token-id 1 vol" || fail "systemd does not open what we enrolled"
good "what we enrol opens by systemd"

plugged_in secrets '"1234"'
there "./atrest key add vol --key-file key --fido2 --pin-file pin" || fail "we do not enrol with a PIN"
there "./atrest key test vol --token-only --token-id 2 --token-pin-file pin" || fail "we do not open by the PIN"
there "cryptsetup open --test-passphrase --token-only --token-id 2 vol < pin" || fail "systemd does not open by the PIN"
good "what we enrol with a PIN opens by systemd"

plugged_in others null
! there "./atrest key test vol --token-only --token-id 1" || fail "another key opens it"
grep -q "not for the security key that is plugged in" said || fail "it is not said that it is another key"
good "another key opens nothing"
