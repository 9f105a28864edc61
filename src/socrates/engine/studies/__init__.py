"""Many runs: where they are trained, what is searched, which candidate is chosen.

`runs.run_all` is the door: it hands the missing runs to an engine (local.py, ray.py; engine.py has
what they share). `tune.tune` searches hyperparameters on top of it; forecast.py says beforehand
what a study takes. Nothing here may import report, paper or cli.
"""
