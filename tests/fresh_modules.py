"""Import modules anew for a test, and leave the process as it was found."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fresh_modules(*prefixes: str) -> Iterator[None]:
    """Forget the loaded modules whose names begin so; restore them, and their packages, afterwards.

    A module is an entry of `sys.modules` and an attribute of its package. An import within the
    context replaces both; restoring the entry alone would leave a package whose submodules belong
    to another copy.
    """
    before = {name: one for name, one in sys.modules.items() if name.startswith(prefixes)}
    parents = {name.rpartition(".")[0] for name in before} - before.keys() - {""}
    held = {name: dict(vars(sys.modules[name])) for name in parents}
    for name in before:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [one for one in sys.modules if one.startswith(prefixes)]:
            del sys.modules[name]
        sys.modules.update(before)
        for name, attributes in held.items():
            vars(sys.modules[name]).update(attributes)
