"""What a person reads: episodes, the verdict on a run, and the summary of a folder."""
