"""Tries what feeds a training job before it runs: loaders in a process of their own, manifests by their text. Must not print."""
