"""Hook of mkdocs: links of pages to files of the repository that are no pages lead to the source code.

A link to a file that does not exist is an error: mkdocs runs with --strict. mkdocs itself checks the links
between pages and their anchors.
"""

import logging
import posixpath
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = "https://github.com/globalfs/globalfs"
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^\s*```")
log = logging.getLogger("mkdocs.plugins.links")


def on_page_markdown(markdown, page, config, files):
    """Replaces the links of a page outside of its code blocks."""
    directory = posixpath.dirname(page.file.src_uri)

    def replace(match):
        target, anchor = match[2], match[3] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(directory, target))
        if files.get_file_from_path(path):
            return match[0]
        there = REPOSITORY / path
        if path.startswith("..") or not there.exists():
            log.warning("%s: the link %s leads to no file of the repository", page.file.src_uri, target)
            return match[0]
        kind = "tree" if there.is_dir() else "blob"
        return f"{match[1]}{SOURCE}/{kind}/main/{path}{anchor}{match[4]}"

    lines, code = [], False
    for line in markdown.split("\n"):
        if FENCE.match(line):
            code = not code
        lines.append(line if code else LINK.sub(replace, line))
    return "\n".join(lines)
