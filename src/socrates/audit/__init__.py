"""Judge predictions on disk that any framework wrote: whether their confidence can be trusted.

The modules follow the data: `read` opens a format, `understand` finds out what the columns mean (a
`layout`), `predictions` yields good `rows` and `faults`, `measure` sums, `judge` computes every
number of a file (`recalibrate` and `compare` those of scalers and of several files), `answer` says
it in words and `page` shows it. The package may import metrics, scaling, abstention, records and
report, never the engine. Read `run.audit` first: it goes the whole way.
"""
