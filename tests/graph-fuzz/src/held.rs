//! Schedules of which a part is made once: inputs, lengths and scalars are held.

use millstream::graph::{CompiledHeld, HeldSchedule, Hold, Prepared, Schedule, ScheduleError};
use millstream::{Handle, Stream};

use crate::built::literal;
use crate::rig::{Rig, upload};
use crate::trial::{Bound, Held, Ran, Trial, Wrong, told};

/// How often each run is made: from the second on a driver replays a graph of its own.
pub(crate) const ROUNDS: usize = 2;

/// All inputs that can be held with the lengths and scalars, and every other input without.
pub(crate) fn held(trial: &Trial<'_>, rig: &Rig) -> Result<(), Wrong> {
    let free = free(trial)?;
    let some: Vec<usize> = free.iter().copied().step_by(2).collect();
    holding(trial, rig, free, true)?;
    holding(trial, rig, some, false)
}

/// The inputs that a schedule has and stores nothing into.
pub(crate) fn free(trial: &Trial<'_>) -> Result<Vec<usize>, Wrong> {
    let roots: Vec<_> = trial.built.roots.iter().collect();
    let schedule = Schedule::create(&roots).map_err(|error| format!("create: {error}"))?;
    let stored = |place: usize| {
        let runs = trial.wants.iter();
        let mut stored = runs.flat_map(|wants| wants.stored.iter());
        stored.any(|(input, _)| *input == place)
    };
    let inputs = trial.built.inputs.iter().enumerate();
    let free = inputs.filter(|(place, input)| schedule.takes(input) && !stored(*place));
    Ok(free.map(|(place, _)| place).collect())
}

/// A compiled schedule that holds these inputs, with or without lengths and scalars, and what it holds; none where it stores into one.
pub(crate) fn compiled(
    trial: &Trial<'_>,
    rig: &Rig,
    inputs: Vec<usize>,
    with_numbers: bool,
) -> Result<Option<(CompiledHeld, Held)>, Wrong> {
    let places = |count: usize| (0..if with_numbers { count } else { 0 }).collect();
    let mut held = Held {
        inputs,
        lengths: places(trial.built.symbols.len()),
        scalars: places(trial.built.scalars.len()),
    };
    let Some(schedule) = made_holding(trial, &mut held)? else {
        return Ok(None);
    };
    let compiled = schedule.compile(&rig.device.new_client());
    let compiled = compiled.map_err(|error| format!("compile: {error}"))?;
    trial.forget(Bound::Inputs);
    Ok(Some((compiled, held)))
}

/// A schedule that holds these inputs. Lengths and scalars that it does not know are not held, which is found by asking.
fn made_holding(trial: &Trial<'_>, held: &mut Held) -> Result<Option<HeldSchedule>, Wrong> {
    let built = &trial.built;
    let roots: Vec<_> = built.roots.iter().collect();
    loop {
        let mut hold = Hold::new().inputs(held.inputs.iter().map(|place| &built.inputs[*place]));
        let lengths = held.lengths.iter().map(|place| &built.symbols[*place]);
        hold = lengths.fold(hold, Hold::length);
        let scalars = held.scalars.iter().map(|place| &built.scalars[*place]);
        hold = scalars.fold(hold, Hold::scalar);
        let (known, named) = (held.lengths.len() + held.scalars.len(), |name: &str| {
            let name = name.to_owned();
            move |place: &usize, kind: &str| format!("{kind}{place}") != name
        });
        match Schedule::create_holding(&roots, &hold) {
            Ok(schedule) => return Ok(Some(schedule)),
            Err(ScheduleError::HeldIsStored { .. }) => return Ok(None),
            Err(ScheduleError::UnknownArgument { name, .. }) => {
                let other = named(&name);
                held.lengths.retain(|place| other(place, "n"));
                held.scalars.retain(|place| other(place, "s"));
                if held.lengths.len() + held.scalars.len() == known {
                    return Err(format!(
                        "create: it does not know {name}, which is an input"
                    ));
                }
            }
            Err(error) => return Err(format!("create: {error}")),
        }
    }
}

/// What is made once, of the inputs in these handles.
pub(crate) fn prepared(
    trial: &Trial<'_>,
    compiled: &CompiledHeld,
    held: &Held,
    run: usize,
    handles: &[Handle<u8>],
    stream: &Stream,
) -> Result<Prepared, Wrong> {
    let (built, said) = (&trial.built, &trial.case.runs[run]);
    let mut preparation = compiled.prepare();
    for place in &held.inputs {
        let range = trial.range(handles, *place)?;
        preparation = preparation.input(&built.inputs[*place], &range);
    }
    for place in &held.lengths {
        preparation = preparation.length(&built.symbols[*place], said.lengths[*place]);
    }
    for place in &held.scalars {
        if let Some(value) = &said.scalars[*place] {
            let value = literal(value).map_err(told)?;
            preparation = preparation.scalar(&built.scalars[*place], value);
        }
    }
    let prepared = preparation.submit(stream);
    prepared.map_err(|error| format!("prepare: {error}"))
}

fn holding(
    trial: &Trial<'_>,
    rig: &Rig,
    inputs: Vec<usize>,
    with_numbers: bool,
) -> Result<(), Wrong> {
    let Some((compiled, held)) = compiled(trial, rig, inputs, with_numbers)? else {
        return Ok(());
    };
    let stream = rig.device.new_client().new_stream();
    for run in 0..trial.case.runs.len() {
        let handles = upload(&stream, &trial.memory).map_err(told)?;
        let prepared = prepared(trial, &compiled, &held, run, &handles, &stream)?;
        for _ in 0..ROUNDS {
            let fresh = upload(&stream, &trial.memory).map_err(told)?;
            let make = || compiled.run(&prepared);
            let ran = trial.submit(make, run, fresh, &stream, &held)?;
            if let Ran::Done(outputs, fresh) = ran {
                trial.compare(&stream, &outputs, &fresh, run)?;
            }
        }
    }
    Ok(())
}
