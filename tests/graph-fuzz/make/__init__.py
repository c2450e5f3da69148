"""Cases for the fuzzer of graphs: generates, evaluates, shrinks and writes them."""
