"""The site prints formulas as formulas, and leaves everything else as it is written."""

import pytest
from markdown import markdown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("e^ε", "e<sup>ε</sup>"),
        ("2^-52 and e^{-800}", "2<sup>-52</sup> and e<sup>-800</sup>"),
        ("x_p", "<span>x<sub>p</sub></span>"),
        ("x_i,t", "<span>x<sub>i,t</sub></span>"),
        ("max_t x", "<span>max<sub>t</sub></span> x"),
        ("h_{γ e^{-η}}", "<span>h<sub>γ e<sup>-η</sup></sub></span>"),
    ],
)
def test_signs_are_raised_and_lowered(written: str, shown: str) -> None:
    """An exponent goes up and an index down, one within the other too."""
    assert markdown(written, extensions=["tools.formulas"]) == f"<p>{shown}</p>"


@pytest.mark.parametrize(
    "written",
    ["`e^{x_p}`", "n_slots", "_much_ of it", "[a](b_c.md)", "load_kw_1", "a ^ b", "    x_p = e^2"],
)
def test_all_else_stays(written: str) -> None:
    """Code, names, emphasis and links come out as without the extension."""
    assert markdown(written, extensions=["tools.formulas"]) == markdown(written)
