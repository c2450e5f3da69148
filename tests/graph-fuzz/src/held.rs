//! Schedules of which a part runs once: inputs, lengths and scalars are held.

use millstream::graph::{CompiledHeld, HeldSchedule, Hold, Prepared, Schedule, ScheduleError};
use millstream::{Handle, Stream};

use crate::built::literal;
use crate::rig::{Rig, upload};
use crate::trial::{Bound, Failure, HeldArguments, RunResult, Trial, text_of};

/// The number of repetitions of each run: from the second on a driver replays a graph of its own.
pub(crate) const ROUNDS: usize = 2;

/// Runs with all inputs held that can be, with lengths and scalars; and with every other input held, without them.
pub(crate) fn held(trial: &Trial<'_>, rig: &Rig) -> Result<(), Failure> {
    let holdable_inputs = holdable_inputs(trial)?;
    let some: Vec<usize> = holdable_inputs.iter().copied().step_by(2).collect();
    run_holding(trial, rig, holdable_inputs, true)?;
    run_holding(trial, rig, some, false)
}

/// Returns the inputs that the schedule has and does not store into.
pub(crate) fn holdable_inputs(trial: &Trial<'_>) -> Result<Vec<usize>, Failure> {
    let roots: Vec<_> = trial.built.roots.iter().collect();
    let schedule = Schedule::create(&roots).map_err(|error| format!("create: {error}"))?;
    let stored = |place: usize| {
        let runs = trial.expected.iter();
        let mut stored = runs.flat_map(|expected| expected.stored.iter());
        stored.any(|(input, _)| *input == place)
    };
    let inputs = trial.built.inputs.iter().enumerate();
    let holdable_inputs = inputs.filter(|(place, input)| schedule.takes(input) && !stored(*place));
    Ok(holdable_inputs.map(|(place, _)| place).collect())
}

/// Returns a compiled schedule that holds these inputs, with or without lengths and scalars, and the held arguments.
/// `None` if the schedule stores into a held input.
pub(crate) fn compiled(
    trial: &Trial<'_>,
    rig: &Rig,
    inputs: Vec<usize>,
    with_numbers: bool,
) -> Result<Option<(CompiledHeld, HeldArguments)>, Failure> {
    let places = |count: usize| (0..if with_numbers { count } else { 0 }).collect();
    let mut held = HeldArguments {
        inputs,
        lengths: places(trial.built.symbols.len()),
        scalars: places(trial.built.scalars.len()),
    };
    let Some(schedule) = create_holding(trial, &mut held)? else {
        return Ok(None);
    };
    let compiled = schedule.compile(&rig.device.new_client());
    let compiled = compiled.map_err(|error| format!("compile: {error}"))?;
    trial.start_schedule(Bound::Inputs);
    Ok(Some((compiled, held)))
}

/// Returns a schedule that holds these inputs. Lengths and scalars that the schedule does not know are removed, one
/// error at a time.
fn create_holding(
    trial: &Trial<'_>,
    held: &mut HeldArguments,
) -> Result<Option<HeldSchedule>, Failure> {
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
                        "create: the schedule does not know {name}, which is an input"
                    ));
                }
            }
            Err(error) => return Err(format!("create: {error}")),
        }
    }
}

/// Submits a preparation with the inputs in these handles.
pub(crate) fn prepare(
    trial: &Trial<'_>,
    compiled: &CompiledHeld,
    held: &HeldArguments,
    run: usize,
    handles: &[Handle<u8>],
    stream: &Stream,
) -> Result<Prepared, Failure> {
    let (built, spec) = (&trial.built, &trial.case.runs[run]);
    let mut preparation = compiled.prepare();
    for place in &held.inputs {
        let range = trial.range(handles, *place)?;
        preparation = preparation.input(&built.inputs[*place], &range);
    }
    for place in &held.lengths {
        preparation = preparation.length(&built.symbols[*place], spec.lengths[*place]);
    }
    for place in &held.scalars {
        if let Some(value) = &spec.scalars[*place] {
            let value = literal(value).map_err(text_of)?;
            preparation = preparation.scalar(&built.scalars[*place], value);
        }
    }
    let prepared = preparation.submit(stream);
    prepared.map_err(|error| format!("prepare: {error}"))
}

fn run_holding(
    trial: &Trial<'_>,
    rig: &Rig,
    inputs: Vec<usize>,
    with_numbers: bool,
) -> Result<(), Failure> {
    let Some((compiled, held)) = compiled(trial, rig, inputs, with_numbers)? else {
        return Ok(());
    };
    let stream = rig.device.new_client().new_stream();
    for run in 0..trial.case.runs.len() {
        let handles = upload(&stream, &trial.memory).map_err(text_of)?;
        let prepared = prepare(trial, &compiled, &held, run, &handles, &stream)?;
        for _ in 0..ROUNDS {
            let fresh = upload(&stream, &trial.memory).map_err(text_of)?;
            let make = || compiled.run(&prepared);
            let ran = trial.submit(make, run, fresh, &stream, &held)?;
            if let RunResult::Done(outputs, fresh) = ran {
                trial.compare(&stream, &outputs, &fresh, run)?;
            }
        }
    }
    Ok(())
}
