# SPDX-License-Identifier: MIT OR Apache-2.0
"""Jobs and devices: Python objects that become fio job files and device files.

    Job("db", rw="randread", bs="4k", time_based=True)   ->   [db]
                                                              rw=randread
                                                              bs=4k
                                                              time_based=1
"""

from __future__ import annotations

import dataclasses
import json
import operator
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Union

from . import _native
from ._errors import RequestError


class Job:
    """One section of a job file. Options have fio's names and values; an option that is `None` is
    left out."""

    def __init__(self, name: str, /, **options: Any) -> None:
        self.name = name
        self.options = options

    def __str__(self) -> str:
        return f"[{self.name}]\n" + "".join(_lines(self.options))

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Job({self.name!r}{given})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and str(self) == str(other)

    __hash__ = None  # type: ignore[assignment]


#: The text or the path of a job file, one job, several, or a mapping of section names ("global"
#: first) to options, each a mapping or a dataclass.
Jobs = Union[str, "os.PathLike[str]", Job, Iterable[Job], Mapping[str, Any]]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (list, tuple)):
        return ":".join(_value(part) for part in value)
    return str(value)


def _lines(options: Mapping[str, Any]) -> Iterable[str]:
    for name, value in options.items():
        if value is None:
            continue
        text = _value(value)
        if "\n" in text or "\n" in name or "=" in name:
            raise RequestError(f"option {name!r} of a job has a line break or a `=` in its name")
        yield f"{name}={text}\n"


def _section(name: str, options: Any) -> str:
    if dataclasses.is_dataclass(options) and not isinstance(options, type):
        options = dataclasses.asdict(options)
    if not isinstance(options, Mapping):
        raise RequestError(f"section {name!r} of a job is a mapping or a dataclass of options")
    return str(Job(name, **options))


def text_of(jobs: Jobs) -> tuple[str, str | None]:
    """The name of a job file, and its text unless it is a file already."""
    if isinstance(jobs, os.PathLike):
        return os.fspath(jobs), None
    if isinstance(jobs, str):
        return ("job.fio", jobs) if "\n" in jobs or jobs.lstrip().startswith("[") else (jobs, None)
    if isinstance(jobs, Job):
        return "job.fio", str(jobs)
    if isinstance(jobs, Mapping):
        return "job.fio", "\n".join(_section(name, options) for name, options in jobs.items())
    if isinstance(jobs, Iterable):
        return "job.fio", "\n".join(str(job) for job in jobs)
    raise RequestError(f"a job is text, a path, a Job, a list or a mapping of them: {jobs!r:.80}")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One number of a device file, and where it comes from."""

    name: str
    value: str
    source: str


@dataclasses.dataclass(frozen=True)
class Device:
    """A device: its device file, and what that says."""

    name: str
    model: str
    summary: str
    valid: str
    capacity_bytes: int
    parameters: tuple[Parameter, ...]
    toml: str = dataclasses.field(repr=False)

    @classmethod
    def from_toml(cls, toml: str | os.PathLike[str]) -> Device:
        """The device of a device file, given as text or by its path."""
        if isinstance(toml, os.PathLike) or "\n" not in toml:
            name = os.fspath(toml)
            try:
                text = Path(name).read_text(encoding="utf-8")
            except OSError as error:
                raise RequestError(f"device file {name}: {error.strerror}") from error
        else:
            name, text = "device.toml", toml
        name = name if name.endswith(".toml") else f"{name}.toml"
        told = json.loads(_native.document(["devices", name, "--format=json"], {name: text}, False))
        return cls._told(told, text)

    @classmethod
    def _told(cls, told: dict[str, Any], text: str) -> Device:
        parameters = tuple(Parameter(**parameter) for parameter in told["parameters"])
        names = ("name", "model", "summary", "valid", "capacity_bytes")
        return cls(parameters=parameters, toml=text, **{name: told[name] for name in names})


def device(name: str) -> Device:
    """The catalog's device of this name."""
    told = json.loads(_native.document(["devices", name, "--format=json"], {}, False))
    return Device._told(told, _native.device_file(name) or "")


def devices() -> list[Device]:
    """Every device of the catalog."""
    listed = json.loads(_native.document(["devices", "--format=json"], {}, False))["devices"]
    return [device(each["name"]) for each in listed]


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A setting of a scheduler, by its sysfs name."""

    name: str
    path: str
    value: str
    unit: str
    takes: str
    help: str


@dataclasses.dataclass(frozen=True)
class Scheduler:
    """A scheduler with its attributes and their defaults."""

    name: str
    summary: str
    attributes: tuple[Attribute, ...]


def schedulers() -> list[Scheduler]:
    """Every scheduler that comes with the program."""
    listed = json.loads(_native.document(["schedulers", "--format=json"], {}, False))["schedulers"]

    def scheduler(name: str) -> Scheduler:
        told = json.loads(_native.document(["schedulers", name, "--format=json"], {}, False))
        attributes = tuple(Attribute(**attribute) for attribute in told["attributes"])
        return Scheduler(told["name"], told["summary"], attributes)

    return [scheduler(each["name"]) for each in listed]


def seeds_of(given: Any) -> list[int]:
    """Seeds, one or several, of any integer type."""
    try:
        several = [operator.index(given)]
    except TypeError:
        several = []
        if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
            raise RequestError(f"seeds are integers: {given!r}") from None
        for seed in given:
            try:
                several.append(operator.index(seed))
            except TypeError:
                raise RequestError(f"seeds are integers: {seed!r}") from None
    for seed in several:
        if not 0 <= seed < 1 << 64:
            # Python may refuse to print a number of more than 640 decimal digits.
            told = hex(seed) if seed.bit_length() > 2000 else seed
            raise RequestError(f"seed {told}: it is 0 to 18446744073709551615")
    return several
