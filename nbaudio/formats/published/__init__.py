"""Tables of datasets that others published, read by ranges without their audio."""
