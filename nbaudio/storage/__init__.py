"""Atomic files, locks, URLs, remote files and folders, cache, retries, archives, uploads, downloads, and the workspace."""
