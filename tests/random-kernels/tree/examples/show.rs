//! Prints the text of kernels: `cargo run -p millstream-random-kernel-trees --example show -- 17`.

fn main() {
    for seed in std::env::args()
        .skip(1)
        .filter_map(|seed| seed.parse().ok())
    {
        let kernel = millstream_random_kernel_trees::kernel(seed);
        println!("{}", millstream_random_kernel_trees::text::text(&kernel));
    }
}
