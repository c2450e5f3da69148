//! Runs with poisoned data: outputs that depend on it are poisoned, all others are right, and the next runs are clean
//! (I7).

use millstream::Stream;
use millstream::graph::{GraphCache, Outputs, Parts};

use crate::built::dependencies;
use crate::expect::ExpectedArray;
use crate::rig::{FailureSource, Rig, upload};
use crate::trial::{Bound, Failure, RunResult, Trial, TrialSchedule, text_of};

/// Runs with each input poisoned in turn.
pub(crate) fn each_input_fails(trial: &Trial<'_>, rig: &Rig) -> Result<(), Failure> {
    let cache = GraphCache::default();
    let schedule = trial.schedule(rig, Parts::default(), &cache, Bound::Inputs)?;
    let source = FailureSource::on(rig).map_err(text_of)?;
    let dependencies = dependencies(trial.case);
    // The first and the last run.
    let last = trial.case.runs.len() - 1;
    let runs = if last == 0 { vec![0] } else { vec![0, last] };
    for place in 0..trial.case.inputs.len() {
        let is_taken = schedule.schedule.takes(&trial.built.inputs[place]);
        if !is_taken || shares(trial, place) {
            continue;
        }
        if trial.case.inputs[place].bytes == 0 {
            continue;
        }
        for run in runs.iter().copied() {
            let describe = |what| format!("with x{place} poisoned: {what}");
            run_with_failed_input(&schedule, rig, &source, &dependencies, place, run)
                .map_err(describe)?;
        }
    }
    Ok(())
}

/// Returns `true` if another input has the same memory.
fn shares(trial: &Trial<'_>, place: usize) -> bool {
    let handle = trial.case.inputs[place].handle;
    let inputs = trial.case.inputs.iter().enumerate();
    let mut others = inputs.filter(|(other, _)| *other != place);
    others.any(|(_, other)| other.handle == handle)
}

/// Overwrites freed memory: outputs may reuse the memory of earlier ones, whose content would be right by chance.
fn overwrite_freed_memory(trial: &Trial<'_>, stream: &Stream) -> Result<(), Failure> {
    let sizes = trial.expected.iter().flat_map(|expected| &expected.roots);
    let sizes: Vec<usize> = sizes.map(ExpectedArray::bytes).collect();
    let scribbled = sizes
        .iter()
        .map(|size| stream.create(&vec![0x41_u8; *size]));
    let scribbled: Vec<_> = scribbled.collect::<Result<_, _>>().map_err(text_of)?;
    drop(scribbled);
    Ok(())
}

/// Runs once with a poisoned input, and then with clean ones.
fn run_with_failed_input(
    schedule: &TrialSchedule<'_>,
    rig: &Rig,
    source: &FailureSource,
    dependencies: &[u64],
    place: usize,
    run: usize,
) -> Result<(), Failure> {
    let (trial, case) = (schedule.trial, schedule.trial.case);
    let stream = rig.device.new_client().new_stream();
    let handles = upload(&stream, &trial.memory).map_err(text_of)?;
    let failed = trial.range(&handles, place)?;
    source
        .fail(&stream, &failed, &trial.garbage(place)?)
        .map_err(text_of)?;
    overwrite_freed_memory(trial, &stream)?;
    let ran = schedule.submit(run, handles, &stream)?;
    let RunResult::Done(outputs, handles) = ran else {
        return Ok(());
    };
    check_roots(trial, &stream, &outputs, dependencies, place, run)?;
    // Inputs that are only read are unchanged.
    for (index, handle) in handles.iter().enumerate() {
        let inputs = case.inputs.iter().enumerate();
        let mut stored = trial.expected[run].stored.iter();
        let is_stored = stored.any(|(input, _)| case.inputs[*input].handle == index);
        let mut is_failed = inputs.filter(|(_, input)| input.handle == index);
        if is_stored || is_failed.any(|(other, _)| other == place) {
            continue;
        }
        match stream.read(handle).wait() {
            Ok(bytes) if bytes == trial.memory[index] => {}
            Ok(_) => return Err(format!("run {run} memory {index}: changed")),
            Err(error) => return Err(format!("run {run} memory {index}: {error}")),
        }
    }
    for on in [stream, rig.device.new_client().new_stream()] {
        let handles = upload(&on, &trial.memory).map_err(text_of)?;
        let ran = schedule.submit(run, handles, &on)?;
        if let RunResult::Done(outputs, handles) = ran {
            let compared = trial.compare(&on, &outputs, &handles, run);
            compared.map_err(|what| format!("in the next clean run: {what}"))?;
        }
    }
    Ok(())
}

/// Checks that roots that do not depend on the poisoned input are right, and that all others are poisoned.
fn check_roots(
    trial: &Trial<'_>,
    stream: &Stream,
    outputs: &Outputs,
    dependencies: &[u64],
    place: usize,
    run: usize,
) -> Result<(), Failure> {
    let case = trial.case;
    for (index, root) in case.roots.iter().enumerate() {
        let must_be_clean = dependencies[*root] & (1 << (place % 64)) == 0;
        let what = match trial.root(stream, outputs, run, index) {
            Ok(None) => continue,
            Err(_) if !must_be_clean => continue,
            Ok(Some(what)) => what,
            Err(error) => error.to_string(),
        };
        let why = match must_be_clean {
            true => "does not depend on the poisoned input",
            false => "has values although it depends on the poisoned input",
        };
        return Err(format!("run {run} root {index} {why}: {what}"));
    }
    Ok(())
}
