//! Reaction and diffusion: every number of strips computes the bits of plain loops over the whole domain.

use std::time::Duration;

use millstream::sim::{Call, Faults, Findings, Sim};
use millstream::{Cpu, Device, DeviceOptions};
use millstream_cluster::Fleet;
use rstest::rstest;

use crate::devices::{Kind, open};
use crate::model;
use crate::networks::LocalNetwork;
use crate::reaction::{Domain, Reaction, Tasks, overlap};

/// Returns the second substance after some steps on a fleet.
fn simulate(devices: Vec<Device>, domain: Domain, steps: usize) -> Vec<f32> {
    let fleet = Fleet::new(devices).unwrap();
    let mut reaction = Reaction::new(&fleet.group(), domain).unwrap();
    reaction.submit(Tasks::Step, steps).unwrap();
    reaction.gather().unwrap().unwrap()
}

/// Returns the second substance of a square domain after some steps of plain loops.
fn expected(size: usize, steps: usize) -> Vec<f32> {
    let (mut u, mut v) = model::start(size);
    for _ in 0..steps {
        (u, v) = model::step_plainly(size, &u, &v);
    }
    v
}

#[track_caller]
fn assert_same_bits(found: &[f32], expected: &[f32]) {
    let bits = |cells: &[f32]| cells.iter().map(|cell| cell.to_bits()).collect::<Vec<_>>();
    let (found, expected) = (bits(found), bits(expected));
    let different = found.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(different, None, "the first cell that differs");
    assert_eq!(found.len(), expected.len());
}

/// The last strip of three or four has another number of rows than the first.
const SIZE: usize = 19;
const STEPS: usize = 24;

#[rstest]
fn every_number_of_devices_computes_the_same_bits(
    #[values(Kind::Cpu, Kind::Sim)] kind: Kind,
    #[values(1, 2, 3, 4)] devices: usize,
) {
    let (devices, findings) = open(kind, devices);
    let domain = Domain {
        rows: SIZE,
        columns: SIZE,
    };
    let found = simulate(devices, domain, STEPS);
    let expected = expected(SIZE, STEPS);
    assert!(expected.iter().any(|cell| *cell > 0.01), "nothing happens");
    assert_same_bits(&found, &expected);
    findings.iter().for_each(Findings::assert_clean);
}

/// Strips of one row have no last row of their own, and strips of two have no interior.
#[rstest]
fn strips_may_have_one_or_two_rows(
    #[values(Kind::Cpu, Kind::Sim)] kind: Kind,
    #[values(2, 3, 5)] rows: usize,
    #[values(1, 2, 8)] columns: usize,
) {
    let domain = Domain { rows, columns };
    let (whole, _) = open(Kind::Cpu, 1);
    let (devices, findings) = open(kind, rows.min(3));
    let [found, expected] = [devices, whole].map(|devices| simulate(devices, domain, 7));
    assert_same_bits(&found, &expected);
    findings.iter().for_each(Findings::assert_clean);
}

/// The interior of a rank is computed before its neighbour has sent anything, and its edge rows are not.
#[rstest]
fn the_interior_needs_no_halo(#[values(Kind::Cpu, Kind::Sim)] kind: Kind) {
    /// Far above any wait of a machine that works: a failure instead of a test that hangs.
    const PATIENCE: Duration = Duration::from_secs(20);
    let domain = Domain {
        rows: SIZE,
        columns: SIZE,
    };
    let (devices, findings) = open(kind, 2);
    let fleets: Vec<_> = devices
        .into_iter()
        .map(|it| Fleet::new([it]).unwrap())
        .collect();
    let networks = LocalNetwork::ranks(2).into_iter().zip(&fleets);
    let groups: Vec<_> = networks
        .map(|(network, fleet)| fleet.group_over(network, 0).unwrap())
        .collect();
    let mut ranks: Vec<_> = groups
        .iter()
        .map(|group| Reaction::new(group, domain).unwrap())
        .collect();

    ranks[0].submit(Tasks::Step, 1).unwrap();
    let row = 2 * SIZE;
    let strip = ranks[0].strips().next().unwrap();
    let rows = strip.len() / row;
    let on = groups[0].stream(0);
    let mut interior = on.read(&strip.slice(row..(rows - 1) * row).unwrap());
    let interior = interior.wait_timeout(PATIENCE);
    let mut edge = on.client().new_stream().read(&strip.slice(..row).unwrap());
    let early = edge.try_take();

    // Before any assertion: a device with an open receive would not close.
    ranks[1].submit(Tasks::Step, 1).unwrap();
    let interior = interior.unwrap();
    assert!(early.is_none(), "its halo has not been sent");
    edge.wait_timeout(PATIENCE).unwrap();
    let (_, second) = interior.split_at(SIZE);
    assert_same_bits(&second[..SIZE], &expected(SIZE, 1)[SIZE..2 * SIZE]);
    for rank in &ranks {
        rank.mark().wait().unwrap();
    }
    findings.iter().for_each(Findings::assert_clean);
}

/// I7: a launch that one device refuses fails the picture, with the launch as the origin.
#[rstest]
fn a_failed_launch_of_one_rank_fails_the_picture(#[values(0, 1, 2)] failing: usize) {
    let open = |index: usize| {
        let faults = match index == failing {
            true => Faults::none().nth(Call::Launch, 7),
            false => Faults::none(),
        };
        Device::open(Sim::seed(index as u64).faults(faults)).unwrap()
    };
    let fleet = Fleet::new((0..3).map(open)).unwrap();
    let domain = Domain {
        rows: SIZE,
        columns: SIZE,
    };
    let mut reaction = Reaction::new(&fleet.group(), domain).unwrap();
    reaction.submit(Tasks::Step, 20).unwrap();
    let error = reaction.gather().unwrap_err().to_string();
    assert!(
        error.contains("react") && error.contains("refused"),
        "{error}"
    );
    assert!(reaction.mark().wait().is_err());
}

/// Each program of the measurement ends, and the timeline has the waits of the steps.
#[rstest]
fn the_overlap_is_measured(#[values(1, 2)] devices: usize) {
    let traced = || DeviceOptions::default().trace(overlap::SPANS);
    let open = |_| Device::open_with(Cpu::default().threads(1), traced()).unwrap();
    let fleet = Fleet::new((0..devices).map(open)).unwrap();
    let domain = Domain {
        rows: SIZE,
        columns: SIZE,
    };
    let found = overlap::measure((&fleet.group(), fleet.devices()), domain, 3, 2).unwrap();
    let times = found.median;
    assert!(times.steps > 0.0 && times.launches > 0.0 && times.exchange > 0.0);
    assert!(times.wait.is_finite());
}

#[test]
fn every_rank_has_a_row() {
    let fleet = Fleet::new(open(Kind::Cpu, 3).0).unwrap();
    let domain = Domain {
        rows: 2,
        columns: 9,
    };
    let error = Reaction::new(&fleet.group(), domain).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "3 ranks need at least 3 rows, got 2");
}
