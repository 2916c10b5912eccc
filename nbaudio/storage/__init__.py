"""Storage of files, on this machine and remote.

It has URLs, remote files and folders, cache, retries, archives, uploads, resumable transfers, run
logs, and the workspace.
"""
