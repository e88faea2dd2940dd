#!/bin/sh
# tree-manifest.sh DIR [TIME]: what is below a directory, a line for each fact, sorted. TIME is stat's format of the time of the
# last change of contents.
set -u
cd "$1" || exit 1
time=${2:-%Y}
{
    find . -type d ! -name lost+found -exec stat -c "d %f %u %g $time %n" {} +
    find . ! -type d -exec stat -c "f %f %u %g %s %t %T %h $time %n" {} +
    find . -type f -exec sha256sum {} +
    find . -type l -exec sh -c 'for link; do printf "l %s %s\n" "$link" "$(readlink "$link")"; done' sh {} +
} | LC_ALL=C sort
