# SPDX-License-Identifier: MIT OR Apache-2.0
"""Are the pages that are generated from the package up to date?

With PATERNOSTER_WRITE_NOTEBOOKS=1 the notebooks' outputs are written instead of compared.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CRATE = Path(__file__).parent.parent
ROOT = CRATE.parents[1]


def test_the_interface_is_told_as_it_is(tmp_path):
    """Is docs/python-api.md what `reference.py` generates from the sources?"""
    subprocess.run([sys.executable, CRATE / "reference.py", tmp_path / "page.md"], check=True)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert page == (ROOT / "docs/python-api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["fleet"])
def test_a_notebook_prints_what_it_shows(name, monkeypatch):
    """Does each cell, executed in order, print the output shown below it?"""
    monkeypatch.chdir(ROOT)
    path = CRATE / "notebooks" / f"{name}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("".join(cell["source"]), f"{name}, cell {number}", "exec"), names)
        text = out.getvalue().splitlines(keepends=True)
        found = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
        if os.environ.get("PATERNOSTER_WRITE_NOTEBOOKS") == "1":
            cell["outputs"] = found
        assert cell["outputs"] == found
    if os.environ.get("PATERNOSTER_WRITE_NOTEBOOKS") == "1":
        told = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(told, encoding="utf-8")
