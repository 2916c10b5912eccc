"""`nbaudio download`: lists, fetches with resume and checksums, and the ledger of what failed."""
