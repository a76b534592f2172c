"""What a large data set costs: a file, the lake, memory, fits. `make bench-fleet`."""
