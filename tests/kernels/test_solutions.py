"""Exercises of the course: each page has a solution, of which `check` and the counters say what is printed with it."""

import pytest

from left_out import copied
from solutions import SOLUTIONS, applied, checked, counted, read, shapes
from tilewright.kernels import find
from tilewright.kernels.config import parse_overrides

TEXTS = SOLUTIONS.parent / "text"
PAGES = sorted(TEXTS.glob("[0-9][0-9]_*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_exercise_leads_to_its_solution(page):
    if page.stem in ("00_machine", "19_0_hopper"):  # which have no kernel
        return
    exercise = page.read_text().partition("## Exercise\n")[2].partition("\n## ")[0]
    assert f"](solutions/{page.name})" in exercise


def changed(kernel, folder, changes):
    """A kernel whose source, or a header that it includes, has changes."""
    if not changes:
        return kernel
    folder.mkdir()
    kernel = copied(kernel, folder)
    for name, hunks in changes:
        file = folder / name.removeprefix("kernels/").partition("/")[2]
        file.write_text(applied(file.read_text(), hunks))
    return kernel


def compared(before, after):
    """How the second of two numbers of registers is related to the first."""
    return "fewer" if after < before else "more" if after > before else "the same"


@pytest.mark.further
@pytest.mark.parametrize("page", sorted(SOLUTIONS.glob("[0-9]*.md")), ids=lambda page: page.stem)
def test_a_solution_does_what_its_page_says(page, tmp_path):
    solution, kernel = read(page), find(page.stem[3:])
    assert kernel.rung == int(page.stem[:2])
    assert solution.steps
    config = kernel.config(parse_overrides(solution.config), capability=(9, 0))
    made = [changed(kernel, tmp_path / str(place), step.changes) for place, step in enumerate(solution.steps)]
    for last, step in zip(made, solution.steps, strict=True):
        kinds = set().union(*(checked(last, config, shape)[0] for shape in shapes(last, config)))
        assert (", ".join(sorted(kinds)) or "nothing found") == step.findings
    sizes = tuple(map(int, solution.shape.split("x"))) if solution.rows else ()
    before = config if last is not kernel else kernel.config(capability=(9, 0))
    for name, *printed in solution.rows:
        after = [counted(name, one, config, sizes) for one in made[1 - len(printed) :]]
        found = [counted(name, kernel, before, sizes), *after]
        assert printed == (["", compared(*found)] if name == "registers" else found), name
