"""Proof: the precision of labels against the threshold on similarity, from reviewers' verdicts.

See docs/evidence-method.md.
"""
