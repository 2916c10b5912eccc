"""Freed memory goes back to the system soon: imported before polars, since its allocator looks at the environment once.

As it comes, that allocator (jemalloc) keeps freed pages for ten seconds: 150 MB more where 447,542 segments are read.
"""

import os

os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0")
