"""One module per foreign layout: its reader and, where there is one, its writer."""
