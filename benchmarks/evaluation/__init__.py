"""`make evaluate`: the fixed suite of known faults, and the page that is made from it (docs/adr/0015)."""
