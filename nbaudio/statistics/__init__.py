"""The figures of a workspace or a corpus: in a report, and on one page with tables and plots.

`stats` counts, `sections` makes the parts of the page, `page` writes them as HTML, `workbook` as a spreadsheet.
"""
