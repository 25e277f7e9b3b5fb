#!/usr/bin/env bash
# Photographs pages of bin/site in Chromium at two widths: deploy/docs/screenshots.sh OUT [PAGE...]
#
# OUT gets PAGE-wide.png (1280 pixels) and PAGE-narrow.png (500 pixels, the least that Chromium's window has). Without
# pages it photographs the home page. Chromium is Debian's package chromium. `make docs` makes the site.
set -euo pipefail
out="$(realpath "$1")"
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -gt 0 ] || set -- ''
profile="$(mktemp -d)"
python3 -c 'if True:
	import functools, http.server, sys
	handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="bin/site")
	server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
	print(server.server_port, flush=True)
	server.serve_forever()' >"$profile/port" 2>/dev/null &
server=$!
trap 'kill "$server"; rm -rf "$profile"' EXIT
until [ -s "$profile/port" ]; do kill -0 "$server" && read -rt 0.1 <> <(:) || true; done

photograph() {
	chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
		--disable-component-update --disable-sync --hide-scrollbars --virtual-time-budget=5000 --user-data-dir="$profile/chromium" \
		--window-size="$1" --screenshot="$out/$2" "http://127.0.0.1:$(cat "$profile/port")/$3" 2>"$profile/log" ||
		{ cat "$profile/log" >&2; return 1; }
}

for page; do
	name="${page%/}"
	name="${name##*/}"
	photograph 1280,900 "${name:-site}-wide.png" "$page"
	photograph 500,900 "${name:-site}-narrow.png" "$page"
done
ls -l "$out"/*.png
