"""Statistics of a workspace or a corpus, as a report and as one page with tables and plots.

`stats` counts, `sections` makes the parts of the page, `page` writes them as HTML, `workbook` as a spreadsheet.
"""
