#!/usr/bin/env bash
# Installs, upgrades, removes and purges the Debian package in a copy of this machine's Debian: deploy/packages/check.sh
#
# The copy is an overlay in memory, in namespaces of its own: nothing of this machine changes, and nothing is fetched. It needs root,
# namespaces and dpkg; without them it prints the reason and changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
skip() {
	echo "SKIPPED package check: $*"
	[ "${SKIPPED:-}" != fail ] || exit 1
	exit 0
}
command -v dpkg-deb >/dev/null || skip "no dpkg-deb: this is not Debian"
[ "$(id -u)" -eq 0 ] || skip "needs root"
unshare --mount --pid --fork true 2>/dev/null || skip "needs namespaces"

arch="$(dpkg --print-architecture)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
for version in 0.0.1 0.0.2; do
	deploy/packages/make.sh "$version" "$arch" >/dev/null
	mv "bin/packages/globalfs_${version}_$arch.deb" "$work/$version.deb"
	rm bin/packages/globalfs-"$version".*.rpm
done
cp deploy/packages/check_steps.sh "$work/steps"
unshare --mount --pid --fork bash -euc '
	mount -t tmpfs tmpfs /mnt
	mkdir /mnt/upper /mnt/work /mnt/root
	mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
	mkdir -p /mnt/root/tmp/package
	cp "$1"/* /mnt/root/tmp/package/
	mount -t proc proc /mnt/root/proc
	mount --bind /dev /mnt/root/dev
	exec chroot /mnt/root bash /tmp/package/steps' check "$work" >"$work.log" 2>&1 || {
	cat "$work.log"
	rm -f "$work.log"
	echo "package check: FAILED"
	exit 1
}
rm -f "$work.log"
echo "package check: installed, upgraded, removed and purged globalfs in a copy of $(. /etc/os-release && echo "$PRETTY_NAME")"
