use super::*;

const PATTERN: Pattern = Pattern { base: 5, stride: 3 };

fn failed(task: &str, reason: Reason) -> Result<Vec<u32>, Error> {
    Err(Error::Failed(Failure::not_run(&task.into(), reason)))
}

fn defined(len: usize) -> Contents {
    Contents::defined(len, PATTERN, AllowedFailures::NONE)
}

#[test]
fn one_wrong_element_is_detected() {
    let mut data = PATTERN.elements(100);
    assert_eq!(
        defined(100).check(&Ok(data.clone()), AllowedFailures::NONE),
        Ok(Outcome::Data)
    );
    data[77] ^= 1;
    let message = defined(100)
        .check(&Ok(data.clone()), AllowedFailures::NONE)
        .unwrap_err();
    assert!(
        message.starts_with("element 77 of 100: expected"),
        "{message}"
    );
    assert!(
        defined(101)
            .check(&Ok(data), AllowedFailures::NONE)
            .is_err()
    );
}

/// The oracle's contents of parts agree with plain arrays.
#[test]
fn contents_of_parts_match_plain_arrays() {
    let mut dice = crate::Dice::new(3, 0);
    let mut contents = [
        defined(40),
        Contents::defined(40, PATTERN.flat(), AllowedFailures::NONE),
    ];
    let mut arrays = [PATTERN.elements(40), PATTERN.flat().elements(40)];
    for round in 0..2_000 {
        let len = dice.below(41);
        let (from, to) = (dice.below(41 - len), dice.below(41 - len));
        let (one, two) = (dice.below(2), dice.below(2));
        let source = contents[one].cut(from..from + len);
        let target = contents[two].cut(to..to + len);
        let values = arrays[one][from..from + len].to_vec();
        let place = &mut arrays[two][to..to + len];
        let by = dice.number();
        let now = match dice.below(3) {
            0 => {
                place
                    .iter_mut()
                    .for_each(|value| *value = value.wrapping_add(by));
                target.added(by, AllowedFailures::NONE)
            }
            1 => {
                place.copy_from_slice(&values);
                source.by_one_task(AllowedFailures::NONE)
            }
            _ => {
                let pairs = place.iter_mut().zip(&values);
                pairs.for_each(|(value, other)| *value = mixed(*value, *other));
                target.mixed(&source, AllowedFailures::NONE)
            }
        };
        contents[two].paste(to, &now);
        let outcome = contents[two].check(&Ok(arrays[two].clone()), AllowedFailures::NONE);
        assert_eq!(outcome, Ok(Outcome::Data), "round {round}");
    }
}

#[test]
fn only_an_expected_reason_excuses_a_failure() {
    let expected = Contents::defined(1, PATTERN, AllowedFailures::CANCELLED);
    let check = |task: &str, reason| expected.check(&failed(task, reason), AllowedFailures::NONE);
    assert_eq!(check("add", Reason::Cancelled), Ok(Outcome::Failed));
    for reason in [
        Reason::DeadlinePassed,
        Reason::Lost,
        Reason::Panicked("boom".into()),
        Reason::Refused("no".into()),
    ] {
        assert!(check("add", reason).is_err());
    }
    let lost = Err(Error::DeviceLost {
        epoch: 0,
        recovery: millstream::device::Recovery::SameProcess,
    });
    assert!(expected.check(&lost, AllowedFailures::NONE).is_err());
    let may_be_lost = Contents::defined(1, PATTERN, AllowedFailures::LOST);
    assert_eq!(
        may_be_lost.check(&lost, AllowedFailures::NONE),
        Ok(Outcome::Lost)
    );
}

#[test]
fn poisoned_elements_must_fail_until_they_are_overwritten() {
    let mut buffer = defined(4);
    let half = buffer.cut(0..2).failed(AllowedFailures::BOOM);
    buffer.paste(0, &half);
    assert!(
        buffer
            .check(&Ok(PATTERN.elements(4)), AllowedFailures::NONE)
            .is_err()
    );
    let boom = || failed(BOOM, Reason::Panicked("boom".into()));
    assert_eq!(
        buffer.check(&boom(), AllowedFailures::NONE),
        Ok(Outcome::Failed)
    );
    // The other half is clean until a task reads both.
    let clean = PATTERN.elements(4).split_off(2);
    assert_eq!(
        buffer.cut(2..4).check(&Ok(clean), AllowedFailures::NONE),
        Ok(Outcome::Data)
    );
    let both = defined(4).mixed(&buffer, AllowedFailures::NONE);
    assert!(both.cut(2..4).fails() && both.check(&boom(), AllowedFailures::NONE).is_ok());
    buffer.paste(0, &defined(4));
    assert!(!buffer.fails() && buffer.check(&boom(), AllowedFailures::NONE).is_err());
}

#[test]
fn unwritten_elements_match_any_value() {
    let mut buffer = Contents::unknown(4);
    buffer.paste(1, &Contents::defined(2, PATTERN, AllowedFailures::NONE));
    assert_eq!(
        buffer.check(&Ok(vec![9, 5, 8, 9]), AllowedFailures::NONE),
        Ok(Outcome::Data)
    );
    assert!(
        buffer
            .check(&Ok(vec![9, 5, 9, 9]), AllowedFailures::NONE)
            .is_err()
    );
    assert!(
        buffer
            .added(1, AllowedFailures::NONE)
            .check(&Ok(vec![0, 6, 9, 0]), AllowedFailures::NONE)
            .is_ok()
    );
}
