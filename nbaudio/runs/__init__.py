"""Unattended runs of the notebooks: parameters of a manifest in.

Executed notebooks, HTML pages, workspace and corpus out.
"""
