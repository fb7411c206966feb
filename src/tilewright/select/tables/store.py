"""Where tables lie: those that ship with the package, and the user's own, which come first."""

import os
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import platformdirs

from tilewright.core.dtypes import INT8
from tilewright.core.errors import RecordsError
from tilewright.core.gpus import Gpu, find_gpu
from tilewright.select.tables.entry import Entry
from tilewright.select.tables.table import ModelsByType, SurveyModels, Table, file_name

FOLDER_VARIABLE = "TILEWRIGHT_TABLES"
"""Environment variable that names another folder for the user's tables."""

SHIPPED = Path(__file__).parent


def user_folder() -> Path:
    """The folder of the user's tables: $TILEWRIGHT_TABLES, or one in the user's data folder; it need not exist yet."""
    return Path(os.environ.get(FOLDER_VARIABLE) or platformdirs.user_data_path("tilewright") / "tables")


@lru_cache
def load(gpu: str) -> tuple[Table, ...]:
    """The tables of a GPU, the user's before the shipped one; read once in a process.

    A user's table that cannot be read is warned of and left out.
    """
    ships = SHIPPED / file_name(gpu)
    found = [table for table in ([_shipped(ships)] if ships.is_file() else []) if table.gpu == gpu]
    path = user_folder() / file_name(gpu)
    if path.is_file():
        try:
            found.insert(0, Table.load(path))
        except RecordsError as error:
            warnings.warn(f"a table is left out: {error}", RuntimeWarning, stacklevel=2)
    return tuple(found)


@lru_cache
def _shipped(path: Path) -> Table:
    return Table.load(path, checked=False)


def shipped() -> tuple[Table, ...]:
    """Every table that ships with the package."""
    return tuple(_shipped(path) for path in sorted(path for path in SHIPPED.iterdir() if path.suffix == ".json"))


def of_gpu(device: str, capability: tuple[int, int]) -> list[Table]:
    """The tables of a GPU, and after them those that ship of others: first of its compute capability."""
    others = (one for one in shipped() if one not in load(device))
    return [*load(device), *sorted(others, key=lambda one: one.capability != capability)]


@lru_cache
def fitted(device: str, capability: tuple[int, int], dtype: str) -> tuple[Gpu, SurveyModels]:
    """Models for factors of a type, of the first table `of_gpu` that has some, and what GPU that is of.

    float16 has bfloat16's, and so have float8 factors; uint8 has int8's. Those of the other types come last: models of
    kernels for factors that were not surveyed, as of TF32, follow from them.
    """
    tables, others = of_gpu(device, capability), ("bfloat16", "float32")
    types = ("float32", "bfloat16") if dtype == "float32" else (INT8[0], *others) if dtype in INT8 else others
    first = next((one for one in tables if one.models.get(types[0])), None)
    if first is None:
        return find_gpu(device, capability), SurveyModels()
    of_gpus = [one for one in tables if one.gpu == first.gpu]
    found = [next((one.fitted[kind] for one in of_gpus if one.models.get(kind)), SurveyModels()) for kind in types]
    configs = [one for models in found for one in models.configs]
    return find_gpu(first.gpu, first.capability), SurveyModels(configs, found[0].correction)


def device_of(gpu: Gpu) -> str:
    """The driver's name of a GPU: its name in the table of it that ships, if one does, and else its name here."""
    return next((table.gpu for table in shipped() if find_gpu(table.gpu, table.capability) == gpu), gpu.name)


def forget() -> None:
    """Read the user's tables anew when they are asked for next."""
    load.cache_clear()
    fitted.cache_clear()


def save(gpu: str, capability: tuple[int, int], entries: Sequence[Entry], models: ModelsByType | None = None) -> Path:
    """Add entries to the user's table of a GPU, and models, and return its file. A damaged table is set aside, with a
    warning.

    Raises:
        RecordsError: the file cannot be written.
    """
    path = user_folder() / file_name(gpu)
    table = Table(gpu, capability)
    if path.exists():
        try:
            table = Table.load(path)
        except RecordsError as error:
            aside = path.with_suffix(".damaged")
            path.replace(aside)
            warnings.warn(f"the table is begun anew, the old one is now {aside}: {error}", RuntimeWarning, stacklevel=2)
    table.merged(entries, models).save(path)
    forget()
    return path
