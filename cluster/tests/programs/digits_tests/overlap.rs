//! What a reduction waits for, and what does not wait for it.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use millstream::{Cpu, Device};
use millstream_cluster::{Announcement, Fleet, NetworkPart};

use crate::digits::model::{BATCH, Images, Order};
use crate::digits::{FIRST, LAST, Training};
use crate::networks::{Begun, Handover};

/// Far above any wait of a machine that works: a failure instead of a test that hangs.
const PATIENCE: Duration = Duration::from_secs(20);

#[track_caller]
fn next(begun: &Receiver<(Announcement, Begun)>) -> NetworkPart {
    let part = begun.recv_timeout(PATIENCE);
    part.expect("the call does not begin").1.unwrap()
}

/// The reduction of the last layer's gradients begins before the first layer's are computed. These are computed, and
/// their reduction begins, while the first one is open.
#[test]
fn gradients_are_reduced_while_others_are_computed() {
    let fleet = Fleet::new([Device::open(Cpu::default().threads(1)).unwrap()]).unwrap();
    let networks = [Handover::channel(false), Handover::channel(false)];
    let (networks, begun): (Vec<_>, Vec<_>) = networks.into_iter().unzip();
    let mut groups = networks.into_iter();
    let groups = [FIRST, LAST].map(|_| fleet.group_over(groups.next().unwrap(), 0).unwrap());
    let (images, tests) = Images::load();
    let mut order = Order::new(images.len());
    let training = Training::new(groups, BATCH, images, &tests).unwrap();
    for bucket in [FIRST, LAST] {
        next(&begun[bucket]).complete(); // the broadcast of the parameters
    }
    let batch = order.shuffle(BATCH).next().unwrap();

    let step = training.backward_last(batch).unwrap();
    let last = next(&begun[LAST]); // the first layer's gradients have not been submitted
    training.backward_first(step).unwrap();
    let mut loss = training.update(0.5).unwrap();
    let first = next(&begun[FIRST]); // they are computed, and the other reduction is open
    let early = loss.try_take();

    // Before any assertion: a device with an open part would not close.
    first.complete();
    last.complete();
    assert!(early.is_none(), "the loss is not reduced yet");
    let loss = loss.wait_timeout(PATIENCE).unwrap();
    assert!(loss[0] > 0.0);
}
