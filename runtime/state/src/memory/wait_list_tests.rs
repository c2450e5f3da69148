use super::*;
use crate::steps;

const LIMITED: ClientId = ClientId(1);
const FREE: ClientId = ClientId(2);

fn request(stream: u32, client: ClientId, bytes: u64, position: u64) -> Request {
    Request {
        stream,
        client,
        bytes,
        position,
    }
}

fn accounts(soft_limit: u64) -> Accounts {
    let mut accounts = Accounts::default();
    accounts.open(LIMITED, "limited".into());
    accounts.limit(LIMITED, soft_limit);
    accounts
}

/// Takes all reservations in order.
fn order(list: &mut WaitList) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(first) = list.first() {
        order.push(first.stream);
        list.leave(first.stream);
    }
    assert!(list.buckets.is_empty() && list.waiting.is_empty());
    order
}

#[test]
fn reservations_rank_by_soft_limit_then_by_mailbox_position() {
    let accounts = accounts(100);
    let mut list = WaitList::default();
    assert!(list.wait(&accounts, request(1, LIMITED, 101, 1)));
    assert!(list.wait(&accounts, request(2, FREE, 1 << 40, 9)));
    assert!(list.wait(&accounts, request(3, LIMITED, 100, 5)));
    assert!(
        !list.wait(&accounts, request(3, LIMITED, 100, 5)),
        "its stream waits already"
    );
    assert!(list.is_above(1) && !list.is_above(3) && list.has_above());
    assert_eq!(order(&mut list), [3, 2, 1]);
}

#[test]
fn order_follows_what_clients_hold() {
    let mut accounts = accounts(100);
    let mut list = WaitList::default();
    for (stream, client, bytes) in [
        (1, LIMITED, 60),
        (2, FREE, 60),
        (3, LIMITED, 20),
        (4, LIMITED, 80),
    ] {
        list.wait(&accounts, request(stream, client, bytes, u64::from(stream)));
    }
    accounts.charge(LIMITED, 60);
    list.reclass(&accounts, LIMITED);
    assert_eq!(
        [1, 2, 3, 4].map(|key| list.is_above(key)),
        [true, false, false, true]
    );
    accounts.credit(LIMITED, 30);
    list.reclass(&accounts, LIMITED);
    assert_eq!(
        [1, 2, 3, 4].map(|key| list.is_above(key)),
        [false, false, false, true]
    );
    accounts.charge(LIMITED, 1_000);
    list.reclass(&accounts, LIMITED);
    assert_eq!(order(&mut list), [2, 1, 3, 4]);
}

#[test]
fn smallest_other_is_of_the_class_of_the_first() {
    let accounts = accounts(100);
    let mut list = WaitList::default();
    list.wait(&accounts, request(1, FREE, 10, 1));
    assert_eq!(list.smallest_other(), None);
    list.wait(&accounts, request(2, FREE, 30, 2));
    list.wait(&accounts, request(3, LIMITED, 20, 3));
    list.wait(&accounts, request(4, LIMITED, 101, 4));
    assert_eq!(list.smallest_other().map(|other| other.stream), Some(3));
    list.wait(&accounts, request(5, FREE, 10, 5));
    assert_eq!(list.smallest_other().map(|other| other.stream), Some(5));
    assert_eq!(order(&mut list), [1, 2, 3, 5, 4]);
}

/// I12: a change of a client's bytes visits the sizes that cross its limit, not the reservations.
#[test]
fn change_of_an_account_visits_only_the_sizes_that_cross_its_limit_i12() {
    let mut accounts = accounts(1_000);
    let mut list = WaitList::default();
    for stream in 0..10_000 {
        let size = [100, 500, 990][stream as usize % 3];
        list.wait(&accounts, request(stream, LIMITED, size, u64::from(stream)));
    }
    steps::take();
    for _ in 0..100 {
        accounts.charge(LIMITED, 400);
        list.reclass(&accounts, LIMITED);
        accounts.credit(LIMITED, 400);
        list.reclass(&accounts, LIMITED);
    }
    assert_eq!(steps::take(), 200, "one size crosses the limit each time");
}
