//! Losses, parameters and guesses, beside those of `examples/digits` on one device.

use millstream::sim::{Call, Faults, Findings, Sim};
use millstream::{Device, Stream};
use millstream_cluster::{Fleet, Group};
use rstest::rstest;

use crate::devices::{Kind, open};
use crate::digits::model::{self, BATCH, Digits, Images, Order};
use crate::digits::{Failure, Training};

const STEPS: usize = 12;

/// The largest accepted difference of the mean loss of a step from that of one device, relative to it.
///
/// The runs differ in the order in which sums over the 64 images of a batch are added. Adding them in any order has a
/// rounding error of at most 64 * 2^-24 = 3.8e-6 of the sum of the absolute terms. Each step adds such an error to the
/// parameters: 12 steps * 3.8e-6 = 4.6e-5. That is a bound, since rounding errors mostly cancel each other: the largest
/// difference found on x86-64 is 1.1e-7. One image that is learnt twice changes the first loss by 1.5e-2.
const TOLERANCE: f32 = 5e-5;

/// Returns the mean loss of each step of one device, with whole batches and one schedule.
fn losses_of_one_device() -> Vec<f32> {
    let (device, _) = open(Kind::Cpu, 1);
    let client = device[0].new_client();
    let stream = client.new_stream();
    let (images, _) = Images::load();
    let network = Digits::new(&client, &stream, 1).unwrap();
    let mut order = Order::new(images.len());
    let losses = order.shuffle(BATCH).take(STEPS).map(|batch| {
        let (pixels, digits) = images.select(batch);
        network
            .learn(&stream, &pixels, &digits, model::rate(0))
            .unwrap()
    });
    let losses: Vec<_> = losses.collect();
    losses
        .iter()
        .map(|loss| stream.read(loss).wait().unwrap()[0])
        .collect()
}

/// What a run leaves on the members of a process.
struct Outcome {
    losses: Vec<f32>,
    /// Of each member.
    parameters: Vec<Vec<u32>>,
    /// On the test images.
    right: i64,
}

fn train(groups: [Group; 2], steps: usize) -> Result<Outcome, Failure> {
    let (images, tests) = Images::load();
    let mut order = Order::new(images.len());
    let streams: Vec<Stream> = (0..groups[0].local_ranks().len())
        .map(|member| groups[0].stream(member).clone())
        .collect();
    let training = Training::new(groups, BATCH, images, &tests)?;
    let losses = order.shuffle(BATCH).take(steps);
    let losses: Vec<_> = losses
        .map(|batch| training.step(batch, model::rate(0)))
        .collect::<Result<_, _>>()?;
    let right = training.guess()?.wait()?[0];
    let mut parameters = Vec::new();
    for (layers, stream) in training.parameters().zip(&streams) {
        let mut bits = Vec::new();
        for layer in layers {
            bits.extend(stream.read(layer).wait()?.into_iter().map(f32::to_bits));
        }
        parameters.push(bits);
    }
    let mut means = Vec::new();
    for loss in losses {
        means.push(loss.wait()?[0] / BATCH as f32);
    }
    Ok(Outcome {
        losses: means,
        parameters,
        right,
    })
}

fn train_on_devices(devices: Vec<Device>, steps: usize) -> Result<Outcome, Failure> {
    let fleet = Fleet::new(devices)?;
    train([fleet.group(), fleet.group()], steps)
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / expected;
        assert!(
            error <= TOLERANCE,
            "step {step}: expected {expected}, got {found}"
        );
    }
}

/// The outcomes of several members, which are the same bits.
#[track_caller]
fn assert_same_parameters(members: &[Vec<u32>]) {
    assert!(members[0].iter().any(|bits| *bits != 0));
    for (rank, member) in members.iter().enumerate() {
        let different = (0..member.len()).find(|at| member[*at] != members[0][*at]);
        assert_eq!(
            different, None,
            "the first parameter of member {rank} that differs"
        );
    }
}

#[rstest]
#[case(Kind::Cpu, 1)]
#[case(Kind::Cpu, 2)]
#[case(Kind::Cpu, 3)]
#[case(Kind::Sim, 3)]
fn the_losses_are_those_of_one_device(#[case] kind: Kind, #[case] devices: usize) {
    let (opened, findings) = open(kind, devices);
    let outcome = train_on_devices(opened, STEPS).unwrap();
    let expected = losses_of_one_device();
    assert!(
        expected[STEPS - 1] < 0.8 * expected[0],
        "nothing is learnt: {expected:?}"
    );
    assert_close(&outcome.losses, &expected);
    assert_eq!(outcome.parameters.len(), devices);
    assert_same_parameters(&outcome.parameters);
    findings.iter().for_each(Findings::assert_clean);
}

/// Before any step the parameters are the same bits as on one device, and so are the guesses.
#[rstest]
fn the_members_count_the_right_guesses_of_all_test_images(#[values(1, 2, 3)] devices: usize) {
    let (one, _) = open(Kind::Cpu, 1);
    let client = one[0].new_client();
    let stream = client.new_stream();
    let (_, tests) = Images::load();
    let network = Digits::new(&client, &stream, tests.len()).unwrap();
    let guesses = network.guess(&stream, &tests.pixels).unwrap();
    let pairs = guesses.iter().zip(&tests.digits);
    let expected = pairs.filter(|(guess, digit)| guess == digit).count();
    let found = train_on_devices(open(Kind::Cpu, devices).0, 0).unwrap();
    assert!(expected > 0);
    assert_eq!(found.right, expected as i64);
}

#[test]
fn two_devices_learn_the_digits() {
    let fleet = Fleet::new(open(Kind::Cpu, 2).0).unwrap();
    let (images, tests) = Images::load();
    let mut order = Order::new(images.len());
    let training = Training::new([fleet.group(), fleet.group()], BATCH, images, &tests).unwrap();
    let rounds = [0, 1].map(|round| training.round(&mut order, round).unwrap());
    assert!(rounds[1].loss < rounds[0].loss);
    assert_eq!(rounds[0].images, 22 * BATCH);
    let share = rounds[1].right as f64 / tests.len() as f64;
    assert!(share > 0.85, "{share}");
}

/// I7: a launch that one device refuses fails the losses of all members, with the launch as the origin.
#[rstest]
fn a_failed_launch_of_one_member_fails_the_losses(#[values(0, 1, 2)] failing: usize) {
    let open = |index: usize| {
        let faults = match index == failing {
            true => Faults::none().nth(Call::Launch, 40),
            false => Faults::none(),
        };
        Device::open(Sim::seed(index as u64).faults(faults)).unwrap()
    };
    let outcome = train_on_devices((0..3).map(open).collect(), STEPS);
    let error = outcome.err().unwrap().to_string();
    assert!(error.contains("refused"), "{error}");
}

#[test]
fn the_groups_of_the_buckets_have_the_same_members() {
    let fleet = Fleet::new(open(Kind::Cpu, 2).0).unwrap();
    let groups = [fleet.group(), fleet.group_of(&[1]).unwrap()];
    let error = train(groups, 1).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the groups of the buckets have different members"
    );
}

#[test]
fn every_rank_has_an_image_of_each_batch() {
    let fleet = Fleet::new(open(Kind::Cpu, 3).0).unwrap();
    let (images, tests) = Images::load();
    let groups = [fleet.group(), fleet.group()];
    let error = Training::new(groups, 2, images, &tests).err().unwrap();
    assert_eq!(
        error.to_string(),
        "3 ranks need batches of at least 3 images, got 2"
    );
}
