//! Random graphs on the simulator, and on a GPU.

use proptest::prelude::*;

use super::random::{check, number, steps};
use super::support::On;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_have_the_expected_values_on_the_simulator(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), most in 0_u16..10,
    ) {
        check(On::Sim, &numbers, &steps, most);
    }
}

// Few cases, because compiling takes long: this tests the order of tasks.
proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn random_graphs_have_the_expected_values_on_a_gpu(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), most in 0_u16..10,
    ) {
        check(On::Cuda, &numbers, &steps, most);
    }
}
