"""Where customers are kept, and how what they add is added up: here, or on many machines.

`Rows` is all that a release sees of a place. It does two things there: it applies a function to
blocks of customers, and it adds up whole numbers. Both give the same on every engine, to the bit:
what a function returns of a customer depends on that customer alone, and whole numbers have no
order of addition. Clipping, the grid and the noise are not here: they are in the kernel.
"""
