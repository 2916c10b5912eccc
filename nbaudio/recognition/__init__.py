"""The step `recognize`: hypotheses of a recognizer, given as a Python callable or a command."""
