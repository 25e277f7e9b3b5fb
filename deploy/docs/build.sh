#!/usr/bin/env bash
# Builds the site of the documentation: deploy/docs/build.sh MKDOCS
#
# bin/site-pages gets the pages and figures that git knows, in their directories of the repository. bin/site gets the
# site. A link to a page, a heading or a file that does not exist fails the build, and so does a page without a place
# in the navigation.
set -euo pipefail
mkdocs="$1"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

pages=bin/site-pages
rm -rf "$pages" bin/site
mkdir -p "$pages"
git ls-files -co --exclude-standard -- '*.md' docs/images bench/results/'*.svg' bench/results/'*.txt' bench/results/'*.json' deploy/docs/site.css |
	while read -r file; do [ ! -e "$file" ] || cp --parents "$file" "$pages"; done
NO_MKDOCS_2_WARNING=1 "$mkdocs" build --strict --config-file deploy/docs/mkdocs.yml
printf 'bin/site/index.html: %d pages\n' "$(find bin/site -name index.html | wc -l)"
