"""What the verdicts of reviewers prove: precision against the threshold on similarity, with intervals that hold.

`weights` turns rounds of review into one weighted sample, `intervals` bounds weighted sums, `curves` puts both together for every
threshold at once, and `evidence` is the command. docs/evidence.md has the method and how it was tested.
"""
