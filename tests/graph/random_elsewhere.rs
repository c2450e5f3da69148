//! Random graphs on the simulator, and on a GPU.

use proptest::prelude::*;

use super::random::{check, check_holding, number, steps};
use super::support::On;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_have_the_expected_values_on_the_simulator(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), most in 0_u16..10,
    ) {
        check(On::Sim, &numbers, &steps, most);
    }

    #[test]
    fn random_graphs_have_the_expected_values_with_any_inputs_held_on_the_simulator(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), held in 0_u8..32,
    ) {
        check_holding(On::Sim, &numbers, &steps, held);
    }
}

// Few cases, because compiling takes long: this tests the order of tasks.
proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn random_graphs_have_the_expected_values_on_a_gpu(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), held in 0_u8..32, most in 0_u16..10,
    ) {
        check(On::Cuda, &numbers, &steps, most);
        check_holding(On::Cuda, &numbers, &steps, held);
    }
}
