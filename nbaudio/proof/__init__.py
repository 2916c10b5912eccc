"""Proof: the precision of labels against the threshold on similarity, with confidence intervals, from reviewers' verdicts.

`sampling_weights` turns rounds of review into one weighted sample, `precision_curves` computes precision with its bounds for
every threshold, and `evidence` is the command. docs/evidence.md has the method and how it was tested.
"""
