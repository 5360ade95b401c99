"""What is a secret and what is an identity.

A leaf: standard library only, and of ours nothing but `firstfault.model.lazy`, which is such a leaf too, so that the recorder
can use it inside a training process.
"""
