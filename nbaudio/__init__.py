"""Long recordings, their transcripts and a recogniser's hypotheses into a training corpus whose label quality is known."""
