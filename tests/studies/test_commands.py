"""Commands of studies that the documentation names are there."""

import importlib.util
import re

import pytest

ALONE = ("CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "README.md")
FOLDERS = ("docs/*.md", "docs/tools/*.md")


def commands(root):
    """The modules that are run, and the word behind each."""
    for page in (*map(root.joinpath, ALONE), *(page for folder in FOLDERS for page in root.glob(folder))):
        yield from re.findall(r"python -m studies\.([a-z][\w.]*)(?: (measure|write)\b)?", page.read_text())


def test_every_command_is_a_module_that_takes_it(request):
    found = set(commands(request.config.rootpath))
    assert len(found) > 12
    for name, verb in found:
        spec = importlib.util.find_spec(f"studies.{name}")
        assert spec, name
        main = f"studies.{name}.__main__" if spec.submodule_search_locations else f"studies.{name}"
        text = importlib.util.find_spec(main).loader.get_source(main)
        assert '__name__ == "__main__"' in text
        assert bool(verb) == ("(run(" in text.partition('__name__ == "__main__"')[2]), f"{name} {verb}"


@pytest.mark.parametrize("name", ["worklog", "performance", "tuning", "frameworks", "scaling"])
def test_make_docs_writes_every_page(request, name):
    assert (name, "write") in set(commands(request.config.rootpath))
