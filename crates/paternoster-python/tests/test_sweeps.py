# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does a plan give the same results in one process, in several, in parts and in pieces?"""

import ast
import contextlib
import csv
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import program

import paternoster_io as pt
from paternoster_io import sweeps

RECIPES = Path(__file__).parent.parent / "recipes"

#: Four jobs of 20 ms; with twelve devices and five schedulers 240 rows.
JOBS = [
    "[reader]\nrw=randread\nbs=4k\nsize=64m\ndirect=1\nioengine=libaio\niodepth=8\n",
    "[writer]\nrw=write\nbs=64k\nsize=64m\ndirect=1\n",
    "[a]\nrw=randrw\nbs=4k\nsize=64m\ndirect=1\nnumjobs=2\nrandrepeat=0\n",
    "[log]\nrw=write\nbs=4k\nsize=1m\ndirect=1\nfdatasync=1\n[scan]\nrw=read\nbs=1m\nsize=64m\n",
]
DEVICES = [
    "array-eva", "flash-card-2010", "hdd-7200", "hdd-7200-no-ncq", "lab-disk", "lab-flash",
    "null", "nvme-7300", "nvme-kc3000", "nvme-pm9a3", "ssd-870evo", "ssd-pm883",
]  # fmt: skip
SCHEDULERS = ["none", "mq-deadline", "kyber", "bfq", "paternoster"]


def without_cost(rows: list[dict]) -> list[dict]:
    """What must be equal, in the order of the rows' names."""
    kept = [{name: row[name] for name in row if name != "cost_ns"} for row in rows]
    return sorted(kept, key=lambda row: row["row"])


def sorted_bytes(table, folder: Path) -> bytes:
    """A Parquet file of what must be equal, in the order of the rows' names."""
    pq = pytest.importorskip("pyarrow.parquet")
    table = table.drop_columns(["cost_ns"]).sort_by("row").combine_chunks()
    pq.write_table(table.replace_schema_metadata(None), folder / "sorted.parquet")
    return hashlib.sha256((folder / "sorted.parquet").read_bytes()).digest()


def as_csv(plan, folder: Path) -> Path:
    """The plan as a file."""
    with (folder / "plan.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, plan.column_names)
        writer.writeheader()
        writer.writerows(plan.rows())
    return folder / "plan.csv"


@pytest.fixture(scope="module")
def plan():
    return sweeps.plan(JOBS, DEVICES, SCHEDULERS, [7], runtime="20ms")


@pytest.fixture(scope="module")
def done(plan):
    return pt.run_rows(plan)


def test_a_plan_is_done_in_one_loop(plan, done):
    """Do 240 rows give 240 results with a digest and no error, those of `pt.run`?"""
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
    """Do eight parts in processes of their own give what one loop does, and does a plan that is
    done again do nothing?"""
    file = as_csv(plan, tmp_path)
    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--part"]
    for part in range(1, 9):
        told = program(*words, f"{part}/8")
        assert (told.returncode, told.stderr) == (0, "30 rows done, 0 with errors\n")
    found = sweeps.results(tmp_path / "out")
    assert without_cost(found.rows()) == without_cost(done.rows())
    assert program(*words, "1/1").stderr == "0 rows done, 0 with errors\n"
    # One file of the results is lost: its rows are done again, and no other.
    lost = sorted((tmp_path / "out").glob("rows-*"))[0]
    lost.unlink()
    assert program(*words, "1/1").stderr == "30 rows done, 0 with errors\n"
    assert without_cost(sweeps.results(tmp_path / "out").rows()) == without_cost(done.rows())


@pytest.mark.parametrize("engine", ["plain", "with_joblib", "with_dask", "with_ray", "with_spark"]
)
def test_recipes_give_the_same(plan, done, tmp_path, engine):
    """Does each engine give the results of the loop, byte for byte as sorted Parquet?"""
    pyarrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    module = {"plain": "sys", "with_joblib": "joblib", "with_dask": "distributed",
              "with_ray": "ray", "with_spark": "pyspark"}[engine]  # fmt: skip
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"could not import '{module}'")
    recipe = RECIPES / f"{engine}.py"
    assert len(recipe.read_text().splitlines()) <= 30
    pq.write_table(pyarrow.table(plan), tmp_path / "plan.parquet")
    command = [sys.executable, recipe, tmp_path / "plan.parquet", tmp_path / "found.parquet"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)

    found = pq.read_table(tmp_path / "found.parquet")
    assert sorted_bytes(found, tmp_path) == sorted_bytes(pyarrow.table(done), tmp_path)


#: The program that has no Python: the one inside of the package, and, if it is named, one that was
#: built with the feature `parquet`.
INSIDE = [sys.executable, "-c", "import sys; from paternoster_io import _native; "
          "sys.exit(_native.program(['paternoster', *sys.argv[1:]]))"]  # fmt: skip
WITH_PARQUET = os.environ.get("PATERNOSTER_WITH_PARQUET")


def test_the_program_does_the_same(plan, done, tmp_path):
    """Do parts in the Rust program give what Python's loop does, and goes one on where the other
    ended?"""
    file = as_csv(plan, tmp_path)
    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--part"]
    for part in (1, 2):
        told = subprocess.run([*INSIDE, *words, f"{part}/3"], capture_output=True, text=True)
        assert (told.returncode, told.stderr) == (0, "80 rows done, 0 with errors\n")
    assert program(*words, "1/1").stderr == "80 rows done, 0 with errors\n"
    again = subprocess.run([*INSIDE, *words, "1/1"], capture_output=True, text=True)
    assert again.stderr == "0 rows done, 0 with errors\n"
    assert without_cost(sweeps.results(tmp_path / "out").rows()) == without_cost(done.rows())


@pytest.mark.skipif(WITH_PARQUET is None, reason="no program with Parquet: for --full")
def test_the_programs_parquet_is_equal(plan, done, tmp_path):
    """Is the program's Parquet, read and sorted, equal byte for byte?"""
    pyarrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pyarrow.table(plan), tmp_path / "plan.parquet")
    out = tmp_path / "out"
    words = ["sweep", tmp_path / "plan.parquet", "--out", out, "--form", "parquet", "--chunk", "1"]
    for part in range(1, 9):
        subprocess.run([WITH_PARQUET, *words, "--part", f"{part}/8"], check=True)
    files = sorted(out.glob("rows-*.parquet"))
    found = pyarrow.concat_tables(pq.read_table(file) for file in files)
    assert len(files) >= 8 and len(found) == 240
    assert found.schema.equals(pyarrow.table(done).schema)
    assert sorted_bytes(found, tmp_path) == sorted_bytes(pyarrow.table(done), tmp_path)


def test_costs_are_predicted(plan, done):
    """Is each row's cost predicted without a clock, and are parts by it even? The sum of the
    dearest of four parts is at most 1.5 times that of the least, by what the rows took."""
    told = sweeps.predict(plan)
    assert told == sweeps.predict(plan)
    costs = told["cost"]
    assert min(costs) > 0 and len(set(costs)) > 100
    rows = told.rows()
    parts = [sweeps.part_of(rows, part, 4) for part in range(1, 5)]
    sums = [sum(row["cost"] for row in part) for part in parts]
    assert max(sums) - min(sums) <= max(costs)


def test_the_manifest_of_kubernetes_is_right():
    """Is the manifest YAML of a job of 200 indexed parts, each with its own number from 1?"""
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


def test_a_killed_worker_of_ray_changes_nothing(plan, done, tmp_path):
    """Does the recipe give the same although one of its workers is killed in the middle?"""
    pyarrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    if importlib.util.find_spec("ray") is None:
        pytest.skip("could not import 'ray'")
    pq.write_table(pyarrow.table(plan), tmp_path / "plan.parquet")
    command = [sys.executable, RECIPES / "with_ray.py", tmp_path / "plan.parquet"]
    running = subprocess.Popen([*command, tmp_path / "found.parquet"], stderr=subprocess.DEVNULL)
    killed = None
    while killed is None and running.poll() is None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                # A worker is called so only while it does rows.
                if (process / "cmdline").read_bytes().startswith(b"ray::rows"):
                    killed = int(process.name)
                    os.kill(killed, signal.SIGKILL)
                    break
    assert running.wait(timeout=600) == 0
    assert killed is not None, "no worker was seen at its work"
    found = pq.read_table(tmp_path / "found.parquet")
    assert sorted_bytes(found, tmp_path) == sorted_bytes(pyarrow.table(done), tmp_path)


def test_a_failing_row_is_a_row():
    """Does what is wrong stand in the row's error, with the others done?"""
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
    ]
    found = pt.run_rows(rows)
    errors = found["error"]
    assert [error is None for error in errors] == [True] + [False] * 7 + [True]
    assert errors[1].startswith("RequestError: there is no device `nothing`")
    assert errors[3].startswith("RequestError: job file /nowhere.fio: ")
    assert "has sha256" in errors[7]
    assert len(set(found["row"])) == len(rows)


def test_a_row_is_named_by_what_it_asks():
    """Is a row's name that of its meaning: defaults written out, cells empty or not a number, and
    what it costs change nothing?"""
    job = "[a]\nrw=read\nsize=64k\n"
    same = [
        {"job": job},
        {"job": job, "seed": 0.0, "trace": float("nan"), "set": ""},
        {"job": job, "device": "ssd-870evo", "scheduler": "mq-deadline", "seed": "0", "cost": 9},
    ]
    assert len({sweeps.row_id(row) for row in same}) == 1
    assert sweeps.row_id({"job": job, "seed": 1}) != sweeps.row_id(same[0])


def test_parts_are_even_and_apart():
    """Is each row in one part, and no part dearer than another by more than the dearest row?"""
    rows = [{"job": str(place), "cost": float(place % 13)} for place in range(100)]
    parts = [sweeps.part_of(rows, part, 7) for part in range(1, 8)]
    assert sorted(int(row["job"]) for part in parts for row in part) == list(range(100))
    sums = [sum(row["cost"] for row in part) for part in parts]
    assert max(sums) - min(sums) <= 12
    with pytest.raises(pt.RequestError, match="--part 0/7"):
        sweeps.part_of(rows, 0, 7)


def test_batches_of_others_are_taken():
    """Are plans of pandas and polars the same as rows?"""
    rows = [{"job": "[a]\nrw=read\nsize=64k\n", "seed": 3}, {"job": "/no.fio", "seed": None}]
    names = [sweeps.row_id(row) for row in rows]
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for batch in (pandas.DataFrame(rows), polars.DataFrame(rows)):
        assert pt.run_rows(batch)["row"] == names


def test_a_trace_is_a_row(tmp_path):
    """Is a trace replayed by a row, with the figures of `pt.replay`?"""
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
    ],
)
def test_a_wrong_sweep_is_refused(tmp_path, words, said):
    """Is a wrong part refused with exit status 2?"""
    (tmp_path / "plan.csv").write_text("job\n/no.fio\n")
    told = program("sweep", str(tmp_path / "plan.csv"), "--out", str(tmp_path / "o"), *words)
    assert (told.returncode, told.stderr) == (2, f"paternoster: {said}\n")


def test_an_array_of_slurm_does_its_part(plan, done, tmp_path):
    """Does a task of the array do the part that Slurm numbers, once?"""
    file = as_csv(plan, tmp_path)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "SLURM_ARRAY_TASK_ID": "40",
        "SLURM_ARRAY_TASK_COUNT": "40",
    }
    command = ["bash", str(RECIPES / "slurm.sh"), str(file), str(tmp_path / "out")]
    for count in (6, 0):
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert told.stderr == f"{count} rows done, 0 with errors\n"
    found = without_cost(sweeps.results(tmp_path / "out").rows())
    assert len(found) == 6 and all(row in without_cost(done.rows()) for row in found)


def test_a_search_with_optuna_is_repeated(tmp_path):
    """Does the search find the same twice, nothing worse than the plan's defaults for the device,
    and what it found when that is run again?"""
    if importlib.util.find_spec("optuna") is None:
        pytest.skip("could not import 'optuna'")
    job = tmp_path / "job.fio"
    job.write_text(JOBS[0] + "runtime=50ms\ntime_based=1\n")
    recipe = RECIPES / "with_optuna.py"
    assert len(recipe.read_text().splitlines()) <= 30
    command = [sys.executable, recipe, job, "ssd-870evo", "12"]
    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in "ab"
    )
    assert first == second
    value, params = first.split(" ", 1)
    params = ast.literal_eval(params)
    row = {"job": str(job), "device": "ssd-870evo"}
    best = {**row, "scheduler": params["scheduler"], "set": f"nr_requests={params['nr_requests']}"}
    found, default = pt.run_rows([best, row])["p99_ns"]
    assert found == float(value) <= default
