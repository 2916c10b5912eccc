"""openpyxl's reader of .xlsx workbooks, without the parts of which nothing is read."""

from typing import IO, Any

from openpyxl.chartsheet import Chartsheet
from openpyxl.reader.excel import ExcelReader
from openpyxl.workbook.defined_name import DefinedNameList


class _SheetsReader(ExcelReader):  # type: ignore[misc]
    """Reads neither charts, nor names of ranges, nor links to other workbooks.

    A drawing or a linked workbook may be named by many sheets, and would be read for each.
    """

    def read_workbook(self) -> None:
        """Read the list of sheets, and drop the names of ranges."""
        super().read_workbook()
        self.parser.defined_names = DefinedNameList()

    def read_chartsheet(self, sheet: Any, rel: Any) -> None:
        """Add a chart sheet without its drawing."""
        del rel
        self.wb._sheets.append(Chartsheet(parent=self.wb, title=sheet.name))


def load_sheets(file: IO[bytes], *, formulas: bool) -> Any:
    """Return a workbook whose worksheets are read row by row, as openpyxl's `load_workbook` does.

    Cells have their stored values, or `formulas` where they have one.
    """
    reader = _SheetsReader(file, read_only=True, data_only=not formulas, keep_links=False)
    reader.read()
    return reader.wb
