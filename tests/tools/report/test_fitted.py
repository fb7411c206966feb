"""Tables and lines that fit the terminal."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from tilewright.tools.report.fitted import Column, FittedTable, wrapped


def lines(table, columns):
    console = Console(width=columns, file=io.StringIO())
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.fixture
def table():
    made = FittedTable(
        Column("kernel"), Column("config", wraps=" "), Column("time", "right"), title="16x16x16", caption="a caption"
    )
    made.add_row("naive", "BM=128 BN=128 MIN_BLOCKS=2", "1.25 ms")
    made.add_row(Text("split_k", "bold"), "WORKERS=[2]", "")
    return made


def test_where_there_is_room_nothing_wraps(table):
    assert lines(table, 60) == [
        "16x16x16",
        "",
        " kernel    config                          time",
        " ──────────────────────────────────────────────",
        " naive     BM=128 BN=128 MIN_BLOCKS=2   1.25 ms",
        " split_k   WORKERS=[2]",
        "",
        "a caption",
    ]


def test_cells_wrap_behind_what_their_column_says(table):
    assert lines(table, 36)[2:-2] == [
        " kernel    config              time",
        " ──────────────────────────────────",
        " naive     BM=128 BN=128    1.25 ms",
        "           MIN_BLOCKS=2",
        " split_k   WORKERS=[2]",
    ]
    opcodes = FittedTable(Column("opcodes", wraps=", "), Column("all", "right"))
    opcodes.add_row("IMAD 27, SHF 12, LEA 10", "49")
    assert lines(opcodes, 24)[3:] == [" IMAD 27, SHF 12,    49", " LEA 10", ""]


def test_columns_move_together_before_cells_are_cut(table):
    assert " naive    BM=128        1.25 ms" in lines(table, 32)


def test_spare_columns_are_left_out_where_there_is_no_room():
    made = FittedTable(Column("kernel"), Column("in", spare=True), Column("error"), Column("share", spare=True))
    made.add_row("naive", "float32", "1e-07", "12%")
    assert lines(made, 40)[3] == " naive    float32   1e-07   12%"
    assert lines(made, 30)[3] == " naive    float32   1e-07"
    assert lines(made, 20)[3] == " naive    1e-07"


def test_where_no_table_fits_rows_are_lists(table):
    assert lines(table, 24) == [
        "16x16x16",
        "",
        "naive",
        "  config: BM=128 BN=128",
        "  MIN_BLOCKS=2",
        "  time: 1.25 ms",
        "split_k",
        "  config: WORKERS=[2]",
        "",
        "a caption",
    ]


def test_a_table_without_rows_has_its_headings():
    assert lines(FittedTable(Column("kernel"), Column("time")), 40)[1] == " kernel   time"


def test_lines_wrap_between_words_and_parameters():
    text = Text("  - naive is BM=64,BN=64,TM=4 of 1,234,567 blocks\nand one more")
    assert [line.plain for line in wrapped(text, 20, indent=4)] == [
        "  - naive is BM=64,",
        "    BN=64,TM=4 of",
        "    1,234,567 blocks",
        "and one more",
    ]


def test_lines_do_not_end_between_a_number_and_its_unit():
    text = Text("It takes 273.80 ms, 502 GFLOP/s, for 0.5 s or 17.2 G of 4 blocks and 32 warps")
    assert [line.plain for line in wrapped(text, 14)] == [
        "It takes",
        "273.80 ms,",
        "502 GFLOP/s,",
        "for 0.5 s or",
        "17.2 G of 4",
        "blocks and 32",
        "warps",
    ]
