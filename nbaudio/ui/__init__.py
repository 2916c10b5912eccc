"""What people see: widgets, plots, table views and pages."""
