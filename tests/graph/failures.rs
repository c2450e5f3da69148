//! Failures in the data of a run: they poison only dependent data, and later runs are clean (I7).

use millstream::graph::{DType, Graph, Outputs};
use millstream::{CancelToken, Handle, Stream};
use rstest::rstest;
use rstest_reuse::apply;

use super::compile;
use super::every_device;
use super::support::On;

/// Returns a buffer whose last task was withdrawn. Before that it held nines, which no run may read.
pub(crate) fn failed(stream: &Stream, len: usize) -> Handle<f32> {
    let handle = stream.create(&vec![9.0_f32; len]).unwrap();
    let token = CancelToken::new();
    token.cancel();
    stream.with_cancel(&token).fill(&handle, 1.0).unwrap();
    handle
}

/// Returns the values of a root, or `None` if they are poisoned.
pub(crate) fn values(outputs: &Outputs, root: usize, stream: &Stream) -> Option<Vec<f32>> {
    outputs[root].read::<f32>(stream).unwrap().wait().ok()
}

/// The bytes behind those of the run's length keep their failure.
#[apply(every_device)]
fn set_of_a_whole_failed_buffer_of_symbolic_length_heals_it_i7(on: On) {
    let (rig, _, stream) = on.start();
    let graph = Graph::new();
    let n = graph.length("n", 6);
    let x = graph.input("x", DType::F32, [&n]);
    let z = graph.input("z", DType::F32, [&n]);
    let ones = stream.create(&[1.0_f32; 6]).unwrap();
    for values_of in [&z * 2.0, z.reshape([1, -1]).sum(0).squeeze(0) * 2.0] {
        let compiled = compile(&rig.client(), &x.set(&values_of));
        for (len, length) in [(6, 6), (4, 4), (6, 4)] {
            let bad = failed(&stream, len);
            for _ in 0..2 {
                let run = compiled.run().input(&x, &bad).input(&z, &ones);
                let outputs = run.length(&n, length).submit(&stream).unwrap();
                let want = vec![2.0; length as usize];
                assert_eq!(
                    values(&outputs, 0, &stream),
                    Some(want),
                    "{length} of {len}"
                );
                let behind = bad.slice(length as usize..).unwrap();
                let is_sound = stream.read(&behind).wait().is_ok();
                assert_eq!(is_sound, length as usize == len, "{length} of {len}");
            }
        }
    }
    // A run that reads the old content needs it.
    let compiled = compile(&rig.client(), &x.set(&(&x * 2.0)));
    let bad = failed(&stream, 4);
    let run = compiled.run().input(&x, &bad).length(&n, 4);
    assert_eq!(values(&run.submit(&stream).unwrap(), 0, &stream), None);
}
