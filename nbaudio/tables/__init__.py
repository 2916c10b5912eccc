"""Tables that need not fit into memory."""
