"""What goes into the corpus: `select` with its parameters, the grouping of splits and its report."""
