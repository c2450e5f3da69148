"""Cases for the fuzzer of graphs: made, evaluated, made small and written."""
