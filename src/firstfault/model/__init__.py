"""The nouns of firstfault and its closed word lists; no input or output, imports nothing of ours."""
