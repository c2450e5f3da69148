//! Traits for tuples: the names and places of the members, said once.

/// Calls the macro with tuples of up to eight members, each a name and a place.
macro_rules! up_to_eight {
    ($then:ident) => {
        $then! {
            ()
            (A 0)
            (A 0, B 1)
            (A 0, B 1, C 2)
            (A 0, B 1, C 2, D 3)
            (A 0, B 1, C 2, D 3, E 4)
            (A 0, B 1, C 2, D 3, E 4, F 5)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
        }
    };
}

pub(crate) use up_to_eight;
