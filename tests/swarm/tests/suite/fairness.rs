//! No client starves, and the stated bounds hold for every strategy, priority and weight (I12).

use millstream::Strategy;
use millstream_swarm::fairness::{Row, SCENARIOS, Scenario, measure, table};

fn row(rows: &[Row], scenario: Scenario, strategy: Strategy) -> &Row {
    let of = |row: &&Row| (row.scenario, row.strategy, row.queues) == (scenario, strategy, 1);
    rows.iter().find(of).unwrap()
}

/// The documented bounds hold, the device is busy all the time, and priorities, weights and strategies have their
/// effect.
#[test]
fn a_small_client_beside_a_greedy_one_waits_no_longer_than_its_bound() {
    let rows = table(1).unwrap();
    for row in &rows {
        assert!(row.max_us <= row.bound_us, "{row:?}");
        assert!(row.p50_us <= row.p99_us && row.p99_us <= row.max_us);
        assert!(row.busy > 0.98, "the device was idle: {row:?}");
    }
    let [equal, high, low, heavy] = SCENARIOS;
    let both = [Strategy::Interleave, Strategy::Sequential];
    for strategy in both {
        let of = |scenario| row(&rows, scenario, strategy).p99_us;
        assert!(of(high) < of(equal) && of(high) < of(low), "{strategy:?}");
        assert!(of(equal) < of(heavy), "{strategy:?}");
        // Eight tasks in flight and its own: seldom any other comes before a task of high priority.
        assert!(of(high) <= 1_210.0, "{strategy:?}");
    }
    for scenario in [equal, low, heavy] {
        let [interleaved, sequential] = both.map(|strategy| row(&rows, scenario, strategy).p99_us);
        assert!(2.0 * interleaved < sequential, "{scenario:?}");
    }
}

/// Virtual time does not depend on the host's clock.
#[test]
fn equal_seeds_give_equal_rows() {
    let row = || measure(SCENARIOS[0], Strategy::Interleave, 3, 7).unwrap();
    assert_eq!(row(), row());
}
