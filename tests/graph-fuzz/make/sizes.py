"""Lengths that may depend on symbols: polynomials with integer coefficients.

A size maps sorted tuples of symbol indices to non-zero coefficients; `()` is the key of the constant. It is stored as
a sorted tuple of items, so equal sizes compare equal. A shape is a tuple of sizes.
"""


def fixed(value):
    return (((), value),) if value else ()


def symbol(index):
    return (((index,), 1),)


def plus(a, b):
    total = dict(a)
    for factors, coefficient in b:
        total[factors] = total.get(factors, 0) + coefficient
    return tuple(sorted((f, c) for f, c in total.items() if c))


def times(a, b):
    total = {}
    for f, c in a:
        for g, d in b:
            both = tuple(sorted(f + g))
            total[both] = total.get(both, 0) + c * d
    return tuple(sorted((f, c) for f, c in total.items() if c))


def minus(a, b):
    return plus(a, times(b, fixed(-1)))


def product(sizes):
    total = fixed(1)
    for size in sizes:
        total = times(total, size)
    return total


def known(size):
    """Returns the number, if it depends on no symbol."""
    if size == ():
        return 0
    return size[0][1] if len(size) == 1 and size[0][0] == () else None


def at(size, lengths):
    """Returns the value for these lengths."""
    total = 0
    for factors, coefficient in size:
        for factor in factors:
            coefficient *= lengths[factor]
        total += coefficient
    return total


def greatest(size, maxima):
    """Returns the upper bound that the library computes: positive terms at the maxima; of negative terms only the
    constant."""
    total = 0
    for factors, coefficient in size:
        if factors == ():
            total += coefficient
        elif coefficient > 0:
            for factor in factors:
                coefficient *= maxima[factor]
            total += coefficient
    return total


def least(size, maxima):
    return -greatest(times(size, fixed(-1)), maxima)


def to_json(size):
    number = known(size)
    return number if number is not None else [[c, list(f)] for f, c in size]


def of_json(dim):
    if isinstance(dim, int):
        return fixed(dim)
    return tuple(sorted((tuple(f), c) for c, f in dim))


def text(size, names="nm"):
    number = known(size)
    if number is not None:
        return str(number)
    terms = []
    for factors, coefficient in size:
        word = "*".join(names[f] for f in factors)
        terms.append(word if coefficient == 1 and word else f"{coefficient}*{word}" if word else str(coefficient))
    return " + ".join(terms)
