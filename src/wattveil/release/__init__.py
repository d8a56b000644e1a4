"""JOINT. Release functions: private rows meet mechanisms here and nowhere else.

Whatever a name of this package returns is safe to publish under the guarantee that comes with it.
"""
