"""The step `ingest`: from transcripts and recordings to the tables of a workspace."""
