//! The models of the examples, smaller, compared with plain computations.

#[path = "../../examples/decoder/model.rs"]
#[allow(dead_code, reason = "used by the example only")]
mod decoder;
#[path = "../../examples/digits/model.rs"]
#[allow(dead_code, reason = "used by the example only")]
mod digits;
#[path = "../../examples/reaction/model.rs"]
#[allow(dead_code, reason = "used by the example only")]
mod reaction;

use super::ONE;

#[test]
fn digits_are_learnt_to_95_percent() {
    let (_rig, client, stream) = ONE.start();
    let (images, tests) = digits::Images::load();
    let network = digits::Digits::new(&client, &stream, tests.len()).unwrap();
    let losses = digits::train(&network, &stream, &images, 12, |_| {}).unwrap();
    assert!(losses.iter().all(|loss| loss.is_finite()));
    let guesses = network.guess(&stream, &tests.pixels).unwrap();
    let right = guesses
        .iter()
        .zip(&tests.digits)
        .filter(|(guess, digit)| guess == digit)
        .count();
    let share = right as f64 / tests.len() as f64;
    assert!(
        share >= 0.95,
        "{right} of {} right, loss {:?}",
        tests.len(),
        losses.last()
    );
}

#[test]
fn reaction_agrees_with_a_plain_simulation() {
    let (_rig, client, stream) = ONE.start();
    let size = 32;
    let simulation = reaction::Reaction::new(&client, &stream, size, 4).unwrap();
    simulation.run(&stream, 5).unwrap();
    let got = simulation.second(&stream).unwrap();
    let (mut u, mut v) = reaction::start(size);
    for _ in 0..20 {
        (u, v) = reaction::step_plainly(size, &u, &v);
    }
    for (cell, (got, want)) in got.iter().zip(&v).enumerate() {
        assert!(
            (got - want).abs() < 1e-4,
            "cell {cell}: expected {want}, got {got}"
        );
    }
}

#[test]
fn decoder_compiles_nothing_after_its_first_token() {
    let sizes = decoder::Sizes {
        tokens: 23,
        width: 16,
        heads: 2,
        blocks: 2,
        room: 24,
    };
    let weights = decoder::Weights::new(sizes, 5);
    let (_rig, client, stream) = ONE.start();
    let model = decoder::Decoder::new(&client, &stream, sizes, &weights).unwrap();
    let compiled = model.kernels_compiled();
    let decoded = model.decode(&stream, &[1, 2, 3], 24, || {}).unwrap();
    assert_eq!(model.kernels_compiled(), compiled);
    assert_eq!(decoded.tokens.len(), 24);
    for (place, look) in decoded.looks.iter().enumerate() {
        assert_eq!(look.len(), sizes.heads * (place + 1));
        for head in look.chunks(place + 1) {
            assert!((head.iter().sum::<f32>() - 1.0).abs() < 1e-4);
        }
    }
    assert_eq!(
        decoded.tokens,
        decoder::decode_plainly(sizes, &weights, &[1, 2, 3], 24)
    );
}
