# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does a plan give the same results in one process, in parts and in chunks?"""

import hashlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import program
from hypothesis import given
from hypothesis import strategies as st
from plans import JOBS, RECIPES, as_csv, without_cost

import paternoster_io as pt
from paternoster_io import sweeps


def test_a_plan_is_done_in_one_loop(plan, done):
    """Do 240 rows give 240 results with a digest and no error, equal to those of `pt.run`?"""
    assert len(plan) == len(done) == 4 * 12 * 5
    assert done["error"] == [None] * 240
    assert len(set(done["row"])) == 240 and None not in done["digest"]
    for row in done.rows()[::37]:
        result = pt.run(
            row["job"], device=row["device"], scheduler=row["scheduler"], seeds=7, runtime="20ms"
        )
        assert row["digest"] == result.runs["digest"][0]
        assert row["ios"] == sum(result.clients["ios"])
        assert row["max_ns"] == max(result.clients["max_ns"])
        if len(result.clients) == 1:
            assert row["p99_ns"] == result.clients["p99_ns"][0]


def test_parts_make_the_whole(plan, done, tmp_path):
    """Do eight parts in separate processes give what one loop gives, and does a second run of a
    finished plan do nothing?"""
    file = as_csv(plan, tmp_path)
    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--part"]
    for part in range(1, 9):
        told = program(*words, f"{part}/8")
        assert (told.returncode, told.stderr) == (0, "30 rows done, 0 with errors\n")
    found = sweeps.results(tmp_path / "out")
    assert without_cost(found.rows()) == without_cost(done.rows())
    assert program(*words, "1/1").stderr == "0 rows done, 0 with errors\n"
    # If one file of results is lost, only its rows are run again.
    lost = sorted((tmp_path / "out").glob("rows-*"))[0]
    lost.unlink()
    assert program(*words, "1/1").stderr == "30 rows done, 0 with errors\n"
    assert without_cost(sweeps.results(tmp_path / "out").rows()) == without_cost(done.rows())


#: The program without Python, as it is in the package.
INSIDE = [sys.executable, "-c", "import sys; from paternoster_io import _native; "
          "sys.exit(_native.program(['paternoster', *sys.argv[1:]]))"]  # fmt: skip


def test_the_program_does_the_same(plan, done, tmp_path):
    """Do parts run by the Rust program give what Python's loop gives, and does each go on where the
    other ended?"""
    file = as_csv(plan, tmp_path)
    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--part"]
    for part in (1, 2):
        told = subprocess.run([*INSIDE, *words, f"{part}/3"], capture_output=True, text=True)
        assert (told.returncode, told.stderr) == (0, "80 rows done, 0 with errors\n")
    assert program(*words, "1/1").stderr == "80 rows done, 0 with errors\n"
    again = subprocess.run([*INSIDE, *words, "1/1"], capture_output=True, text=True)
    assert again.stderr == "0 rows done, 0 with errors\n"
    assert without_cost(sweeps.results(tmp_path / "out").rows()) == without_cost(done.rows())


def test_costs_are_predicted(plan, done):
    """Is each row's cost predicted without a clock, and do the costs of parts made from it differ
    by at most the costliest row?"""
    told = sweeps.predict(plan)
    assert told == sweeps.predict(plan)
    costs = told["cost"]
    assert min(costs) > 0 and len(set(costs)) > 100
    rows = told.rows()
    parts = [sweeps.part_of(rows, part, 4) for part in range(1, 5)]
    sums = [sum(row["cost"] for row in part) for part in parts]
    assert max(sums) - min(sums) <= max(costs)


def test_the_manifest_of_kubernetes_is_right():
    """Is the manifest valid YAML of a job with 200 indexed parts, each with its own number from
    1?"""
    yaml = pytest.importorskip("yaml")
    text = (RECIPES / "kubernetes.yaml").read_text()
    assert len(text.splitlines()) <= 30
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert spec["completionMode"] == "Indexed" and pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    script = container["args"][0].replace("exec ", "echo ")
    parts = {
        subprocess.run([*container["command"], script], env={"JOB_COMPLETION_INDEX": str(index)},
                       check=True, capture_output=True, text=True).stdout.split()[-1]
        for index in (0, 1, spec["completions"] - 1)
    }  # fmt: skip
    assert parts == {"1/200", "2/200", "200/200"}


def test_a_failing_row_is_a_row():
    """Does a mistake become its row's error, with the other rows done?"""
    job = "[a]\nrw=read\nsize=64k\n"
    rows = [
        {"job": job},
        {"job": job, "device": "nothing"},
        {"job": job, "scheduler": "bfq:slice_idle=x"},
        {"job": "/nowhere.fio"},
        {"trace": "/nowhere.blktrace.0"},
        {},
        {"job": job, "seed": -1},
        {"job": job, "sha256": "0" * 64},
        {"job": job, "sha256": hashlib.sha256(job.encode()).hexdigest(), "device": "null"},
        {"job": job, "window": "0:1"},
        {"job": job, "trace": "/nowhere.blktrace.0"},
    ]
    found = pt.run_rows(rows)
    errors = found["error"]
    assert [error is None for error in errors] == [True] + [False] * 7 + [True] + [False] * 2
    assert errors[1].startswith("RequestError: there is no device `nothing`")
    assert errors[3].startswith("RequestError: job file /nowhere.fio: ")
    assert "has sha256" in errors[7]
    assert len(set(found["row"])) == len(rows)


def test_a_cell_of_any_kind_is_its_rows_own():
    """Does a cell that its column cannot hold (an array, a series, an object that raises when
    compared or printed) become its row's error, an array of one number that number, and a missing
    value of pandas an empty cell, with the other rows done?"""
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")

    class Bad:
        def __eq__(self, other):
            raise RuntimeError("it compares with nothing")

        __hash__ = None

        def __str__(self):
            raise RuntimeError("it has no words")

        def item(self):
            raise KeyError(3)

    job = "[a]\nrw=read\nsize=64k\n"
    arrays = [numpy.array(cells) for cells in ([1, 2], [], [[1], [2]], ["a", "b"], [None, None])]
    wrong = [*arrays, pandas.Series([1, 2]), pandas.DataFrame({"a": [1]}), Bad(), [1, 2], b"x"]
    right = [numpy.array(5), numpy.array([5]), numpy.int64(5), pandas.NA, pandas.NaT, None]
    for name in ("seed", "device", "scheduler", "job"):
        rows = [{"job": job, "device": "null", name: cell} for cell in wrong]
        found = pt.run_rows([*rows, {"job": job, "device": "null"}])["error"]
        assert all(error.startswith(("RequestError", "JobError")) for error in found[:-1]), found
        assert found[-1] is None
    found = pt.run_rows([{"job": job, "device": "null", "seed": cell} for cell in right])
    # A row of results has its plan's cells; an empty one stays empty, and its seed is 0.
    assert (found["error"], found["seed"]) == ([None] * 6, [5, 5, 5, None, None, None])


def test_a_row_is_named_by_what_it_asks():
    """Does a row's name depend only on its meaning, not on defaults written out, on empty or NaN
    cells, or on its cost?"""
    job = "[a]\nrw=read\nsize=64k\n"
    same = [
        {"job": job},
        {"job": job, "seed": 0.0, "trace": float("nan"), "set": ""},
        {"job": job, "device": "ssd-870evo", "scheduler": "mq-deadline", "seed": "0", "cost": 9},
    ]
    assert len({sweeps.row_id(row) for row in same}) == 1
    assert sweeps.row_id({"job": job, "seed": 1}) != sweeps.row_id(same[0])


def test_parts_are_even_and_apart():
    """Is each row in exactly one part, and do parts differ in cost by at most the costliest row?"""
    rows = [{"job": str(place), "cost": float(place % 13)} for place in range(100)]
    parts = [sweeps.part_of(rows, part, 7) for part in range(1, 8)]
    assert sorted(int(row["job"]) for part in parts for row in part) == list(range(100))
    sums = [sum(row["cost"] for row in part) for part in parts]
    assert max(sums) - min(sums) <= 12
    with pytest.raises(pt.RequestError, match="--part 0/7"):
        sweeps.part_of(rows, 0, 7)


def test_batches_of_others_are_taken():
    """Do plans as pandas or polars frames give the same as rows?"""
    rows = [{"job": "[a]\nrw=read\nsize=64k\n", "seed": 3}, {"job": "/no.fio", "seed": None}]
    names = [sweeps.row_id(row) for row in rows]
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for batch in (pandas.DataFrame(rows), polars.DataFrame(rows)):
        assert pt.run_rows(batch)["row"] == names


def test_a_trace_is_a_row(tmp_path):
    """Does a row replay a trace, with the figures of `pt.replay`?"""
    told = program("run", "--name=a", "--rw=randread", "--size=256k", "--direct=1", "-q",
                   "--device=ssd-870evo", f"--trace={tmp_path}/t")  # fmt: skip
    assert told.returncode == 0
    trace = str(tmp_path / "t.blktrace.0")
    row = pt.run_rows([{"trace": trace, "device": "hdd-7200", "scheduler": "bfq"}]).rows()[0]
    told = pt.replay(trace, device="hdd-7200", scheduler="bfq").replays[0]["all"]
    assert (row["error"], row["ios"], row["iops"]) == (None, told["ios"], told["iops"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--part", "9/8"], "--part 9/8: the first part is 1, the last 8"),
        (["--part", "x"], "--part x: it is I/N, as 17/200"),
        (["--part", "1/" + "9" * 4301], f"--part 1/{'9' * 4301}: it is I/N, as 17/200"),
    ],
)
def test_a_wrong_sweep_is_refused(tmp_path, words, said):
    """Is a wrong part refused with exit status 2?"""
    (tmp_path / "plan.csv").write_text("job\n/no.fio\n")
    told = program("sweep", str(tmp_path / "plan.csv"), "--out", str(tmp_path / "o"), *words)
    assert (told.returncode, told.stderr) == (2, f"paternoster: {said}\n")


def test_ctrl_c_keeps_whole_chunks(tmp_path):
    """Does SIGINT in the middle of a sweep end it with status 130, no traceback and complete files
    of finished rows; and does the next sweep go on from there?"""
    job = "[a]\nrw=randread\nsize=1g\ndirect=1\n"
    rows = [{"job": job + "number_ios=9\n", "seed": seed} for seed in range(3)]
    long = {"job": job + "time_based=1\nruntime=1000h\n", "seed": 9, "device": "null"}
    file = as_csv(pt.Table.from_columns(
        [(name, kind, [row.get(name) for row in [*rows, long]])
         for name, kind in sweeps.PLAN.items()]
    ), tmp_path)  # fmt: skip
    command = [sys.executable, "-m", "paternoster_io", "sweep", file, "--out", tmp_path / "out"]
    running = subprocess.Popen([*command, "--chunk", "0"], stderr=subprocess.PIPE, text=True)
    while len(list(tmp_path.glob("out/rows-*"))) < 3:
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert (running.returncode, told) == (130, "")
    assert sorted(sweeps.results(tmp_path / "out")["seed"]) == [0, 1, 2]
    assert list(sweeps.sweep(rows, tmp_path / "out")) == []


#: What a cell may be, in any frame that a user may have.
CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(2**63, 2**65), st.floats(), st.text(),
    st.binary(max_size=9), st.just("\udcff"), st.just(JOBS[3]), st.just(10**400),
    st.just(10**5000),
    st.sampled_from(["null", "noop", "0", "5ms", "nr_requests=8", "/nowhere.fio", "a\0b"]),
)  # fmt: skip


@given(
    st.lists(
        st.dictionaries(st.one_of(st.sampled_from([*sweeps.PLAN]), st.text()), CELLS), max_size=4
    )
)
def test_any_row_is_a_row(rows):
    """Does a random plan, with any columns and cells, give as many rows of results, each with a
    digest or an error, and the same rows when it is run again?"""
    found = pt.run_rows([{"runtime": "1ms", "device": "null", **row} for row in rows])
    assert len(found) == len(rows)
    assert all((one["digest"] is None) != (one["error"] is None) for one in found.rows())
    for one, again in zip(found.rows(), pt.run_rows(found).rows(), strict=True):
        if one["error"] is None:
            assert {**again, "cost_ns": 0} == {**one, "cost_ns": 0}


def test_odd_plans_are_taken_or_refused(tmp_path):
    """Are an empty plan of each kind, an unknown column and the largest seed accepted, and is an
    object that is no plan refused with a RequestError?"""
    job = "[a]\nrw=read\nsize=64k\n"
    assert len(pt.run_rows([])) == len(sweeps.predict([])) == len(sweeps.plan([])) == 0
    assert list(sweeps.sweep([], tmp_path / "none")) == []
    one = {"job": job, "seed": 2**64 - 1}
    own, plain = pt.run_rows([{**one, "owner": "me", "ios": 5}, one]).rows()
    assert {**own, "cost_ns": 0} == {**plain, "cost_ns": 0} and own["seed"] == 2**64 - 1
    for wrong in ("abc", {"job": job}):
        with pytest.raises(pt.RequestError, match="a plan is a table"):
            pt.run_rows(wrong)
    for seeds, why in [([-1], "seed -1"), (2**64, "18446744073709551616"), ("7", "integers"),
                       (10**5000, "seed 0x")]:  # fmt: skip
        with pytest.raises(pt.RequestError, match=why):
            sweeps.plan([job], seeds=seeds)
        with pytest.raises(pt.RequestError, match=why):
            pt.run(job, seeds=seeds)
    for interval in (-1, float("nan"), 1e300):
        with pytest.raises(pt.RequestError, match="interval"):
            pt.run(job, interval=interval)


def test_plans_of_any_frame_are_predicted():
    """Is the cost of a pandas plan predicted, although empty cells are NaN and seeds therefore
    floats, and is a cell that its column cannot hold refused with its row and name?"""
    job = "[a]\nrw=read\nsize=64k\n"
    rows = [{"job": job, "seed": 3, "set": None}, {"job": job, "seed": None, "runtime": "5ms"}]
    plain = sweeps.predict(rows)
    assert plain["seed"] == [3, None] and min(plain["cost"]) > 0
    pandas = pytest.importorskip("pandas")
    assert sweeps.predict(pandas.DataFrame(rows)) == plain
    for value in (1.5, -1, 2**64, "x", [1], True):
        with pytest.raises(pt.RequestError, match=r"row 1 of the plan: seed is no uint64: "):
            sweeps.predict([rows[0], {"job": job, "seed": value}])


def test_numbers_of_any_length_are_refused():
    """Does a number with more digits than Python reads or writes become its row's error when it is
    run, and raise a RequestError when its cost is predicted; and is one that merely has leading
    zeros accepted?"""
    job = "[a]\nrw=read\nsize=64k\n"
    for value in ("9" * 21, "9" * 4301, "9" * 100_000, 10**4301, -(10**4301), 2**2001, ""):
        row = {"job": job, "seed": value}
        (error,) = pt.run_rows([row])["error"]
        if value == "":
            assert error is None and sweeps.predict([row])["seed"] == [None]
            continue
        assert error.startswith("RequestError: ")
        with pytest.raises(pt.RequestError, match=r"row 0 of the plan: seed is no uint64: "):
            sweeps.predict([row])
    zeros = {"job": job, "seed": "0" * 5000 + "7"}
    assert sweeps.predict([zeros, {"job": job, "seed": "000"}])["seed"] == [7, 0]


def test_names_in_any_script_are_names(tmp_path):
    """Are a job and a folder found if their names have blanks, umlauts and kana, by the function
    and by the command?"""
    folder = tmp_path / "für 日本 %s"
    folder.mkdir()
    (folder / "jöb.fio").write_text("[ä]\nrw=read\nsize=64k\n")
    row = {"job": str(folder / "jöb.fio")}
    assert pt.run_rows([row])["error"] == [None]
    (folder / "plän.csv").write_text(f"job\n{row['job']}\n", encoding="utf-8")
    told = program("sweep", str(folder / "plän.csv"), "--out", str(folder / "aus"))
    assert (told.returncode, told.stderr) == (0, "1 rows done, 0 with errors\n")
    assert [len(table) for table in sweeps.sweep([row], folder / "aus")] == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows-a.csv", b"row,ios\nabc,many\n"), ("rows-a.csv", b"row\n\xff\xfe\n"),
        ("rows-a.parquet", b"nothing"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_named(tmp_path, name, content):
    """Is a file that is not a result reported by name, without a traceback?"""
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(pt.RequestError, match=name):
        sweeps.results(tmp_path)


def test_results_that_cannot_be_written_are_told(tmp_path):
    """Are a file given as folder, an unknown format, and a file that is no plan refused with exit
    status 2 or a RequestError?"""
    plan = tmp_path / "plan.csv"
    plan.write_text("job\n/no.fio\n")
    told = program("sweep", str(plan), "--out", str(plan))
    assert (told.returncode, told.stderr) == (2, f"paternoster: {plan}: File exists\n")
    with pytest.raises(pt.RequestError, match="there is no form `xls`"):
        list(sweeps.sweep([], tmp_path / "out", form="xls"))
    plan.write_bytes(b"job\n\xff\n")
    told = program("sweep", str(plan), "--out", str(tmp_path / "out"))
    assert told.returncode == 2 and told.stderr.startswith(f"paternoster: plan {plan}: 'utf-8'")
    told = program("sweep", str(tmp_path / "no.csv"), "--out", str(tmp_path / "out"))
    assert told.stderr == f"paternoster: plan {tmp_path}/no.csv: No such file or directory\n"
