"""Files that lie elsewhere, on web servers, in object stores or in archives, through fsspec, which nobody else imports.

`folders` is for those who publish and read back, here or elsewhere; a local folder has no part in the rest. A recording that is
elsewhere is fetched whole into a bounded cache on the disk and read there, so that its samples are those of a local file; a
large one of which little is wanted is read in ranges (`Remote.ranges`).
"""
