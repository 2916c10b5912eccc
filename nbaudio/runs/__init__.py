"""Unattended runs of the notebooks: parameters of a manifest in.

Executed notebooks, HTML pages, workspace and corpus out.
"""

from nbaudio.core.home_folder import ensure_home

ensure_home()  # the packages of Jupyter look for it where they are imported
