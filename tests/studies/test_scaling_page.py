"""The page of products on several GPUs."""

from pathlib import Path

import pytest

from studies.scaling import page
from studies.templates import fill


@pytest.mark.further
def test_the_committed_page_is_what_the_model_says():
    text = Path("docs/scaling.md").read_text()
    assert fill(text, page.sections()) == text
