#!/usr/bin/env python3
"""Draws the output of a command as an SVG image: terminal.py TITLE COLUMNS <OUTPUT >FILE

It understands colours and bold text (SGR) and carriage returns. Longer lines are cut at COLUMNS.
"""

import html
import re
import sys

COLOURS = {"31": "#f85149", "32": "#3fb950", "33": "#d29922", "34": "#58a6ff", "36": "#39c5cf"}
WIDTH, HEIGHT, MARGIN = 7.25, 17, 14


def spans(line):
    """Yields the pieces of a line with their style."""
    style = {}
    for text, codes in re.findall(r"([^\x1b]*)(?:\x1b\[([\d;]*)m)?", line):
        if text:
            yield text, dict(style)
        for code in (codes or "").split(";"):
            if code in ("", "0"):
                style = {} if text != line else style
            elif code == "1":
                style["font-weight"] = "bold"
            elif code in COLOURS:
                style["fill"] = COLOURS[code]


def main():
    title, columns = sys.argv[1], int(sys.argv[2])
    lines = [line.split("\r")[-1] for line in sys.stdin.read().replace("\r\n", "\n").rstrip("\n").split("\n")]
    lines.insert(0, f"\x1b[36m$ {title}\x1b[0m")
    width, height = 2 * MARGIN + columns * WIDTH, 2 * MARGIN + len(lines) * HEIGHT
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img">')
    print(f"<title>{html.escape(title)}</title>")
    print(f'<rect width="100%" height="100%" rx="6" fill="#0d1117"/>')
    print('<g font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="12" fill="#e6edf3">')
    for number, line in enumerate(lines):
        left = 0
        for text, style in spans(line):
            text = text[: max(columns - left, 0)]
            if text.strip():
                attributes = "".join(f' {name}="{value}"' for name, value in style.items())
                print(
                    f'<text x="{MARGIN + left * WIDTH:.1f}" y="{MARGIN + (number + 0.75) * HEIGHT:.1f}"{attributes} '
                    f'textLength="{len(text) * WIDTH:.1f}" xml:space="preserve">{html.escape(text)}</text>'
                )
            left += len(text)
    print("</g>\n</svg>")


main()
