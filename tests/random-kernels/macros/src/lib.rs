//! A macro that writes random kernels.

use std::fmt::Write as _;
use std::ops::Range;
use std::str::FromStr as _;

use millstream_random_kernel_trees::TESTED;
use millstream_random_kernel_trees::method::KNOWN_FUNCTIONS;
use millstream_random_kernel_trees::text::{text, type_name};
use millstream_random_kernel_trees::tree::Mode;
use proc_macro::TokenStream;

/// The variable that replaces the seeds: `20000+500` is 500 kernels from seed 20,000 on.
const VARIABLE: &str = "MILLSTREAM_RANDOM_KERNELS";

/// `random_kernels!()` writes the kernels of [`TESTED`], and `KERNELS`, which calls each by its seed.
#[proc_macro]
pub fn random_kernels(_: TokenStream) -> TokenStream {
    let seeds = match std::env::var(VARIABLE) {
        Ok(text) => seeds(&text),
        Err(_) => Some(TESTED),
    };
    let Some(seeds) = seeds else {
        let why = format!("compile_error!(\"expected `{VARIABLE}=first+count`\");");
        return TokenStream::from_str(&why).unwrap_or_default();
    };
    // Makes Cargo build again if the variable changes.
    let mut items = KNOWN_FUNCTIONS.to_owned();
    items += &format!("const _: Option<&str> = option_env!(\"{VARIABLE}\");\n");
    let mut table = String::new();
    for seed in seeds {
        items += &kernel(seed);
        write!(table, "(seed: {seed}, call: call_{seed}), ").expect("a string has room");
    }
    let table = table
        .replace("(seed", "RandomKernel { seed")
        .replace("), ", " }, ");
    items += &format!("/// The kernels.\npub const KERNELS: &[RandomKernel] = &[{table}];\n");
    TokenStream::from_str(&items).expect("the text of kernels is Rust")
}

fn seeds(text: &str) -> Option<Range<u64>> {
    let (first, count) = text.split_once('+')?;
    let first: u64 = first.parse().ok()?;
    Some(first..first + count.parse::<u64>().ok()?)
}

/// Returns a kernel with the function that launches it.
fn kernel(seed: u64) -> String {
    let kernel = millstream_random_kernel_trees::kernel(seed);
    let mut items = text(&kernel);
    for (index, it) in kernel.structs.iter().enumerate() {
        let fields = 0..it.fields.len();
        let of: String = fields
            .clone()
            .map(|at| format!("f{at}: Numbers::of(bits), "))
            .collect();
        let add: String = fields
            .map(|at| format!("self.f{at}.add_to(bits); "))
            .collect();
        items += &format!(
            "impl Numbers for S{seed}_{index} {{\n\
             fn of(bits: &mut dyn Iterator<Item = u64>) -> Self {{ Self {{ {of} }} }}\n\
             fn add_to(self, bits: &mut Vec<u64>) {{ {add} }}\n}}\n"
        );
    }
    let (mut lets, mut arguments, mut results) = (String::new(), String::new(), String::new());
    for (index, of) in kernel.scalars.iter().enumerate() {
        arguments += &format!("on.scalar::<{}>({index}), ", type_name(&kernel, of));
    }
    for (index, buffer) in kernel.buffers.iter().enumerate() {
        let of = type_name(&kernel, &buffer.of);
        let is_mut = matches!(buffer.mode, Mode::Own | Mode::Reversed | Mode::Whole);
        let is_mut = if is_mut { "mut " } else { "" };
        lets += &format!("let {is_mut}b{index} = on.buffer::<{of}>({index})?;\n");
        arguments += &format!("&{is_mut}b{index}, ");
        results += &format!("on.read(&b{index})?, ");
    }
    items += &format!(
        "fn call_{seed}(on: &On<'_>) -> Result<Vec<Vec<u64>>, Error> {{\n\
         {lets}on.launch(&k{seed}({arguments}))?;\nOk(vec![{results}])\n}}\n"
    );
    items
}
