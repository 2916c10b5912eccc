"""User interface: widgets, plots, table views and pages."""
