"""The collector: one file a probe, and the recorder that samples them while a command runs."""
