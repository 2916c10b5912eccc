"""Statistics of a workspace or a corpus.

Here are the command `stats`, the sections of its page, and their HTML and .xlsx.
"""
