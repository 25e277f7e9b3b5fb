#!/usr/bin/env bash
# Builds bin/packages/globalfs_VERSION_ARCH.deb and globalfs-VERSION.ARCH.rpm: deploy/packages/make.sh VERSION [ARCH...]
#
# ARCH is amd64 or arm64 (default: both). TAR2RPM names the program that makes the .rpm files; without it only .deb files are made.
# dpkg-deb makes these. PROGRAM names a program for this machine that is built already: it is packaged, and ARCH is this machine's. Nothing is fetched. Man pages and completions are written by a program of this machine's architecture.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version="$1"
shift
[ $# -gt 0 ] || set -- amd64 arm64
[ -z "${PROGRAM:-}" ] || set -- "$(go env GOHOSTARCH)"
out=bin/packages
summary="Geo-distributed, strongly consistent POSIX file system"
details="One tree over several cloud regions, ordered by atomic multicast."

build() {
	if [ -n "${PROGRAM:-}" ]; then
		cp "$PROGRAM" "$2"
		return
	fi
	CGO_ENABLED=0 GOOS=linux GOARCH="$1" go build -trimpath -ldflags='-s -w' -o "$2" ./cmd/globalfs
}

# deb makes the .deb of the tree in root.
deb() {
	local arch="$1" root="$2"
	install -d "$root/DEBIAN"
	cat >"$root/DEBIAN/control" <<-CONTROL
		Package: globalfs
		Version: $version
		Architecture: $arch
		Maintainer: GlobalFS developers <packages@globalfs.invalid>
		Section: admin
		Priority: optional
		Recommends: fuse3
		Suggests: etcd-server
		Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
		Description: $summary
		 $details
	CONTROL
	echo /etc/globalfs/cluster.yaml.example >"$root/DEBIAN/conffiles"
	install -m 755 deploy/packages/postinstall.sh "$root/DEBIAN/postinst"
	install -m 755 deploy/packages/preremove.sh "$root/DEBIAN/prerm"
	install -m 755 deploy/packages/postremove.sh "$root/DEBIAN/postrm"
	dpkg-deb --root-owner-group -Zgzip -z6 --build "$root" "$out/globalfs_${version}_$arch.deb" >/dev/null
	rm -r "$root/DEBIAN"
}

# rpm makes the .rpm of the tree in root. The directories of other packages are not in it.
rpm() {
	local arch="$1" root="$2"
	printf '%s\n' /etc/globalfs /etc/globalfs/certs >"$root.dirs"
	tar -C "$root" --owner=root --group=root --sort=name -cf "$root.tar" .
	"$TAR2RPM" -name globalfs -version "$version" -release 1 -arch "$arch" -summary "$summary" -description "$details" -licence Apache-2.0 \
		-recommends fuse3 -postin "$(cat deploy/packages/postinstall.sh)" -preun "$(cat deploy/packages/preremove.sh)" \
		-postun "$(cat deploy/packages/postremove.sh)" -use_dir_allowlist -dir_allowlist_file "$root.dirs" \
		-file "$out/globalfs-$version.$arch.rpm" "$root.tar"
	rm "$root.tar" "$root.dirs"
}

mkdir -p "$out"
work="$(mktemp -d "$out/work.XXXXXX")"
trap 'rm -rf "$work"' EXIT
build "$(go env GOHOSTARCH)" "$work/globalfs"
"$work/globalfs" init --name prod --etcd https://etcd1.example.com:2379 "$work/cluster.yaml.example" >/dev/null
for arch in "$@"; do
	root="$work/$arch"
	deploy/install.sh "$work/globalfs" "$root" /usr
	build "$arch" "$root/usr/bin/globalfs"
	gzip -9n "$root"/usr/share/man/man1/*.1
	install -D -m 644 "$work/cluster.yaml.example" "$root/etc/globalfs/cluster.yaml.example"
	install -d -m 750 "$root/etc/globalfs/certs"
	deb "$arch" "$root"
	[ -z "${TAR2RPM:-}" ] || rpm "$([ "$arch" = amd64 ] && echo x86_64 || echo aarch64)" "$root"
done
ls -1 "$out"/globalfs[_-]"$version"*
