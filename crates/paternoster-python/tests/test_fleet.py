# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does each trace become a row, with figures that can be checked by hand?"""

from pathlib import Path

import pytest
from conftest import program

import paternoster_io as pt

EXCERPT = Path(__file__).parents[2] / "paternoster-trace/tests/samples/mysql-excerpt.load"


def test_figures_are_those_of_the_trace(tmp_path):
    """Are the figures right for four I/Os in 3 s (1 KiB in sequence, a jump, a pause), with one row
    for each file, in order?"""
    head = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n"
    lines = ["0.0 ; 0 ; 2 ; R", "0.05 ; 2 ; 2 ; R", "0.1 ; 100 ; 2 ; W", "3.0 ; 8 ; 2 ; W"]
    text = head + "".join(f"{line} ; 0.0 ; 0.0\n" for line in lines)
    (tmp_path / "b.load").write_text(text)
    (tmp_path / "a.load").write_text(text)
    (tmp_path / "no.load").write_text("nothing\n")
    found = pt.fleet(tmp_path / "*.load", device="hdd-7200", scheduler=["none", "bfq"])
    rows = found.rows()
    assert [Path(row["trace"]).name for row in rows] == ["a.load", "b.load", "no.load"]
    row = rows[0]
    assert {**rows[1], "trace": row["trace"]} == row
    assert (row["ios"], row["bytes"], row["length_ns"]) == (4, 4096, 3_000_000_000)
    assert row["iops"] == pytest.approx(4 / 3)
    assert (row["reads"], row["read_bytes"], row["mean_bytes"]) == (0.5, 0.5, 1024)
    # Two of three do not begin where the previous one ended.
    assert row["seekiness"] == pytest.approx(2 / 3)
    # 2.9 of 3 s; 3, 0, 0 and 1 in four seconds: mean 1, squares 10/4.
    assert row["idle"] == pytest.approx(2.9 / 3)
    assert (row["burstiness"], row["peak_iops"]) == (1.5, 3.0)
    # The trace has no completions.
    assert (row["recorded_p99_ns"], row["likeness"], row["waited"]) == (None, None, None)
    assert row["none_p99_ns"] > 0 and row["best"] in ("none", "bfq")
    assert rows[2]["error"].startswith("RequestError: ") and rows[2]["ios"] is None


def test_a_model_is_like_its_own_recording(tmp_path):
    """Does a model predict its own recording, and another model predict it less well?"""
    told = program("run", "--name=reader", "--rw=randread", "--size=1m", "--direct=1", "-q",
                   "--device=hdd-7200", "--scheduler=bfq", f"--trace={tmp_path}/t")  # fmt: skip
    assert told.returncode == 0
    own, other = (
        pt.fleet([tmp_path / "t"], device=device, scheduler="bfq").rows()[0]
        for device in ("hdd-7200", "ssd-870evo")
    )
    assert own["likeness"] == 1.0 and other["likeness"] < 0.5
    assert own["ios"] == 256 and own["waited"] in ("reader", None)


def test_an_excerpt_of_a_real_load():
    """Do figures of 60 I/Os of a database server agree with a script's? 58 writes; 461824 bytes."""
    row = pt.fleet(str(EXCERPT), scheduler=["none"]).rows()[0]
    assert (row["ios"], row["bytes"], row["reads"]) == (60, 461_824, 2 / 60)
    assert row["error"] is None and row["none_p99_ns"] > 0


def test_urls_are_fetched():
    """Are URLs that fsspec knows fetched, and is a pattern without a match refused?"""
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://loads/x.load", "wb") as file:
        file.write(EXCERPT.read_bytes())
    row = pt.fleet("memory://loads/*.load", scheduler=["none"]).rows()[0]
    assert (row["trace"], row["ios"], row["error"]) == ("memory:///loads/x.load", 60, None)
    with pytest.raises(pt.RequestError, match="nothing matches"):
        pt.fleet("/nowhere/*.load")


def test_urls_that_give_nothing_are_told():
    """Are a pattern without a match, an unknown protocol, and a store whose library is missing
    refused with the URL, and does a missing file become a row with an error?"""
    pytest.importorskip("fsspec")
    for url in ("memory://nothing/*.load", "nope://x", "s3://bucket/*.load"):
        with pytest.raises(pt.RequestError, match=url.split("*")[0]):
            pt.fleet(url)
    row = pt.fleet("memory://loads/none.load").rows()[0]
    assert row["error"].startswith("RequestError: memory:///loads/none.load: FileNotFoundError")
