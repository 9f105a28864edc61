"""Answer only when it is safe: thresholds on the confidence with a guaranteed error rate.

If you choose the threshold at which the *observed* error stays below a limit, the error on new data
exceeds the limit about every other time. `certify` tests each threshold of a grid that is fixed in
advance (Learn then Test, Angelopoulos et al., 2021). It returns a threshold only if
P(wrong | answered) <= risk holds with probability at least 1 - delta over the calibration samples,
for inputs of the known classes, or with strangers among them. Nothing here imports more of ours
than arrays/. Read certificate.py first, then search.py.
"""

from .certificate import Certificate, Scope, Threshold
from .search import certify

__all__ = ["Certificate", "Scope", "Threshold", "certify"]
