"""All that can be compared, by name, in the order of tables."""

from dataclasses import dataclass

from wattveil.baselines import (
    balcan_2017,
    blum_2005,
    gaussian_lloyd,
    global_tier,
    ibm_diffprivlib,
    instance_tier,
    lu_shen_2020,
    ni_2021,
    private_mean,
    ren_2017,
    su_2016,
    uniform_grid,
    xia_2020,
    yu_2016,
)
from wattveil.baselines.outcome import Fit


@dataclass(frozen=True)
class Mechanism:
    """One line of a comparison."""

    title: str
    fit: Fit
    most_slots: int | None = None
    """It cannot do more columns."""
    compiles: bool = False
    """Its first use in a process translates code to machine code, unless that is kept on disk."""


MECHANISMS = {
    "global": Mechanism("Wattveil, global tier", global_tier.fit),
    "instance-coloured": Mechanism(
        "Wattveil, instance tier, coloured", instance_tier.fit_coloured, compiles=True
    ),
    "instance-white": Mechanism(
        "Wattveil, instance tier, white", instance_tier.fit_white, compiles=True
    ),
    "paper": Mechanism("The paper's calibration, coloured", instance_tier.fit_paper, compiles=True),
    "gaussian-lloyd": Mechanism("DP-Lloyd, Gaussian", gaussian_lloyd.fit),
    "blum-2005": Mechanism("DP-Lloyd, Laplace (Blum et al. 2005)", blum_2005.fit),
    "su-2016": Mechanism("DP-Lloyd, improved (Su et al. 2016)", su_2016.fit),
    "uniform-grid": Mechanism(
        "Uniform grid (Su et al. 2016)", uniform_grid.fit, most_slots=uniform_grid.MOST_SLOTS
    ),
    "yu-2016": Mechanism("Yu et al. 2016", yu_2016.fit),
    "balcan-2017": Mechanism("Balcan et al. 2017", balcan_2017.fit),
    "ren-2017": Mechanism("Ren et al. 2017", ren_2017.fit),
    "xia-2020": Mechanism("Xia et al. 2020, local", xia_2020.fit),
    "lu-shen-2020": Mechanism("Lu and Shen 2020", lu_shen_2020.fit),
    "ni-2021": Mechanism("Ni et al. 2021", ni_2021.fit),
    "diffprivlib": Mechanism("diffprivlib 0.6", ibm_diffprivlib.fit),
    "mean": Mechanism("One private mean for all", private_mean.fit),
}
