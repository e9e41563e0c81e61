# SPDX-License-Identifier: MIT OR Apache-2.0
"""Are the figures of `run` equal to the program's, whatever the options?"""

import dataclasses
import pickle
import signal
import threading
import time

import pytest
from conftest import DEVICES, SCHEDULERS, documents, jobs, program
from hypothesis import given
from hypothesis import strategies as st

import paternoster_io as pt


@given(
    given_jobs=jobs(),
    device=st.sampled_from(DEVICES),
    schedulers=st.lists(st.sampled_from(SCHEDULERS), min_size=1, max_size=3, unique=True),
    seed=st.integers(0, 2**63),
)
def test_a_drawn_job_gives_the_documents_of_the_program(
    tmp_path_factory, given_jobs, device, schedulers, seed
):
    """Does a random job give the same JSON as the program, byte for byte, digests included?"""
    file = tmp_path_factory.mktemp("drawn") / "job.fio"
    file.write_text("\n".join(str(job) for job in given_jobs))
    words = [f"--scheduler={one}" for one in schedulers]
    told = program(
        "run", str(file), "-q", f"--device={device}", *words, f"--seed={seed}",
        "--output-format=json", "--event-hash",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    result = pt.run(given_jobs, device=device, scheduler=schedulers, seeds=seed)
    assert "".join(text.rstrip() + "\n" for text in result.documents) == told.stdout
    # The tables have the figures of the documents.
    for run, document in zip(result.runs.rows(), documents(told.stdout), strict=True):
        extra = document["paternoster"]
        assert run["digest"] == extra["event_hash"]
        assert run["virtual_time_ns"] == extra["virtual_time_ns"]
        rows = [row for row in result.clients.rows() if row["scheduler"] == run["scheduler"]]
        ios = sum(job[way]["total_ios"] for job in document["jobs"] for way in ("read", "write"))
        assert sum(row["ios"] for row in rows if row["direction"] != "trim") == ios
        bins = [row for row in result.histograms.rows() if row["scheduler"] == run["scheduler"]]
        assert sum(row["count"] for row in bins) >= ios


def test_entitled_shares_are_those_of_the_json():
    """Do each client's share and entitlement agree with the JSON?"""
    job = {
        "global": {"direct": 1, "runtime": 1, "time_based": True, "size": "64m"},
        "deep": {"rw": "randread", "bs": "4k", "ioengine": "libaio", "iodepth": 16},
        "wide": {"rw": "read", "bs": "128k"},
    }
    result = pt.run(job, device="ssd-870evo", scheduler="bfq")
    processes = result.json()["paternoster"]["sections"][0]["processes"]
    # fio's JSON has six decimals.
    for column, key in (("entitled", "device_entitled"), ("got", "device_got")):
        told = [process[key] for process in processes]
        assert result.clients[column] == pytest.approx(told, abs=5e-7)
    assert result.sections["worst_off"][0] in ("deep", "wide")
    assert pt.run(job, scheduler="bfq", entitlement=False).clients["entitled"] == [None, None]


def test_it_is_said_why_weights_fail():
    """Are the program's remarks on weights among the notes, once for all seeds? There are 4
    requests for 2 * 16 I/Os: 28 wait for one, and cfq does not see whose they are."""
    job = {
        "global": {
            "direct": 1, "runtime": 1, "size": "64m", "rw": "randread", "ioengine": "libaio",
            "iodepth": 16,
        },
        "light": {"cgroup": "light", "cgroup_weight": 100},
        "heavy": {"cgroup": "heavy", "cgroup_weight": 300},
    }  # fmt: skip
    on = {"device": "flash-card-2010", "scheduler": "cfq", "set": "nr_requests=4"}
    notes = pt.run(job, seeds=[1, 2], **on).notes
    assert len([note for note in notes if "32 requests at a time and nr_requests" in note]) == 1
    job["heavy"]["cgroup_weight"] = 100
    assert not any("little effect" in note for note in pt.run(job, **on).notes)


def test_the_series_sums_to_the_device_counts(small):
    """Do the intervals of a run contain all its requests, and does none of them lie past its
    end?"""
    result = pt.run(small, device="ssd-870evo", interval=0.001)
    assert sum(result.series["requests"]) == result.runs["reads"][0]
    # 1 MiB.
    assert sum(result.series["bytes"]) == 1 << 20
    assert max(result.series["time_ns"]) <= result.runs["virtual_time_ns"][0]
    assert len(pt.run(small, device="null").series) == 0


def test_jobs_may_be_text_path_mapping_dataclass(small, tmp_path):
    """Do all ways to write a job mean the same?"""

    @dataclasses.dataclass
    class Options:
        rw: str = "randread"
        bs: str = "4k"
        size: str = "1m"
        direct: int = 1

    path = tmp_path / "a.fio"
    path.write_text(str(small))
    forms = [small, str(small), path, str(path), [small], {"a": small.options}, {"a": Options()}]
    digests = {pt.run(form, device="null").runs["digest"][0] for form in forms}
    assert len(digests) == 1
    assert str(pt.Job("x", time_based=True, rw=None, bsrange="1k-4k", a=[1, 2])) == (
        "[x]\ntime_based=1\nbsrange=1k-4k\na=1:2\n"
    )


def test_seeds_and_devices_multiply(small):
    """Is there a run for each seed, device and scheduler, and does the seed change the offsets?"""
    job = pt.Job("a", **{**small.options, "randrepeat": 0})
    result = pt.run(job, device=["null", "ssd-870evo"], scheduler=["noop", "bfq"], seeds=range(3))
    assert len(result.runs) == 3 * 2 * 2
    assert result.runs["seed"] == [seed for seed in range(3) for _ in range(4)]
    assert len(set(result.runs["digest"])) > 3


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--scheduler=bqf"], {"scheduler": "bqf"}),
        (["--device=ssd-870ev"], {"device": "ssd-870ev"}),
        (["--scheduler=bfq:slice_idle=8ms"], {"scheduler": "bfq:slice_idle=8ms"}),
        (["--runtime=0"], {"runtime": 0}),
        (["--fault=explode"], {"fault": "explode"}),
        (["--host=memory=x"], {"host": "memory=x"}),
    ],
)
def test_errors_have_the_program_s_words(small, tmp_path, words, asked):
    """Does a wrong request raise an exception with the message that the program prints?"""
    (tmp_path / "job.fio").write_text(str(small))
    told = program("run", "job.fio", "-q", *words, cwd=tmp_path)
    assert told.returncode == 2
    with pytest.raises(pt.RequestError) as error:
        pt.run(small, **asked)
    assert told.stderr == f"paternoster: {error.value}\n"
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("job", [5, None, 2.5])
def test_what_is_no_job_is_refused(job):
    """Does an object that is no job raise a RequestError that says what a job may be?"""
    with pytest.raises(pt.RequestError, match=f"a job is text, a path, .*: {job}"):
        pt.run(job)


def test_a_wrong_job_names_its_line():
    """Is a wrong option reported with its line, even for text that was never a file?"""
    with pytest.raises(pt.RequestError, match=r"job\.fio:2: .*rw"):
        pt.run("[a]\nrw=sideways\nsize=1m\n")


def test_a_failed_job_raises_with_its_result(small):
    """Does a failed job raise, with all results, unless `check` is false?"""
    with pytest.raises(pt.JobError, match="job a failed with errno 5") as error:
        pt.run(small, device="null", fault="error")
    assert error.value.result.clients["error"] == [5]
    assert pt.run(small, device="null", fault="error", check=False).clients["error"] == [5]


def test_results_and_errors_pickle(small):
    """Do results, tables, devices and exceptions survive pickling?"""
    result = pt.run(small, device="null", interval=0.01)
    assert pickle.loads(pickle.dumps(result)) == result
    assert pickle.loads(pickle.dumps(pt.device("null"))) == pt.device("null")
    error = pickle.loads(pickle.dumps(pt.RequestError("why")))
    assert isinstance(error, pt.RequestError) and str(error) == "why"


LONG = pt.Job("a", rw="randread", bs="4k", size="1g", direct=1, runtime="1000h", time_based=1)


@pytest.mark.parametrize("command", [pt.run, pt.compare])
def test_ctrl_c_ends_a_call(command):
    """Does SIGINT end a run of a thousand hours with KeyboardInterrupt, even in the threads of
    `compare`, and does the next run work?"""
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        command(LONG, device="null")
    timer.join()
    assert len(pt.run("[a]\nrw=read\nsize=4k\n", device="null").runs) == 1


def test_other_threads_go_on_while_one_simulates():
    """Does a Python thread go on counting while another one simulates?"""
    counted, done = 0, threading.Event()

    def simulate() -> None:
        job = pt.Job("a", rw="randread", bs="4k", size="1g", direct=1, number_ios=300_000)
        pt.run(job, device="null", entitlement=False)
        done.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0.0001)
    thread.join()
    # If the GIL were held, it would have counted only a little.
    assert counted > 50


def test_compare_is_the_program_s(small, tmp_path):
    """Does `compare` return the document that the program prints?"""
    job = pt.Job("a", **{**small.options, "runtime": "100ms", "size": "64m"})
    (tmp_path / "job.fio").write_text(str(job))
    told = program(
        "compare", "job.fio", "-q", "--device=ssd-870evo", "--scheduler=noop", "--scheduler=bfq",
        "--seeds=2", "--goal=a p99<5ms", "--format=json", cwd=tmp_path,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    advice = pt.compare(
        job, device="ssd-870evo", scheduler=["noop", "bfq"], seeds=2, goals="a p99<5ms"
    )
    assert [advice.document] == documents(told.stdout)
    assert advice.best in ("noop", "bfq")
    with pytest.raises(pt.RequestError, match="it has no runtime"):
        pt.compare(small, device="null")


def test_devices_and_schedulers_are_listed():
    """Are devices and schedulers listed as the program lists them, and can a custom device file be
    run?"""
    names = [device.name for device in pt.devices()]
    assert names == [
        each["name"] for each in documents(program("devices", "--format=json").stdout)[0]["devices"]
    ]
    assert "bfq" in [scheduler.name for scheduler in pt.schedulers()]
    slow = pt.device("ssd-870evo").toml.replace('name = "ssd-870evo"', 'name = "mine"')
    mine = pt.Device.from_toml(slow)
    assert (mine.name, mine.model) == ("mine", "ssd")
    job = "[a]\nrw=randread\nsize=64k\n"
    ours, theirs = (pt.run(job, device=device).runs for device in (mine, "ssd-870evo"))
    assert ours["device"] == ["mine"] and ours["digest"] == theirs["digest"]
    with pytest.raises(pt.RequestError, match=r"device\.toml:1: "):
        pt.Device.from_toml("name = 1\n")
