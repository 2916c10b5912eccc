"""The ordered notebooks, run unattended: a manifest's parameters in, executed notebooks, pages, a workspace and a corpus out.

OUT/notebooks/NN_name.ipynb   each notebook as it ran
OUT/html/NN_name.html         the same as a page that needs neither Jupyter nor a network
OUT/html/index.html           a list of the pages, which are linked with each other
OUT/workspace  OUT/corpus     what the notebooks made, unless the manifest names other folders

`manifests` reads parameters, `executing` runs one notebook, `running` all of them, `pages` links the pages with each other,
`troubles` checks the demo.
"""

from nbaudio.runs.manifests import parse_settings
from nbaudio.runs.run import demo, run

__all__ = ["demo", "parse_settings", "run"]
