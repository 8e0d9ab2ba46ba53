"""Is it the same training? Traces of two runs, compared step by step against the noise of the run itself."""
