"""What everything rests on: errors, times, table schemas, workspace, report, progress, names, hashing and the run log."""
