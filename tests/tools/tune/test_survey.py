"""The file of a survey, and models of what it measured."""

import json

from tilewright.core.gpus import find_gpu
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice
from tilewright.select.tables.table import SurveyModels
from tilewright.tools.tune.fitting import fit
from tilewright.tools.tune.survey import Surveyed, SurveyFile


def test_a_file_with_configs_that_are_gone_is_gone_on_with(tmp_path):
    kernel = find("split_k")
    choices = [Choice(kernel, kernel.config()), Choice(kernel, kernel.config(kernel.presets["large"]))]
    found = Surveyed(Problem(8, 8, 8), {choices[0]: 1.0}, {choices[0]: 2.0, choices[1]: 30.0}, {"torch.mm": 3.0})
    path = tmp_path / "survey.jsonl"
    path.write_text(json.dumps({"kernel": "no_such_kernel", "config": {}}) + "\n")
    SurveyFile(path).add(found)
    again = SurveyFile(path)
    assert again.found == [found]
    again.add(found)
    assert SurveyFile(path).found == [found, found]
    assert sum("kernel" in json.loads(line) for line in path.read_text().splitlines()) == 3, "each config is named once"


def test_of_a_survey_that_measured_nothing_there_are_no_models():
    assert fit([], find_gpu("NVIDIA H100 80GB HBM3", (9, 0))) == SurveyModels()
