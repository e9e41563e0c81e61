# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does each link of a book lead somewhere? `python3 checks/links.py FOLDER` reads the pages of a built site.

A link must find its page, and the anchor in it if it names one. Links to other sites are only
counted.
"""

import os
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links = set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places.update(found[key] for key in ("id", "name") if found.get(key))
        self.links += [found[key] for key in ("href", "src") if found.get(key)]


def main(root):
    paths = [os.path.join(at, name) for at, _, names in os.walk(root) for name in names if name.endswith(".html")]
    # Pages that mdBook adds itself are not the book's, and have addresses that depend on the site.
    pages = {path: Page(path) for path in paths if os.path.basename(path) not in ("404.html", "toc.html")}
    wrong, inside, outside = [], 0, 0
    for path, page in sorted(pages.items()):
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                outside += 1
                continue
            inside += 1
            to = os.path.normpath(os.path.join(os.path.dirname(path), unquote(parts.path))) if parts.path else path
            place = unquote(parts.fragment)
            shown = f"{os.path.relpath(path, root)}: {link}"
            if not os.path.exists(to):
                wrong.append(f"{shown}: there is nothing")
            elif place and to in pages and place not in pages[to].places:
                wrong.append(f"{shown}: the page has no such place")
    print("\n".join(wrong + [f"{len(pages)} pages, {inside} links within, {outside} to elsewhere, {len(wrong)} wrong"]))
    return 1 if wrong or not pages else 0


sys.exit(main(sys.argv[1]))
