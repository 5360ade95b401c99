"""What is a secret and what is an identity.

A leaf: standard library only, no import of ours, so that the recorder can use it inside a training process.
"""
