"""What the commands of records and their tables do with files that are not there, or are others'."""

import pytest

from studies.float32_way import measuring as float32_way
from studies.float32_way import tables as reported_float32_way
from studies.sustained import measuring as sustained
from studies.sustained import tables as reported_sustained
from tilewright.errors import RecordsError

TABLES = {
    "float32_way": (reported_float32_way.section, reported_float32_way.RECORDS),
    "sustained": (reported_sustained.section, reported_sustained.RECORDS[1]),
}


@pytest.mark.parametrize(("section", "records"), TABLES.values(), ids=TABLES)
def test_without_records_there_is_no_table(section, records, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert section() == ""
    records.parent.mkdir(parents=True)
    records.write_text("{}")
    with pytest.raises(RecordsError, match="not a file of records"):
        section()


@pytest.mark.parametrize("main", [float32_way.main, sustained.main], ids=["float32_way", "sustained"])
def test_a_file_of_another_kind_is_not_written_over(main, tmp_path, capsys):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    assert main(["--out", str(path)]) != 0
    assert "error: " in capsys.readouterr().err
    assert path.read_text() == "mine"
