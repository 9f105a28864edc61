"""Many runs: where they are trained, what is searched, which candidate is chosen, and what a person sees of it."""
