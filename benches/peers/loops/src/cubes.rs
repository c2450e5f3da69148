//! Kernels whose threads work together: the CPU runs their program over columns of threads.

use millstream_algorithms::rodinia::hotspot;
use millstream_algorithms::{convolution, cubecl_book, options, samples, uniform};
use rayon::prelude::*;

use crate::{Bench, Done};

pub(crate) fn rows(bench: &mut Bench) -> Done {
    reductions(bench)?;
    matrices(bench)?;
    pictures(bench)
}

fn reductions(bench: &mut Bench) -> Done {
    let stream = bench.stream.clone();
    let len = 16 << 20;
    let x = uniform(1, len);
    let (our_x, mut our_sums, cubes) = (stream.create(&x)?, stream.create(&[0.0; 64])?, 64);
    let mut sums = vec![0.0; cubes];
    bench.row(
        "reduction, 16 M",
        |stream| samples::partial_sums(&our_x, &mut our_sums).launch(stream, cubes * 128),
        || {
            let part = len / cubes;
            sums.par_iter_mut()
                .zip(x.par_chunks(part))
                .for_each(|(sum, part)| *sum = part.iter().sum::<f32>());
        },
    )?;

    let x: Vec<u32> = x.iter().map(|part| (part * 9.0) as u32).collect();
    let (our_x, mut our_sums) = (stream.create(&x)?, stream.empty(len)?);
    let mut sums = vec![0_u32; len];
    bench.row(
        "scan of each 64, 16 M",
        |stream| samples::scan(&our_x, &mut our_sums).launch(stream, len),
        || {
            sums.par_chunks_mut(64)
                .zip(x.par_chunks(64))
                .for_each(|(sums, x)| {
                    let mut sum = 0;
                    for (to, x) in sums.iter_mut().zip(x) {
                        sum += x;
                        *to = sum;
                    }
                });
        },
    )?;
    bench.same("scan of each 64, 16 M", &our_sums, &sums)?;

    let data: Vec<u8> = uniform(1, len)
        .iter()
        .map(|part| (part * part * 256.0) as u8)
        .collect();
    let (our_data, our_bins) = (stream.create(&data)?, stream.create(&[0_u32; 256])?);
    let mut bins = [0_u32; 256];
    bench.row(
        "histogram by cubes, 16 M",
        |stream| samples::histogram(&our_data, &our_bins).launch(stream, 64 * 256),
        || {
            let of = |data: &[u8]| {
                let mut bins = [0_u32; 256];
                data.iter().for_each(|byte| bins[usize::from(*byte)] += 1);
                bins
            };
            let both = |a: [u32; 256], b: [u32; 256]| std::array::from_fn(|i| a[i] + b[i]);
            let found = data.par_chunks(len / 64).map(of).reduce(|| [0; 256], both);
            bins.iter_mut()
                .zip(found)
                .for_each(|(bin, more)| *bin += more);
        },
    )?;
    bench.same("histogram by cubes, 16 M", &our_bins, &bins)?;

    let (options, draws) = (64, 16384);
    let of = |seed, low: f32, high: f32| -> Vec<f32> {
        uniform(seed, options)
            .iter()
            .map(|part| low + part * (high - low))
            .collect()
    };
    let (prices, strikes, years) = (of(1, 5.0, 30.0), of(2, 1.0, 100.0), of(3, 0.25, 10.0));
    let (our_prices, our_strikes, our_years) = (
        stream.create(&prices)?,
        stream.create(&strikes)?,
        stream.create(&years)?,
    );
    let (mut our_calls, mut calls) = (stream.empty(options)?, vec![0.0; options]);
    bench.row(
        "Monte Carlo, 64 options",
        |stream| {
            options::price_calls(
                0.02,
                0.3,
                draws,
                7,
                &our_prices,
                &our_strikes,
                &our_years,
                &mut our_calls,
            )
            .launch(stream, options * 64)
        },
        || {
            calls.par_iter_mut().enumerate().for_each(|(i, call)| {
                let (price, strike, time) = (prices[i], strikes[i], years[i]);
                let (drift, spread) = ((0.02 - 0.5 * 0.3 * 0.3) * time, 0.3 * time.sqrt());
                let mut sum = 0.0;
                for draw in 0..draws {
                    let words = options::philox((draw as u32, i as u32, 0, 0), (7, 0));
                    let ((a, b), (c, d)) = (
                        options::normals(words.0, words.1),
                        options::normals(words.2, words.3),
                    );
                    for normal in [a, b, c, d] {
                        sum += options::payoff(price, strike, drift, spread, normal);
                    }
                }
                *call = (-0.02 * time).exp() * sum / (4 * draws) as f32;
            });
        },
    )?;
    bench.same("Monte Carlo, 64 options", &our_calls, &calls)
}

fn matrices(bench: &mut Bench) -> Done {
    let stream = bench.stream.clone();
    let (rows, columns) = (2048, 2048);
    let x = uniform(1, rows * columns);
    let (our_x, mut our_y, mut y) = (
        stream.create(&x)?,
        stream.empty(x.len())?,
        vec![0.0; x.len()],
    );
    bench.row(
        "transpose, 2048",
        |stream| {
            samples::transpose(rows, columns, &our_x, &mut our_y).launch(stream, rows * columns)
        },
        || {
            y.par_chunks_mut(16 * rows)
                .enumerate()
                .for_each(|(tile_column, y)| {
                    for tile_row in 0..rows / 16 {
                        for (across, y) in y.chunks_mut(rows).enumerate() {
                            for down in 0..16 {
                                let row = tile_row * 16 + down;
                                y[row] = x[row * columns + tile_column * 16 + across];
                            }
                        }
                    }
                });
        },
    )?;
    bench.same("transpose, 2048", &our_y, &y)?;

    let mut sums = vec![0.0; rows];
    let mut our_sums = stream.empty(rows)?;
    bench.row(
        "sums of rows, 2048",
        |stream| cubecl_book::row_sums(columns, &our_x, &mut our_sums).launch(stream, rows * 64),
        || {
            sums.par_iter_mut()
                .zip(x.par_chunks(columns))
                .for_each(|(sum, row)| *sum = row.iter().sum::<f32>())
        },
    )?;
    bench.same("sums of rows, 2048", &our_sums, &sums)?;

    let n = 512;
    let (a, b) = (uniform(1, n * n), uniform(2, n * n));
    let (our_a, our_b, mut our_c) = (stream.create(&a)?, stream.create(&b)?, stream.empty(n * n)?);
    let mut c = vec![0.0; n * n];
    bench.row(
        "product in tiles, 512",
        |stream| samples::product(n, &our_a, &our_b, &mut our_c).launch(stream, n * n),
        || {
            c.par_chunks_mut(n).zip(a.par_chunks(n)).for_each(|(c, a)| {
                c.fill(0.0);
                for (a, b) in a.iter().zip(b.chunks(n)) {
                    for (c, b) in c.iter_mut().zip(b) {
                        *c += a * b;
                    }
                }
            });
        },
    )?;
    bench.same("product in tiles, 512", &our_c, &c)
}

fn pictures(bench: &mut Bench) -> Done {
    let stream = bench.stream.clone();
    let (height, width) = (1024, 2048);
    let (x, weights) = (uniform(1, height * width), uniform(2, 7));
    let (our_x, our_weights, mut our_y) = (
        stream.create(&x)?,
        stream.create(&weights)?,
        stream.empty(x.len())?,
    );
    let mut y = vec![0.0; x.len()];
    bench.row(
        "columns of a convolution, 2048 x 1024",
        |stream| {
            convolution::convolve_columns(height, width, &our_x, &our_weights, &mut our_y)
                .launch(stream, [height, width])
        },
        || {
            y.par_chunks_mut(width).enumerate().for_each(|(row, y)| {
                y.fill(0.0);
                for (tap, weight) in weights.iter().enumerate() {
                    let from = (row + tap).wrapping_sub(3);
                    if from < height {
                        let x = &x[from * width..][..width];
                        y.iter_mut().zip(x).for_each(|(y, x)| *y += x * weight);
                    }
                }
            });
        },
    )?;
    bench.same("columns of a convolution, 2048 x 1024", &our_y, &y)?;

    let (rows, columns) = (1024, 1024);
    let len = rows * columns;
    let (power, from) = (uniform(1, len), uniform(2, len));
    let (our_power, our_from, mut our_to) = (
        stream.create(&power)?,
        stream.create(&from)?,
        stream.empty(len)?,
    );
    let mut to = vec![0.0; len];
    let threads = [rows, columns].map(|axis| axis.div_ceil(14) * 16);
    bench.row(
        "hotspot: a step, 1 M",
        |stream| {
            hotspot::hotspot(
                1,
                rows,
                columns,
                1.5,
                2.5,
                &our_power,
                &our_from,
                &mut our_to,
            )
            .launch(stream, threads)
        },
        || {
            to.par_chunks_mut(columns)
                .enumerate()
                .for_each(|(row, to)| {
                    for (column, to) in to.iter_mut().enumerate() {
                        let i = row * columns + column;
                        let here = from[i];
                        let at = |row: usize, column: usize| from[row * columns + column];
                        let (north, south) = (
                            at(row.saturating_sub(1), column),
                            at((row + 1).min(rows - 1), column),
                        );
                        let (west, east) = (
                            at(row, column.saturating_sub(1)),
                            at(row, (column + 1).min(columns - 1)),
                        );
                        let around = hotspot::exchange(here, north, south, 1.5)
                            + hotspot::exchange(here, west, east, 2.5);
                        *to = here + 0.1 * (power[i] + around + (80.0 - here) / 8.0);
                    }
                });
        },
    )?;
    bench.same("hotspot: a step, 1 M", &our_to, &to)
}
