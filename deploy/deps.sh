#!/usr/bin/env bash
# Installs what is missing to build, run or test GlobalFS from its sources on Debian or Ubuntu:
#
#   deploy/deps.sh go             nothing: says how to get Go if it is missing or too old
#   deploy/deps.sh run            FUSE's mount helper
#   deploy/deps.sh test           that, a C compiler, systemd-analyze, the file system testers pjdfstest and fsx,
#                                 an S3 server, and etcd
#   deploy/deps.sh tool F M@V     the Go program of module M, version V, as file F
#   deploy/deps.sh python D R     the Python packages of the requirements file R, as the environment D
#
# A tool that cannot be installed without root or network is named with the command that installs it.
# For run and test the script then goes on: the mount names the missing helper, and tests without their
# tool are skipped. With SKIPPED=fail in the environment a tool that is missing for a test is an error.
set -euo pipefail

cache="${XDG_CACHE_HOME:-$HOME/.cache}/globalfs"
testers="$cache/posixtest" # test/posix looks here too
pjdfstest_version=0.2.2
fsx_version=0.3.2
s3_server=versitygw@v1.8.0 # internal/block/objects/objectstest looks for this version in tools
min_rust=1.85 # of pjdfstest
min_go=1.21   # from here on Go fetches the toolchain that go.mod names

say() { printf 'deps: %s\n' "$*" >&2; }

# as_root runs a command as root, if that needs no password.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo -n "$@"
	else
		return 1
	fi
}

apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 "$@" </dev/null >/dev/null
}

# apt_install installs Debian packages; on failure it names the command.
apt_install() {
	if ! command -v apt-get >/dev/null; then
		say "not Debian or Ubuntu: please install the equivalent of: $*"
		return 1
	fi
	say "installing $*"
	apt_get install --no-install-recommends "$@" 2>/dev/null && return 0
	apt_get update && apt_get install --no-install-recommends "$@" && return 0
	say "could not install; please run: sudo apt-get update && sudo apt-get install -y $*"
	return 1
}

# at_least is true if version $1 is $2 or later.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

need_go() {
	local version
	if ! version="$(go env GOVERSION 2>/dev/null)"; then
		version=go0
	fi
	if ! at_least "${version#go}" "$min_go"; then
		say "Go $min_go or later is needed (found: ${version#go}): see https://go.dev/doc/install"
		return 1
	fi
}

need_fuse() {
	command -v fusermount3 >/dev/null || apt_install fuse3 || true
	[ -e /dev/fuse ] || as_root modprobe fuse 2>/dev/null || true
	[ -e /dev/fuse ] || say "there is no /dev/fuse, so nothing can be mounted." \
		"On a machine of your own: sudo modprobe fuse. In a container: --device /dev/fuse --cap-add SYS_ADMIN"
}

# without reports that the tests of a missing tool will be skipped. With SKIPPED=fail it fails.
without() {
	say "no $1: its tests will be skipped.${2:+ $2}"
	[ "${SKIPPED:-}" != fail ] || { say "SKIPPED=fail: that is an error"; return 1; }
}

# retried runs a command that downloads up to three times.
retried() {
	local attempt
	for attempt in 1 2 3; do
		"$@" && return 0
		[ "$attempt" -eq 3 ] || sleep "$((attempt * 5))"
	done
	return 1
}

# rust_of prints the version of a cargo or rustc, or nothing. rustup's cargo fails without a default toolchain.
rust_of() { "$1" --version 2>/dev/null | awk 'NR == 1 { print $2 }' || true; }

# new_cargo prints the path of a cargo that builds the testers: it and the rustc beside it are new enough.
new_cargo() {
	local cargo
	for cargo in "$(command -v cargo || true)" "$HOME/.cargo/bin/cargo" /usr/bin/cargo; do
		if [ -x "$cargo" ] && at_least "$(rust_of "$cargo")" "$min_rust" && at_least "$(rust_of "${cargo%/*}/rustc")" "$min_rust"; then
			printf '%s\n' "$cargo"
			return 0
		fi
	done
	return 1
}

# build_tester builds a tester with a cargo. The rustc beside that cargo comes first: cargo takes rustc from PATH,
# and there it may be the one of rustup, which has no toolchain.
build_tester() { PATH="${1%/*}:$PATH" "$1" install --quiet --locked --force --root "$testers" --version "$3" "$2" </dev/null; }

# need_cargo installs the first package of the distribution that is new enough: Debian 12's cargo
# is 1.63, but it has a recent one for building browsers, cargo-web.
need_cargo() {
	new_cargo >/dev/null && return 0
	local package version
	command -v apt-get >/dev/null && apt_get update 2>/dev/null || true
	for package in cargo cargo-web; do
		version="$(apt-cache policy "$package" 2>/dev/null | awk '/Candidate:/ { print $2 }')"
		at_least "${version:-0}" "$min_rust" && apt_install "$package" && return 0
	done
	say "no Rust $min_rust or later: see https://rustup.rs"
	return 1
}

# need_tester builds one of the testers, once.
need_tester() {
	local name="$1" version="$2" cargo
	[ "$("$testers/bin/$name" --version 2>/dev/null)" = "$name $version" ] && return 0
	if need_cargo && cargo="$(new_cargo)"; then
		say "building $name $version (once, into $testers)"
		retried build_tester "$cargo" "$name" "$version" && return 0
	fi
	without "$name"
}

# need_tool builds a Go program outside of this module, once.
need_tool() {
	local file="$1" module="$2" dir
	[ -x "$file" ] && return 0
	say "building $module (once, into ${file%/*})"
	mkdir -p "${file%/*}"
	dir="$(mktemp -d "${file%/*}/build.XXXXXX")"
	if ! { retried env GOBIN="$dir" GOFLAGS= go install "$module" && mv "$dir"/* "$file"; }; then
		rm -rf "$dir"
		return 1
	fi
	rmdir "$dir"
}

# need_python makes an environment with Python packages in their published form, once.
need_python() {
	local dir="$1" requirements="$2"
	[ -x "$dir/bin/python" ] && cmp -s "$requirements" "$dir/requirements.txt" && return 0
	python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv || return 1
	say "installing the packages of $requirements (once, into $dir)"
	rm -rf "$dir"
	python3 -m venv "$dir"
	retried "$dir/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --no-deps --requirement "$requirements" || return 1
	cp "$requirements" "$dir/requirements.txt"
}

# need_s3 builds an S3 server, once.
need_s3() {
	need_tool "$cache/tools/$s3_server" "github.com/versity/versitygw/cmd/$s3_server" || without "S3 server"
}

# fetch_package unpacks a Debian package into a directory, which needs no root and starts no service.
fetch_package() (
	cd "$2" || return 1
	apt-get -qq download "$1" >/dev/null 2>&1 || { apt_get update && apt-get -qq download "$1" >/dev/null 2>&1; } || return 1
	dpkg-deb -x ./*.deb .
)

# need_etcd fetches Debian's etcd, once. It is not installed: the package would run a service of its own.
need_etcd() {
	local dir
	if command -v etcd >/dev/null || [ -x "$cache/tools/etcd" ]; then
		return 0
	fi
	mkdir -p "$cache/tools"
	dir="$(mktemp -d "$cache/tools/build.XXXXXX")"
	say "fetching etcd (once, into $cache/tools)"
	if ! { retried fetch_package etcd-server "$dir" && mv "$dir/usr/bin/etcd" "$cache/tools/etcd"; }; then
		rm -rf "$dir"
		without "etcd in PATH" "See https://etcd.io/docs/latest/install"
		return
	fi
	rm -rf "$dir"
}

case "${1:-}" in
go) need_go ;;
run) need_fuse ;;
test)
	need_go
	need_fuse
	command -v cc >/dev/null || apt_install gcc libc6-dev || true
	command -v systemd-analyze >/dev/null || apt_install systemd || true
	need_tester pjdfstest "$pjdfstest_version"
	need_tester fsx "$fsx_version"
	had="$(ls "$cache/tools" 2>/dev/null || true)"
	need_s3
	need_etcd
	# Go's cache may have results of tests that were skipped without these tools.
	[ "$(ls "$cache/tools")" = "$had" ] || go clean -testcache
	;;
tool) need_tool "$2" "$3" ;;
python) need_python "$2" "$3" ;;
*)
	say "usage: deploy/deps.sh go | run | test | tool FILE MODULE@VERSION | python DIR REQUIREMENTS"
	exit 2
	;;
esac
