"""Definitions by area: `runs` has a partition per run file, `fleet` pools all of them."""
