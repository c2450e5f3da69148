//! Runs of data that failed: it never comes back as if it were sound, it reaches nothing that does not depend on it, and it is gone
//! with the next run.

use millstream::Stream;
use millstream::graph::{CompiledSchedule, Outputs, Schedule};

use crate::built::dependences;
use crate::expect::Want;
use crate::held;
use crate::rig::{Boom, Rig, upload};
use crate::trial::{Held, Ran, Trial, Wrong, told};

/// Each input in turn is of failed data.
pub(crate) fn each_input_fails(trial: &Trial<'_>, rig: &Rig) -> Result<(), Wrong> {
    let client = rig.device.new_client();
    let roots: Vec<_> = trial.built.roots.iter().collect();
    let schedule = Schedule::create(&roots).map_err(told)?;
    let compiled = schedule.compile(&client).map_err(told)?;
    let boom = Boom::on(rig).map_err(told)?;
    let depends = dependences(trial.case);
    // The shortest and the longest.
    let last = trial.case.runs.len() - 1;
    let runs = if last == 0 { vec![0] } else { vec![0, last] };
    for place in 0..trial.case.inputs.len() {
        if !schedule.takes(&trial.built.inputs[place]) || shares(trial, place) {
            continue;
        }
        if trial.case.inputs[place].bytes == 0 {
            continue;
        }
        for run in runs.iter().copied() {
            let tell = |what| format!("x{place} failed: {what}");
            fails(trial, rig, &compiled, &boom, &depends, place, run).map_err(tell)?;
        }
    }
    Ok(())
}

/// Is its memory another's as well?
fn shares(trial: &Trial<'_>, place: usize) -> bool {
    let handle = trial.case.inputs[place].handle;
    let inputs = trial.case.inputs.iter().enumerate();
    let mut others = inputs.filter(|(other, _)| *other != place);
    others.any(|(_, other)| other.handle == handle)
}

/// Outputs lie where earlier ones lay, with what is right: something else is put there, so that nothing is right by chance.
fn scribble(trial: &Trial<'_>, stream: &Stream) -> Result<(), Wrong> {
    let sizes = trial.wants.iter().flat_map(|wants| &wants.roots);
    let sizes: Vec<usize> = sizes.map(Want::bytes).collect();
    let scribbled = sizes
        .iter()
        .map(|size| stream.create(&vec![0x41_u8; *size]));
    let scribbled: Vec<_> = scribbled.collect::<Result<_, _>>().map_err(told)?;
    drop(scribbled);
    Ok(())
}

/// One run with a failed input, and sound ones after it.
fn fails(
    trial: &Trial<'_>,
    rig: &Rig,
    compiled: &CompiledSchedule,
    boom: &Boom,
    depends: &[u64],
    place: usize,
    run: usize,
) -> Result<(), Wrong> {
    let case = trial.case;
    let stream = rig.device.new_client().new_stream();
    let handles = upload(&stream, &trial.memory).map_err(told)?;
    let failed = trial.range(&handles, place)?;
    boom.fail(&stream, &failed, &trial.garbage(place)?)
        .map_err(told)?;
    let held = Held::default();
    scribble(trial, &stream)?;
    let ran = trial.submit(|| compiled.run(), run, handles, &stream, &held)?;
    let Ran::Done(outputs, handles) = ran else {
        return Ok(());
    };
    roots_are_told(trial, &stream, &outputs, depends, place, run)?;
    // What is only read stays what it was.
    for (index, handle) in handles.iter().enumerate() {
        let inputs = case.inputs.iter().enumerate();
        let mut stored = trial.wants[run].stored.iter();
        let is_stored = stored.any(|(input, _)| case.inputs[*input].handle == index);
        let mut is_failed = inputs.filter(|(_, input)| input.handle == index);
        if is_stored || is_failed.any(|(other, _)| other == place) {
            continue;
        }
        match stream.read(handle).wait() {
            Ok(bytes) if bytes == trial.memory[index] => {}
            Ok(_) => return Err(format!("run {run} memory {index} changed")),
            Err(error) => return Err(format!("run {run} memory {index}: {error}")),
        }
    }
    for on in [stream, rig.device.new_client().new_stream()] {
        let handles = upload(&on, &trial.memory).map_err(told)?;
        let ran = trial.submit(|| compiled.run(), run, handles, &on, &held)?;
        if let Ran::Done(outputs, handles) = ran {
            let compared = trial.compare(&on, &outputs, &handles, run);
            compared.map_err(|what| format!("and then a sound run: {what}"))?;
        }
    }
    Ok(())
}

/// What does not depend on the failed input is right, and nothing comes back as if it were.
fn roots_are_told(
    trial: &Trial<'_>,
    stream: &Stream,
    outputs: &Outputs,
    depends: &[u64],
    place: usize,
    run: usize,
) -> Result<(), Wrong> {
    let case = trial.case;
    for (index, root) in case.roots.iter().enumerate() {
        let must_be_sound = depends[*root] & (1 << (place % 64)) == 0;
        match trial.root(stream, outputs, run, index) {
            Ok(None) => {}
            Ok(Some(what)) if must_be_sound => {
                return Err(format!(
                    "run {run} root {index} does not depend on it: {what}"
                ));
            }
            Ok(Some(what)) => {
                return Err(format!(
                    "run {run} root {index} came back as if it were sound: {what}"
                ));
            }
            Err(error) if must_be_sound => {
                return Err(format!(
                    "run {run} root {index} does not depend on it: {error}"
                ));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// The same where all inputs are held that can be: what was prepared of failed data is failed, and what is prepared anew is sound.
pub(crate) fn each_input_fails_held(trial: &Trial<'_>, rig: &Rig) -> Result<(), Wrong> {
    let free = held::free(trial)?;
    let some: Vec<usize> = free.iter().copied().step_by(2).collect();
    let made = held::compiled(trial, rig, some, false)?;
    let Some((compiled, held)) = made else {
        return Ok(());
    };
    let (boom, depends) = (Boom::on(rig).map_err(told)?, dependences(trial.case));
    let run = trial.case.runs.len() - 1;
    for place in free {
        if shares(trial, place) || trial.case.inputs[place].bytes == 0 {
            continue;
        }
        let tell = |what| format!("x{place} failed: {what}");
        let stream = rig.device.new_client().new_stream();
        let handles = upload(&stream, &trial.memory).map_err(told)?;
        let failed = trial.range(&handles, place)?;
        boom.fail(&stream, &failed, &trial.garbage(place)?)
            .map_err(told)?;
        scribble(trial, &stream)?;
        let made = held::prepared(trial, &compiled, &held, run, &handles, &stream)?;
        let make = || compiled.run(&made);
        if let Ran::Done(outputs, _) = trial.submit(make, run, handles, &stream, &held)? {
            roots_are_told(trial, &stream, &outputs, &depends, place, run).map_err(tell)?;
        }
        for on in [stream, rig.device.new_client().new_stream()] {
            let handles = upload(&on, &trial.memory).map_err(told)?;
            let made = held::prepared(trial, &compiled, &held, run, &handles, &on)?;
            let make = || compiled.run(&made);
            if let Ran::Done(outputs, handles) = trial.submit(make, run, handles, &on, &held)? {
                let compared = trial.compare(&on, &outputs, &handles, run);
                compared.map_err(|what| tell(format!("and then a sound run: {what}")))?;
            }
        }
    }
    Ok(())
}
