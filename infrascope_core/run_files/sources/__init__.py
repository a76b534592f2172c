"""Where run files lie. One file a kind of source."""
