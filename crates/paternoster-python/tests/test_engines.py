# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does a plan give the same results whatever engine runs it, and whatever happens to a worker?

`checks/engines.sh` runs this with all of them; an engine that is not installed is skipped, with
its name.
"""

import ast
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from plans import DEVICES, JOBS, RECIPES, SCHEDULERS, as_csv, sorted_bytes, without_cost

import paternoster_io as pt
from paternoster_io import sweeps

pyarrow = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

#: A `paternoster` program built with the feature `parquet`.
WITH_PARQUET = os.environ.get("PATERNOSTER_WITH_PARQUET")


def needs(module: str) -> None:
    """Skips a test if this module is missing. It is not imported here, because engines start
    threads."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"could not import '{module}'")


@pytest.mark.parametrize(
    ("recipe", "module"),
    [
        ("plain", "sys"), ("with_joblib", "joblib"), ("with_dask", "distributed"),
        ("with_ray", "ray"), ("with_spark", "pyspark"),
    ],
)  # fmt: skip
def test_recipes_give_the_same(plan, done, tmp_path, recipe, module):
    """Does each engine give the loop's results, equal byte for byte as sorted Parquet?"""
    needs(module)
    if module == "pyspark" and shutil.which("java") is None:
        pytest.skip("Spark needs a JRE: there is no java")
    file = RECIPES / f"{recipe}.py"
    assert len(file.read_text().splitlines()) <= 30
    pq.write_table(pyarrow.table(plan), tmp_path / "plan.parquet")
    command = [sys.executable, file, tmp_path / "plan.parquet", tmp_path / "found.parquet"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr

    found = pq.read_table(tmp_path / "found.parquet")
    assert len(found) == 240
    assert sorted_bytes(found, tmp_path) == sorted_bytes(pyarrow.table(done), tmp_path)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_parts_under_xargs_give_the_same(plan, done, tmp_path, form):
    """Do eight parts, two at a time, give the loop's results as sorted Parquet?"""
    pq.write_table(pyarrow.table(plan), tmp_path / "plan.parquet")
    out = tmp_path / "out"
    sweep = [sys.executable, "-m", "paternoster_io", "sweep", tmp_path / "plan.parquet"]
    command = ["xargs", "-P", "2", "-I{}", *sweep, "--out", out, "--form", form, "--part", "{}/8"]
    numbers = "\n".join(str(part) for part in range(1, 9))
    ran = subprocess.run(command, input=numbers, text=True, check=True, capture_output=True)
    assert ran.stderr == "30 rows done, 0 with errors\n" * 8
    found = pyarrow.table(sweeps.results(out))
    assert sorted_bytes(found, tmp_path) == sorted_bytes(pyarrow.table(done), tmp_path)
    # Also read file by file, if the format keeps types.
    files = sorted(out.glob("rows-*.parquet"))
    assert len(files) == (8 if form == "parquet" else 0)
    if files:
        found = pyarrow.concat_tables(pq.read_table(file) for file in files)
        assert sorted_bytes(found, tmp_path) == sorted_bytes(pyarrow.table(done), tmp_path)


@pytest.mark.skipif(WITH_PARQUET is None, reason="no program with Parquet is named")
def test_the_programs_parquet_is_equal(plan, done, tmp_path):
    """Is the program's Parquet, read and sorted, equal byte for byte?"""
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


def workers_of_ray(parent: int) -> list[int]:
    """The workers of that process's Ray that are running rows: only then do they have this name."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            named = (process / "cmdline").read_bytes().startswith(b"ray::MapBatches(rows)")
            above, most = int(process.name), 9
            while named and above not in (0, parent) and most > 0:
                status = Path(f"/proc/{above}/stat").read_text()
                above, most = int(status.rsplit(")", 1)[1].split()[1]), most - 1
            if named and above == parent:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_a_killed_worker_of_ray_changes_nothing(tmp_path):
    """Does the recipe give the same results if a worker is killed in the middle, once a task other
    than the first one has been seen running?"""
    needs("ray")
    # Rows for some seconds, so that there is a middle.
    plan = sweeps.plan(JOBS, DEVICES, SCHEDULERS, [7], runtime="500ms")
    pq.write_table(pyarrow.table(plan), tmp_path / "plan.parquet")
    command = [sys.executable, RECIPES / "with_ray.py", tmp_path / "plan.parquet"]
    log = (tmp_path / "log").open("w")
    running = subprocess.Popen([*command, tmp_path / "found.parquet"], stderr=log, stdout=log)
    killed, first = None, None
    while killed is None and running.poll() is None:
        at_work = workers_of_ray(running.pid)
        if at_work and first is None:
            first = time.monotonic()
        if at_work and time.monotonic() - first > 0.5:
            killed = at_work[0]
            os.kill(killed, signal.SIGKILL)
        time.sleep(0.01)
    assert running.wait(timeout=600) == 0, (tmp_path / "log").read_text()
    assert killed is not None, "no worker was seen at its work"
    found = pq.read_table(tmp_path / "found.parquet")
    wanted = pyarrow.table(pt.run_rows(plan))
    assert sorted_bytes(found, tmp_path) == sorted_bytes(wanted, tmp_path)


def test_an_array_of_slurm_makes_the_whole(plan, done, tmp_path):
    """Do the tasks of an array, each run once, give the plan's results, does a resubmitted one do
    nothing, and is a task without a part refused?"""
    file = as_csv(plan, tmp_path)
    command = ["bash", str(RECIPES / "slurm.sh"), str(file), str(tmp_path / "out")]

    def task(number: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "SLURM_ARRAY_TASK_ID": number,
            "PARTS": "6",
        }
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    for number in range(1, 7):
        assert task(str(number)).stderr == "40 rows done, 0 with errors\n"
    assert task("5").stderr == "0 rows done, 0 with errors\n"
    assert without_cost(sweeps.results(tmp_path / "out").rows()) == without_cost(done.rows())
    for number in ("0", "7"):
        told = task(number)
        assert told.returncode == 2
        assert told.stderr == f"paternoster: --part {number}/6: the first part is 1, the last 6\n"


def test_the_script_of_slurm_is_one():
    """Does the script parse without findings of shellcheck, and does its array have one task for
    each part?"""
    script = RECIPES / "slurm.sh"
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text()
    assert "#SBATCH --array=1-200\n" in text and "${PARTS:-200}" in text
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    ran = subprocess.run(["shellcheck", script], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


def test_the_manifest_is_what_kubernetes_takes():
    """Is the manifest valid under Kubernetes' strict schema, and is one with a wrong key
    refused?"""
    yaml = pytest.importorskip("yaml")
    schemas = pytest.importorskip("kubernetes_validate")
    job = yaml.safe_load((RECIPES / "kubernetes.yaml").read_text())
    version = schemas.latest_version()
    schemas.validate(job, version, strict=True)
    for name, value in (("compleshions", 200), ("completions", "many")):
        wrong = {**job, "spec": {**job["spec"], name: value}}
        with pytest.raises(schemas.ValidationError):
            schemas.validate(wrong, version, strict=True)


def test_a_search_with_optuna_is_repeated(tmp_path):
    """Does the search find the same twice, and nothing worse than the defaults on that device; and
    is its result confirmed by another run?"""
    needs("optuna")
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
