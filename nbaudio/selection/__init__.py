"""Select what goes into a corpus.

This has `select`, its parameters and report, the splits, their grouping and the leakage checks.
"""
