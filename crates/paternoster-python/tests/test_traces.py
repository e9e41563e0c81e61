# SPDX-License-Identifier: MIT OR Apache-2.0
"""Are traces read, summarised and replayed as the program does it?"""

import pytest
from conftest import documents, program

import paternoster_io as pt


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace of a run, in blktrace's format."""
    folder = tmp_path_factory.mktemp("trace")
    told = program(
        "run", "--name=a", "--rw=randread", "--bs=4k", "--size=1m", "--direct=1", "--number_ios=99",
        "--device=ssd-870evo", "--scheduler=noop", "-q", f"--trace={folder}/t",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return folder / "t.blktrace.0"


def test_events_come_in_batches(trace):
    """Are there 99 arrivals and completions of 4 KiB, in order of time, in batches of ten?"""
    batches = list(pt.open_trace(trace, batch=10))
    assert all(len(batch) == 10 for batch in batches[:-1])
    rows = [row for batch in batches for row in batch.rows()]
    for action in "QDC":
        own = [row for row in rows if row["action"] == action]
        assert len(own) == 99 and {(row["op"], row["bytes"]) for row in own} == {("read", 4096)}
    times = [row["time_ns"] for row in rows]
    assert times == sorted(times)
    assert "a" in {row["process"] for row in rows if row["action"] == "Q"}


def test_the_summary_is_the_program_s(trace):
    """Is the summary equal to the JSON of `analyze`?"""
    told = program("analyze", str(trace), "--format=json")
    with pt.open_trace(trace) as opened:
        assert [opened.summary()] == documents(told.stdout)[0]["traces"]


def test_replays_are_the_program_s(trace):
    """Are a replay's figures equal to the JSON of `replay`?"""
    words = ["--device=hdd-7200", "--scheduler=noop", "--scheduler=bfq", "--format=json"]
    told = program("replay", str(trace), "-q", *words)
    replayed = pt.replay(trace, device="hdd-7200", scheduler=["noop", "bfq"])
    assert [replayed.document] == documents(told.stdout)
    assert [each["scheduler"] for each in replayed.replays] == ["noop", "bfq"]


def test_what_is_wrong_with_a_trace_is_said(tmp_path, trace):
    """Are a missing trace and a wrong format exceptions, and is an unreadable record listed as a
    problem?"""
    with pytest.raises(pt.RequestError, match="nowhere"):
        next(pt.open_trace(tmp_path / "nowhere"))
    with pytest.raises(pt.RequestError, match="there is no format `btrfs`; there are blktrace"):
        pt.open_trace(trace, format="btrfs")
    cut = tmp_path / "cut.blktrace.0"
    cut.write_bytes(trace.read_bytes()[:-7])
    opened = pt.open_trace(cut)
    assert sum(len(batch) for batch in opened) > 99
    assert opened.problems[0] == 1


def test_a_trace_may_be_left_early(trace):
    """Can a trace be closed after only one batch was read?"""
    with pt.open_trace(trace, batch=1) as opened:
        assert len(next(opened)) == 1
    assert list(opened) == []
