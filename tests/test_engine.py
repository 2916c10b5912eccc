"""Engines without their packages: what is refused, and how."""

import sys
import time

import joblib
import pytest

from nbaudio.engine import ENGINES, Site, run_tasks, workers
from nbaudio.errors import InputError, MissingExtraError
from nbaudio.sizes import parse_size


@pytest.mark.parametrize(
    ("engine", "site", "said"),
    [
        ("slurm", Site(), "known are loky"),
        ("loky", Site(address="tcp://h:1"), "takes no address"),
        ("dask", Site(beam_options="--runner=x"), "takes no Beam options"),
        ("ray", Site(jobs=0), "jobs must be 1 or more"),
    ],
)
def test_sites_that_an_engine_does_not_have_are_refused(engine, site, said):
    with pytest.raises(InputError, match=said):
        list(run_tasks(abs, [1], engine=engine, site=site))


@pytest.mark.parametrize(
    ("engine", "module"), {"dask": "distributed", "ray": "ray", "spark": "pyspark", "beam": "apache_beam"}.items()
)
def test_missing_package_is_named_with_its_extra(monkeypatch, engine, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"^{module}\S* is not installed: pip install 'nbaudio\[{engine}\]'$"):
        list(run_tasks(abs, [1], engine=engine))
    assert engine in ENGINES


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("engine", ["loky", "threading"])
def test_errors_come_home_as_they_were_raised(engine, jobs):
    with pytest.raises(InputError, match="'a lot' is not a size"):
        list(run_tasks(parse_size, ["1kB", "a lot", "2kB"], engine=engine, site=Site(jobs)))


class ListsOnly(joblib._parallel_backends.ThreadingBackend):
    """A backend that gives no result before all are there, as Ray's."""

    supports_return_generator = False


def test_backends_that_give_lists_only_are_given_few_tasks_at_once(monkeypatch):
    joblib.register_parallel_backend("ordered", ListsOnly)
    taken = []
    with joblib.parallel_config(backend="ordered", n_jobs=2), workers(None, Site()) as run:
        results = run(abs, (taken.append(number) or -number for number in range(1000)))
        next(results)
        assert 2 <= len(taken) <= 100
        assert len(list(results)) == 999


def test_no_thread_is_left_at_work_behind_an_error():
    at_work = []

    def work(what):
        if what == "bad":
            raise InputError("bad")
        at_work.append(what)
        time.sleep(0.05)
        at_work.remove(what)

    with pytest.raises(InputError, match="bad"):
        list(run_tasks(work, ["good", "bad", "good", "good"], engine="threading", site=Site(2)))
    assert at_work == []
