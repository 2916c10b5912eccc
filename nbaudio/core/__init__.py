"""Basics of all rooms.

They are errors, times, reports, progress, hashing, input guards, atomic files and locks.
"""

import os

# For the allocator of polars (jemalloc), which reads the environment once, when polars is imported.
# By default it keeps freed pages for ten seconds: 150 MB more where 447,542 segments are read.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0")
# Polars reads one row group ahead of what it computes with, not several: 200 MB less where a wide
# table of 450,000 segments is divided, at the same speed.
os.environ.setdefault("POLARS_ROW_GROUP_PREFETCH_SIZE", "1")
