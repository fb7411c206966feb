"""Kernels that are checked side by side, in stages."""

import threading
from types import SimpleNamespace

import pytest

from tilewright.core.problem import Problem, Scalars
from tilewright.kernels import find
from tilewright.tools.bench.case import CheckCase
from tilewright.tools.bench.check_runs import CheckJob, run_jobs

NAIVE, TILED = find("naive"), find("shared_tiled")


def case(kernel, m, **config):
    return CheckCase(Problem(m, 64, 64), Scalars(), kernel.config(config))


def outcome(case, faulty):
    return SimpleNamespace(case=case, clean=case.problem.m not in faulty)


def check(jobs, faulty=(), workers=2):
    def run(job, cases):
        return (outcome(one, faulty) for one in cases)

    return [
        (job.kernel, [one.case.problem.m for one in found], error) for job, found, error in run_jobs(jobs, run, workers)
    ]


STAGES = [[case(NAIVE, 1), case(NAIVE, 64)], [case(NAIVE, 2), case(NAIVE, 3, BLOCK_X=16)], [case(NAIVE, 4)]]


@pytest.mark.parametrize(("faulty", "run"), [((), [1, 64, 2, 3, 4]), ((64,), [1, 64]), ((3,), [1, 64, 2, 3])])
def test_no_stage_begins_behind_one_that_has_found_a_fault(faulty, run):
    assert check([CheckJob(NAIVE, NAIVE.config(), STAGES)], faulty) == [(NAIVE, run, None)]


def test_each_kernel_ends_for_itself_and_they_come_in_their_order():
    jobs = [
        CheckJob(NAIVE, NAIVE.config(), STAGES),
        CheckJob(TILED, TILED.config(), [[case(TILED, 5)], [case(TILED, 6)]]),
    ]
    assert check(jobs, (2,)) == [(NAIVE, [1, 64, 2, 3], None), (TILED, [5, 6], None)]


def test_the_error_of_a_kernel_is_given_with_it():
    def run(job, cases):
        for one in cases:
            if one.problem.m == 2:
                raise ValueError("as planted")
            yield outcome(one, ())

    (_job, found, error), *rest = run_jobs([CheckJob(NAIVE, NAIVE.config(), STAGES)], run, 2)
    assert [one.case.problem.m for one in found] == [1, 64]
    assert str(error) == "as planted"
    assert not rest


def test_cases_of_other_code_run_side_by_side():
    """Each waits for the other: the first has whole tiles, the second has not."""
    together = threading.Barrier(2, timeout=20)

    def run(job, cases):
        together.wait()
        return (outcome(one, ()) for one in cases)

    jobs = [CheckJob(NAIVE, NAIVE.config(), [[case(NAIVE, 1), case(NAIVE, 64), case(NAIVE, 2)]])]
    ((_, found, error),) = run_jobs(jobs, run, 2)
    assert error is None
    assert [one.case.problem.m for one in found] == [1, 64, 2]
