"""Proof: the precision of labels against the threshold on similarity, from reviewers' verdicts; see docs/evidence.md."""
