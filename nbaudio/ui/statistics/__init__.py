"""Statistics of a workspace or a corpus.

The command `stats`, the sections of its page, and their HTML and .xlsx.
"""
