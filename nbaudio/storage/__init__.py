"""Storage of files, on this machine and remote.

It has URLs, remote files and folders, cache, retries, archives, uploads, downloads, run logs, and
the workspace.
"""
