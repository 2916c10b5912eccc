"""Files to download: list, rate limit, requests with resume and checksums, and the ledger."""
