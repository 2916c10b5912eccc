"""Tables of workspaces and corpora: schemas, files, rules, conditions, buckets."""
