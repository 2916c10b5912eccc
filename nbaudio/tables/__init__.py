"""Tables of workspaces and corpora: schemas, files, reasons of rejection, conditions, buckets."""
