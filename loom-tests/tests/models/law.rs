//! The law above all: an accepted ask always ends, even against shutdown (I5).

use super::{SPIN, gate, spinner};
use millstream_loom::{Bound, check};
use millstream_sync::mailbox::{Receiver, Sender, mailbox};
use millstream_sync::reply::{Closed, ReplySender, reply};

type Ask = (u32, ReplySender<u32>);

fn actor() -> (Sender<Ask>, Receiver<Ask>) {
    mailbox(2, gate())
}

/// Asks, and returns the answer; a refused ask is answered by the drop of its sender.
fn ask(tx: &Sender<Ask>, question: u32) -> Result<u32, Closed> {
    let (answer, mut rx) = reply();
    drop(tx.send((question, answer)));
    rx.wait(&SPIN)
}

/// Answers one ask; false once there are none to come.
fn answer_one(rx: &mut Receiver<Ask>) -> bool {
    let Some((question, answer)) = rx.recv(&mut spinner()) else {
        return false;
    };
    answer.send(question + 1);
    true
}

#[test]
fn an_ask_is_answered() {
    check("law: ask round trip", Bound::TwoThreads, |sides| {
        let (tx, mut rx) = actor();
        let serve = move || while answer_one(&mut rx) {};
        let ((), answer) = sides.run(serve, move || ask(&tx, 4));
        assert_eq!(answer, Ok(5));
    });
}

#[test]
fn an_ask_ends_when_the_actor_dies() {
    check(
        "law: ask against a dying actor",
        Bound::TwoThreads,
        |sides| {
            let (tx, rx) = actor();
            let ((), answer) = sides.run(move || drop(rx), move || ask(&tx, 4));
            assert_eq!(answer, Err(Closed));
        },
    );
}

#[test]
fn an_ask_ends_when_the_actor_dies_after_a_message() {
    check(
        "law: ask against an actor that dies after one",
        Bound::TwoThreads,
        |sides| {
            let (tx, mut rx) = actor();
            let serve_one = move || answer_one(&mut rx);
            let (_, answers) = sides.run(serve_one, move || [ask(&tx, 4), ask(&tx, 6)]);
            assert_eq!(answers, [Ok(5), Err(Closed)]);
        },
    );
}

#[test]
fn an_ask_that_waits_for_room_ends_when_the_actor_dies() {
    check(
        "law: a blocked ask against a dying actor",
        Bound::TwoThreads,
        |sides| {
            let (tx, rx) = actor();
            let mut waiting = [0, 1].map(|question| {
                let (answer, rx) = reply();
                assert!(tx.try_send((question, answer)).is_ok());
                rx
            });
            let ((), answer) = sides.run(move || drop(rx), move || ask(&tx, 4));
            assert_eq!(answer, Err(Closed));
            assert!(waiting.iter_mut().all(|rx| rx.wait(&SPIN) == Err(Closed)));
        },
    );
}

fn two_clients_within(bound: Bound) {
    check("law: two clients against a dying actor", bound, |sides| {
        let (tx, mut rx) = actor();
        let other = tx.clone();
        let (_, one, two) = sides.run_three(
            move || answer_one(&mut rx),
            move || ask(&tx, 4),
            move || ask(&other, 6),
        );
        let answers = [(one, 5), (two, 7)];
        assert!(
            answers
                .iter()
                .all(|(got, right)| *got == Err(Closed) || *got == Ok(*right))
        );
    });
}

#[test]
fn two_asks_end_when_the_actor_dies() {
    two_clients_within(Bound::One);
}

#[test]
#[ignore = "deep"]
fn deep_two_asks_end_when_the_actor_dies() {
    two_clients_within(Bound::ThreeThreads);
}
