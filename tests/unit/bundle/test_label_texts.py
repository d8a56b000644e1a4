"""What card and dossier say of labels: the factors follow from the published channel."""

import json
import math
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from tests.sample_bundles import EVERYTHING
from wattveil.bundle.bundle_files import MANIFEST
from wattveil.bundle.label_texts import segment_ratio, total_text
from wattveil.bundle.verify.verify_budget import channel_epsilon


def test_a_label_changes_the_odds_of_two_segments_by_the_stated_factor(whole: Path) -> None:
    """By Bayes' rule over all pairs and labels; both factors are rounded up, never down."""
    manifest = json.loads((whole / MANIFEST).read_text())
    (stated,) = (part["channel"] for part in manifest["products"] if part["name"] == "labels")
    channel = [[int(parts) for parts in row] for row in stated]
    table = np.array(channel, dtype=float)[:-1] / 2.0**62
    prior = np.array([0.5, 0.3, 0.2])
    posterior = prior[:, None] * table / (prior @ table)
    odds = max(
        (posterior[one, label] / posterior[other, label]) / (prior[one] / prior[other])
        for one, other in permutations(range(3), 2)
        for label in range(3)
        if posterior[other, label] > 0.0
    )
    assert segment_ratio(channel) == pytest.approx(odds, rel=1e-9)
    assert EVERYTHING.label_epsilon is not None
    own = math.exp(channel_epsilon(stated))
    assert own < odds <= math.exp(2.0 * EVERYTHING.label_epsilon) * (1.0 + 1e-9)
    text = total_text(manifest)
    label, segments = (float(one) for one in re.findall(r"at most ([\d.]+\d)", text))
    assert math.exp(EVERYTHING.label_epsilon) <= label <= math.exp(EVERYTHING.label_epsilon) * 1.01
    assert odds <= segments <= odds * 1.01


def test_the_ratio_by_hand() -> None:
    """The row without readings does not count; a label that is never published neither."""
    assert segment_ratio([[6, 2, 0], [3, 5, 0], [1, 7, 0]]) == 2.5
    assert segment_ratio([[8], [8]]) == 1.0
    assert segment_ratio([[8, 0], [4, 4], [4, 4]]) == math.inf
