"""Public names of a package that are loaded when they are first used (PEP 562)."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module

from wattveil.errors import require_release_extra


def lazy_names(
    package: str, modules: Mapping[str, str], *, of_release: Collection[str] = ()
) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package: the module of each name, relative to the package.

    A module that begins with a dot is relative to the package above. Names of the modules
    ``of_release`` need the extra `release`, which the error names.
    """

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] in of_release:
            require_release_extra(f"{package}.{name}")
        found: object = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, found)
        return found

    return load
