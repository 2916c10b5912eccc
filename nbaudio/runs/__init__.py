"""Unattended runs of the notebooks: parameters of a manifest in; executed notebooks, HTML pages, workspace and corpus out.

They are OUT/notebooks, OUT/html with an index.html, and OUT/workspace and OUT/corpus unless the manifest names other folders.
"""
