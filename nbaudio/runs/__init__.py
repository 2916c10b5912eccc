"""Unattended runs of the notebooks: parameters of a manifest in; executed notebooks, HTML pages, workspace and corpus out."""
