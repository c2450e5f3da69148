//! Requests by mailbox and reply: an accepted request always ends, even against a shutdown (I5).

use super::{SPIN, gate, spinner};
use millstream_loom::{Bound, Receives, Sends, check};
use millstream_sync::facade::Arc;
use millstream_sync::mailbox::{Receiver, Sender, mailbox};
use millstream_sync::reply::{Closed, ReplySender, reply};

type Request = (u32, ReplySender<u32>);

fn actor() -> (Sender<Request>, Receiver<Request>) {
    mailbox(2, gate())
}

/// Sends a request and returns the answer; dropping a refused request's sender answers it.
fn request(tx: &Sender<Request>, question: u32) -> Result<u32, Closed> {
    let (answer, mut rx) = reply();
    let _ = tx.send((question, answer));
    rx.wait(&SPIN)
}

/// Answers one request; returns `false` if there will be none.
fn answer_one(rx: &mut Receiver<Request>) -> bool {
    let Some((question, answer)) = rx.recv(&mut spinner()) else {
        return false;
    };
    answer.send(question + 1);
    true
}

#[test]
fn a_request_is_answered() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = actor();
        let serve = move || while answer_one(&mut rx) {};
        let ((), answer) = sides.run(serve, move || request(&tx, 4));
        assert_eq!(answer, Ok(5));
    });
}

#[test]
fn a_request_ends_when_the_actor_is_dropped() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = actor();
        let ((), answer) = sides.run(move || drop(rx), move || request(&tx, 4));
        assert_eq!(answer, Err(Closed));
    });
}

#[test]
fn a_request_ends_when_the_actor_stops_after_one_message() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = actor();
        let serve_one = move || answer_one(&mut rx);
        let (_, answers) = sides.run(serve_one, move || [request(&tx, 4), request(&tx, 6)]);
        assert_eq!(answers, [Ok(5), Err(Closed)]);
    });
}

#[test]
fn a_request_that_waits_for_room_ends_when_the_actor_is_dropped() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = actor();
        let mut waiting = [0, 1].map(|question| {
            let (answer, rx) = reply();
            assert!(tx.try_send((question, answer)).is_ok());
            rx
        });
        let ((), answer) = sides.run(move || drop(rx), move || request(&tx, 4));
        assert_eq!(answer, Err(Closed));
        assert!(waiting.iter_mut().all(|rx| rx.wait(&SPIN) == Err(Closed)));
    });
}

fn two_clients_within(bound: Bound) {
    check(bound, |sides| {
        let (tx, mut rx) = actor();
        let tx = Arc::new(tx);
        let other = tx.clone();
        let (_, one, two) = sides.run_three(
            move || answer_one(&mut rx),
            move || request(&tx, 4),
            move || request(&other, 6),
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
fn two_requests_end_when_the_actor_stops() {
    two_clients_within(Bound::One);
}

#[test]
#[ignore = "deep"]
fn deep_two_requests_end_when_the_actor_stops() {
    two_clients_within(Bound::ThreeThreads);
}
