//! Prepared launches are reused only for the same nest, bindings and words.

use millstream_ir::Program;
use millstream_protocol::NativeView;

use super::nest;
use crate::{Code, Options, SingleThread};

/// `out = x * word + word`; the first word is the number of elements.
fn scaled() -> Code {
    let nest = nest(
        "outer 1 inner 0 words 2",
        &["f32 read [1]", "f32 write [1]"],
        "%0 f32 = load 0  %1 f32 = word w1  %2 f32 = mul %0 %1  %3 f32 = add %2 %1  store inner 1 %3",
    );
    Code::compile(&Program::Nest(nest), Options::default()).expect("the program compiles")
}

fn view(elements: &mut [f32]) -> NativeView {
    NativeView {
        pointer: elements.as_mut_ptr().cast(),
        bytes: size_of_val(elements) as u64,
    }
}

#[test]
fn repeated_launch_uses_its_own_arguments_and_a_refused_one_is_not_cached() {
    // More kernels than the cache holds.
    let codes: Vec<Code> = (0..20).map(|_| scaled()).collect();
    let mut buffers = [vec![0_f32; 8], vec![0_f32; 8], vec![0_f32; 8]];
    let mut state = 5_u64;
    for round in 0..500 {
        let code = &codes[super::random(&mut state) as usize % codes.len()];
        let [from, to] = [round % 3, (round + 1) % 3];
        let len = super::random(&mut state) % 10;
        let scale = (super::random(&mut state) % 3) as f32;
        for (index, x) in buffers[from].iter_mut().enumerate() {
            *x = (round + index) as f32;
        }
        buffers[to].fill(-1.0);
        let views = [view(&mut buffers[from]), view(&mut buffers[to])];
        let words = [len, u64::from(scale.to_bits())];
        // SAFETY: the memory belongs to this test.
        let ran = unsafe { code.run(&views, &words, &mut SingleThread) };
        assert_eq!(ran.is_ok(), len <= 8, "{len} of 8 elements: {ran:?}");
        for (index, got) in buffers[to].iter().enumerate() {
            let is_written = ran.is_ok() && index < len as usize;
            let expected = if is_written {
                (round + index) as f32 * scale + scale
            } else {
                -1.0
            };
            assert_eq!(*got, expected, "round {round}, element {index}");
        }
    }
}
