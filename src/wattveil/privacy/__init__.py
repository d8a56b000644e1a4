"""The privacy kernel: what may be promised, what it costs, and the only code that adds noise.

Read in this order: `guarantee` (the promise), `accounting` (what it costs), `budget` (charge, then
compute), `sensitivity` (how much one customer can move a sum), `noise` (the only draws),
`secret` (private and released values apart), `mechanisms` (all of it together).
"""
