#!/usr/bin/env bash
# Installs GlobalFS below a directory: deploy/install.sh PROGRAM ROOT [PREFIX]
#
# PREFIX is /usr/local, or /usr for packages. Nothing is started.
set -euo pipefail
program="$1" root="${2%/}" prefix="${3:-/usr/local}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

put() { install -D -m "$1" "$2" "$root$3"; }
units=/usr/lib/systemd/system
[ "$prefix" = /usr ] || units=/etc/systemd/system

put 755 "$program" "$prefix/bin/globalfs"
# mount(8) looks for helpers in /sbin only. In packages /sbin is /usr/sbin. The kernel's name of the type is
# fuse.globalfs: 'mount -o remount' looks for its helper.
sbin=/sbin
[ "$prefix" != /usr ] || sbin=/usr/sbin
mkdir -p "$root$sbin"
for type in globalfs fuse.globalfs; do ln -sfn "$prefix/bin/globalfs" "$root$sbin/mount.$type"; done

sed "s|/usr/local/bin/globalfs|$prefix/bin/globalfs|" deploy/systemd/globalfs@.service | install -D -m 644 /dev/stdin "$root$units/globalfs@.service"
put 644 deploy/systemd/globalfs.sysusers.conf /usr/lib/sysusers.d/globalfs.conf

mkdir -p "$root$prefix/share/man/man1"
"$program" man "$root$prefix/share/man/man1"
"$program" completion bash | install -D -m 644 /dev/stdin "$root$prefix/share/bash-completion/completions/globalfs"
"$program" completion zsh | install -D -m 644 /dev/stdin "$root$prefix/share/zsh/site-functions/_globalfs"
"$program" completion fish | install -D -m 644 /dev/stdin "$root$prefix/share/fish/vendor_completions.d/globalfs.fish"
put 644 LICENSE "$prefix/share/doc/globalfs/copyright"
put 644 deploy/prometheus/alerts.yml "$prefix/share/doc/globalfs/alerts.yml"
