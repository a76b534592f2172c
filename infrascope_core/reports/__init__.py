"""What a person reads: the episodes of a run, the verdict on it, and the summary of a folder.

From tables to text: `episodes` merges anomalous windows and explains them (`carriers`, `states`, `broken_rules`,
`retransmissions`); `verdict` makes one `RunReport` (`model`) of them, with `limits` and `next_steps`; `rendering` turns
it into text; `summary` looks at a whole folder.

A new section of the report begins as a field of the `model`, is filled by `verdict`, and is shown by the layouts of
`rendering`. Another form of it, such as an HTML page, goes beside `rendering` as a package of its own (`page/`), takes
the same `RunReport`, and is named with the other files that the product `anomaly_report` leaves (`products`).
"""
