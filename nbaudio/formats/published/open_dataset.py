"""Find out how a published dataset is stored, and read its rows."""

from collections.abc import Mapping

from nbaudio.core.errors import InputError, get_by_name
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.published.dataset import USUAL_COLUMNS, Published
from nbaudio.formats.published.parquet_rows import PARQUET, read_parquet_rows


def read_published(
    files: DatasetFiles,
    *,
    configuration: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Published:
    """Read the rows of a dataset without its audio.

    Args:
        files: of the dataset.
        configuration: of a dataset of Hugging Face with several.
        options: by field of `dataset.USUAL_COLUMNS`, the column that holds it.

    Raises:
        InputError: the files are no dataset that can be read, or an option is unknown.
    """
    options = options or {}
    for name in options:
        get_by_name(USUAL_COLUMNS, name, "field")
    if files.ending(PARQUET):
        return read_parquet_rows(files, configuration=configuration, options=options)
    raise InputError(f"{files.place}: no dataset is recognized in it")
