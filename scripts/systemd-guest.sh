#!/bin/bash
# Runs inside the container of scripts/try-systemd, as a service of its systemd: installs the package and uses what it has for systemd.
set -euo pipefail
cd /try
export LC_ALL=C

fail() { echo "fails: $*"; journalctl --no-pager > /try/journal || true; exit 1; }
holds() { echo "holds: $*"; }
until_it() { # COMMAND...: waits until it is so
    for _ in {1..300}; do
        ! "$@" > /dev/null 2>&1 || return 0
        sleep 0.1
    done
    fail "after 30 seconds still not: $*"
}
never() { ! "$@" > /dev/null 2>&1 || fail "this holds: $*"; }
is_open() { atrest status | grep --quiet "$1"; }
trap 'fail "line $LINENO"' ERR

dpkg --install first.deb >&2
systemctl cat atrest@photos.service > /dev/null
holds "after the installation systemd knows the unit, without a word from anybody"

umask 077
mkdir content
echo 'buy milk' > content/note
head -c 32 /dev/urandom > key
atrest image content card.img --type flash --size 1M --key-file key >&2
atrest format --size 24M --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key volume >&2
cp volume other
head -c 1M /dev/urandom > data

# The line of fstab, as docs/CONFIG.md has it.
mkdir /srv/photos
echo '/try/card.img /srv/photos atrest nofail,key-file=/try/key 0 0' >> /etc/fstab
systemctl daemon-reload
systemctl start srv-photos.mount
[ "$(cat /srv/photos/note)" = 'buy milk' ]
[ "$(findmnt --noheadings --output FSTYPE /srv/photos)" != "" ]
echo eggs > /srv/photos/more
systemctl stop srv-photos.mount
never mountpoint --quiet /srv/photos
systemctl start local-fs.target
# Files can be seen a moment before systemd knows of it, which would end the mount program at a stop.
until_it systemctl is-active --quiet srv-photos.mount
mountpoint --quiet /srv/photos
[ "$(cat /srv/photos/more)" = eggs ]
systemctl stop srv-photos.mount
holds "a line of fstab of the type atrest is mounted by systemd, and unmounted"

# The unit of the system, with a key file and with a credential.
mkdir /etc/atrest
printf 'VOLUME=/try/volume\nOPTIONS=--nbd=/run/photos.socket\nKEY=--key-file /try/key\n' > /etc/atrest/photos.conf
systemctl enable --now atrest@photos.service >&2
systemctl is-active --quiet atrest@photos.service
nbdcopy data 'nbd+unix:///?socket=/run/photos.socket'
systemctl stop atrest@photos.service
never is_open /try/volume
atrest decrypt --key-file key volume plain >&2
cmp --bytes=1048576 plain data
journalctl --unit atrest@photos.service | grep --quiet 'ready nbd+unix:'
never sh -c "journalctl --unit atrest@photos.service | grep --ignore-case warning"
holds "the unit of the system serves a volume, and closes it in order"

# As docs/PACKAGES.md has it.
mkdir -p /etc/credstore.encrypted
systemd-creds encrypt key /etc/credstore.encrypted/atrest.other >&2
printf 'VOLUME=/try/other\n' > /etc/atrest/other.conf
systemctl start atrest@other.service
is_open /try/other
holds "without a line KEY the unit takes the credential of its name"

# An upgrade leaves it open; the removal closes it.
process=$(systemctl show --property MainPID --value atrest@other.service)
dpkg --install second.deb >&2
[ "$(systemctl show --property MainPID --value atrest@other.service)" = "$process" ]
is_open /try/other
holds "an upgrade goes by while a volume is open, which is served on"

# At login: the unit that the command writes, for a user who logs in.
useradd --create-home me
install -d -o me -g me /home/me/files
install -o me -g me -m 600 card.img volume key /home/me/
loginctl enable-linger me
me() { runuser --user me -- env HOME=/home/me XDG_RUNTIME_DIR="/run/user/$(id -u me)" DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/$(id -u me)/bus" "$@"; }
until_it me systemctl --user show-environment
cd /home/me
me atrest mount card.img files --at-login --key-file key --name photos >&2
me systemctl --user daemon-reload
me systemctl --user enable --now atrest-photos.service >&2
[ "$(me cat files/note)" = 'buy milk' ]
systemctl restart "user@$(id -u me).service"
until_it me cat files/note
[ "$(me cat files/more)" = eggs ]
me systemctl --user stop atrest-photos.service
never mountpoint --quiet files
holds "mount --at-login mounts a user's files, and again at the next login"

mkdir -p .config/atrest
printf 'VOLUME=/home/me/volume\nOPTIONS=--nbd\nKEY=--key-file /home/me/key\n' > .config/atrest/files.conf
chown -R me:me .config
chmod -R u=rwX,go= .config
me systemctl --user start atrest@files.service
me atrest status | grep --quiet /home/me/volume
me systemctl --user stop atrest@files.service
holds "the unit of users serves a volume"

cd /try
dpkg --remove atrest >&2
never systemctl is-active --quiet atrest@other.service
never kill -0 "$process"
never systemctl cat atrest@other.service
holds "the removal closes what the units serve, and systemd forgets them"

# Open when the machine is shut down: scripts/try-systemd looks for the file afterwards.
dpkg --install second.deb >&2
systemctl start srv-photos.mount
echo cheese > /srv/photos/last
echo "all held"
