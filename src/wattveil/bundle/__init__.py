"""RELEASED. A release on disk: tables, manifest, report, and how to verify it.

Everything written here was released before: private rows pass through `produce` on their way to an
estimator, and nothing of them stays.

>>> from wattveil.bundle import ReleaseRequest, plan_release
>>> from wattveil.profiles import TimeGrid
>>> request = ReleaseRequest(epsilon=1.0, n_clusters=2, clip_kw=10.0, customers=500)
>>> plan_release(request, TimeGrid()).guarantee.epsilon
1.0
"""

from typing import TYPE_CHECKING

from wattveil.lazy_names import lazy_names

if TYPE_CHECKING:
    from wattveil.bundle.keys import read_key, read_public_key
    from wattveil.bundle.plan import ReleasePlan, plan_release
    from wattveil.bundle.produce import release_bundle
    from wattveil.bundle.release_tables import Bundle, read_bundle
    from wattveil.bundle.verify.verify_bundle import VerificationReport, verify_bundle
    from wattveil.products.request import About, ReleaseRequest

__all__ = [
    "About",
    "Bundle",
    "ReleasePlan",
    "ReleaseRequest",
    "VerificationReport",
    "plan_release",
    "read_bundle",
    "read_key",
    "read_public_key",
    "release_bundle",
    "verify_bundle",
]

if not TYPE_CHECKING:  # a name is loaded when it is first used
    __getattr__ = lazy_names(
        __name__,
        {
            "About": ".products.request",
            "Bundle": "release_tables",
            "ReleasePlan": "plan",
            "ReleaseRequest": ".products.request",
            "VerificationReport": "verify.verify_bundle",
            "plan_release": "plan",
            "read_bundle": "release_tables",
            "read_key": "keys",
            "read_public_key": "keys",
            "release_bundle": "produce",
            "verify_bundle": "verify.verify_bundle",
        },
        of_release=["plan", "produce"],
    )


def __dir__() -> list[str]:
    return list(__all__)
