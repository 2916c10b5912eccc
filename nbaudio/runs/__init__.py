"""Unattended runs of the notebooks: parameters of a manifest in; executed notebooks, HTML pages, workspace and corpus out.

OUT/notebooks/NN_name.ipynb   executed notebooks
OUT/html/NN_name.html         the same as pages that need neither Jupyter nor a network
OUT/html/index.html           index of the pages
OUT/workspace  OUT/corpus     unless the manifest names other folders
"""
