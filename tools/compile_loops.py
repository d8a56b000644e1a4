"""Compile the loops once, so that test processes that start together do not each do it."""

import datetime as dt

import numpy as np

from wattveil import LeaveOneOutKMeans, LoadSynthesizer, PrivateKMeans, YearSynthesizer
from wattveil.numerics.measures.fidelity_measures import slot_distance
from wattveil.profiles import Split
from wattveil.simulate import simulate_load_kw

homes_kw = simulate_load_kw(customers=60)
fortnight_kw = np.tile(homes_kw, 14)
years = YearSynthesizer(first_day=dt.date(2025, 3, 3), split=Split.WEEKDAY_WEEKEND)
PrivateKMeans().fit(homes_kw)
LeaveOneOutKMeans().fit(homes_kw)
sampled_kw, _ = LoadSynthesizer().fit(homes_kw).sample(10, random_state=1)
slot_distance(homes_kw, sampled_kw)
years.fit(fortnight_kw).sample(10, random_state=1)
