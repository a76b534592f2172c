"""Pooled assets, their checks, and the jobs and schedules over them."""
