"""Files here and elsewhere: atomic writes, input guards, URLs, range reads, archives, cache, retries, upload and download."""
