"""The steps `recognize` and `measure`, with models that are Python callables or commands."""
