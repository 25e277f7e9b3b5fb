#!/usr/bin/env bash
# Builds bin/packages/globalfs_VERSION_ARCH.deb and globalfs-VERSION.ARCH.rpm: deploy/packages/make.sh VERSION [ARCH...]
#
# ARCH is amd64 or arm64 (default: both). NFPM names the program that makes the packages by nfpm.yaml. Nothing is fetched. Man pages and
# completions are written by a program of this machine's architecture.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export VERSION="$1" RELEASE="" ARCH TREE
shift
[ $# -gt 0 ] || set -- amd64 arm64
out=bin/packages
# The files in the packages have the time of the commit.
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct 2>/dev/null || date -u -d 00:00 +%s)"
export SOURCE_DATE_EPOCH

build() {
	CGO_ENABLED=0 GOOS=linux GOARCH="$1" go build -trimpath -buildvcs=auto -ldflags="-s -w -X github.com/globalfs/globalfs/internal/command.version=$VERSION" -o "$2" ./cmd/globalfs
}

# pack makes the package of a format as a file.
pack() {
	local said
	said="$("$NFPM" package --config deploy/packages/nfpm.yaml --packager "$1" --target "$2" 2>&1)" || { echo "$said" >&2; return 1; }
}

mkdir -p "$out"
work="$(mktemp -d "$out/work.XXXXXX")"
trap 'rm -rf "$work"' EXIT
build "$(go env GOHOSTARCH)" "$work/globalfs"
for ARCH in "$@"; do
	TREE="$work/$ARCH"
	deploy/install.sh "$work/globalfs" "$TREE" /usr
	"$work/globalfs" init --name prod --etcd https://etcd1.example.com:2379 "$TREE/cluster.yaml.example" >/dev/null
	[ "$ARCH" = "$(go env GOHOSTARCH)" ] || build "$ARCH" "$TREE/usr/bin/globalfs"
	gzip -9n "$TREE"/usr/share/man/man1/*.1
	pack deb "$out/globalfs_${VERSION}_$ARCH.deb"
	RELEASE=1 pack rpm "$out/globalfs-$VERSION.$([ "$ARCH" = amd64 ] && echo x86_64 || echo aarch64).rpm"
done
ls -1 "$out"/globalfs[_-]"$VERSION"*
