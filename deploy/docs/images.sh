#!/usr/bin/env bash
# Makes the images of docs/images: deploy/docs/images.sh GLOBALFS
#
# `globalfs dev` with real delays runs status and place --wait, and their outputs become SVG images. Chromium
# photographs the site at two widths, if `make docs` has made it. It needs root, /dev/fuse, script(1) and, for
# the photographs, chromium.
set -euo pipefail
globalfs="$(realpath "$1")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work="$(mktemp -d)"
export PATH="${globalfs%/*}:$PATH" HOME="$work" TERM=xterm
drawn="$PWD/docs/images"
draw() { python3 deploy/docs/terminal.py "$@"; }

(cd "$work" && exec "$globalfs" dev --wan --data-dir "$work/cluster" --mount "us-west-2=$work/oregon") >"$work/log" 2>&1 &
dev=$!
trap 'kill -INT "$dev" 2>/dev/null; wait "$dev"; rm -rf "$work"' EXIT
until grep -q '^ready' "$work/log"; do kill -0 "$dev"; read -rt 0.2 <> <(:) || true; done

mkdir -p "$work/oregon/us-west-2/photos"
for i in $(seq 600); do echo "$i" >"$work/oregon/us-west-2/photos/$i.jpg"; done
head -c 64M /dev/urandom >"$work/oregon/us-east-1/data"
command='globalfs place --region eu-west-1 --wait oregon/us-west-2/photos'
(cd "$work" && $command) >"$work/place" 2>&1 # without a terminal: lines instead of a bar
draw "$command" 118 <"$work/place" >"$drawn/place.svg"

command='globalfs status --config cluster/cluster.yaml'
(cd "$work" && script -qc "$command --settled --wait 2m" /dev/null) </dev/null >"$work/status"
draw "$command" 120 <"$work/status" >"$drawn/status.svg"

if [ -e bin/site/index.html ]; then
	deploy/docs/screenshots.sh "$drawn" ''
fi
ls -l "$drawn"
