"""What arrives: grammars of file and column names, the reader, labels, and where files lie."""
