//! Kernels whose threads work alone: the CPU runs them as plain Rust.

use millstream_algorithms::rodinia::{back_propagation, breadth_first, k_means};
use millstream_algorithms::{cubecl_book, fluid, maps, rays, samples, uniform};
use rayon::prelude::*;

use crate::{Bench, Done};

pub(crate) fn rows(bench: &mut Bench) -> Done {
    maps(bench)?;
    pictures(bench)?;
    steps(bench)
}

/// Numbers of a range.
fn between(seed: u64, len: usize, low: f32, high: f32) -> Vec<f32> {
    let scale = |part: f32| low + part * (high - low);
    uniform(seed, len).into_iter().map(scale).collect()
}

fn maps(bench: &mut Bench) -> Done {
    let stream = bench.stream.clone();
    let len = 16 << 20;
    let (x, mut y) = (uniform(1, len), uniform(2, len));
    let (our_x, mut our_y) = (stream.create(&x)?, stream.create(&y)?);
    bench.row(
        "saxpy, 16 M",
        |stream| maps::saxpy(3.0, &our_x, &mut our_y).launch(stream, len),
        || y.par_iter_mut().zip(&x).for_each(|(y, x)| *y += 3.0 * x),
    )?;
    bench.same("saxpy, 16 M", &our_y, &y)?;

    let len = 1 << 20;
    let (prices, strikes, years) = (
        between(1, len, 5.0, 30.0),
        between(2, len, 1.0, 100.0),
        between(3, len, 0.25, 10.0),
    );
    let (our_prices, our_strikes, our_years) = (
        stream.create(&prices)?,
        stream.create(&strikes)?,
        stream.create(&years)?,
    );
    let (mut our_calls, mut our_puts) = (stream.empty(len)?, stream.empty(len)?);
    let (mut calls, mut puts) = (vec![0.0; len], vec![0.0; len]);
    bench.row(
        "Black-Scholes, 1 M",
        |stream| {
            maps::black_scholes(
                0.02,
                0.3,
                &our_prices,
                &our_strikes,
                &our_years,
                &mut our_calls,
                &mut our_puts,
            )
            .launch(stream, len)
        },
        || {
            let given = prices.par_iter().zip(&strikes).zip(&years);
            given.zip(&mut calls).zip(&mut puts).for_each(
                |((((price, strike), time), call), put)| {
                    let (rate, volatility) = (0.02_f32, 0.3_f32);
                    let root = time.sqrt();
                    let d1 = ((price / strike).ln()
                        + (rate + 0.5 * volatility * volatility) * time)
                        / (volatility * root);
                    let d2 = d1 - volatility * root;
                    let discounted = strike * (-rate * time).exp();
                    *call = price * maps::normal(d1) - discounted * maps::normal(d2);
                    *put = discounted * (1.0 - maps::normal(d2)) - price * (1.0 - maps::normal(d1));
                },
            );
        },
    )?;
    bench.same("Black-Scholes, 1 M", &our_calls, &calls)?;

    let len = 4 << 20;
    let x = between(1, len, -6.0, 6.0);
    let (our_x, mut our_y, mut y) = (stream.create(&x)?, stream.empty(len)?, vec![0.0; len]);
    bench.row(
        "GELU, 4 M",
        |stream| cubecl_book::gelu(&our_x, &mut our_y).launch(stream, len),
        || {
            y.par_iter_mut().zip(&x).for_each(|(y, x)| {
                *y = x * (libm::erf((x * 0.5_f32.sqrt()).into()) as f32 + 1.0) / 2.0
            })
        },
    )?;
    bench.same("GELU, 4 M", &our_y, &y)?;

    let len = 16 << 20;
    let data: Vec<u8> = uniform(1, len)
        .iter()
        .map(|part| (part * part * 256.0) as u8)
        .collect();
    let (our_data, our_bins) = (stream.create(&data)?, stream.create(&[0_u32; 256])?);
    let bins: Vec<_> = (0..256)
        .map(|_| std::sync::atomic::AtomicU32::new(0))
        .collect();
    let one = std::sync::atomic::Ordering::Relaxed;
    bench.row(
        "histogram by atomics, 16 M",
        |stream| samples::histogram_alone(&our_data, &our_bins).launch(stream, len),
        || {
            data.par_iter().for_each(|byte| {
                bins[usize::from(*byte)].fetch_add(1, one);
            })
        },
    )
}

fn pictures(bench: &mut Bench) -> Done {
    let stream = bench.stream.clone();
    let (width, height) = (1024_u32, 768_u32);
    let len = (width * height) as usize;
    let (mut our_steps, mut steps) = (stream.empty(len)?, vec![0; len]);
    bench.row(
        "Mandelbrot, 1024 x 768",
        |stream| maps::mandelbrot(width, height, 200, &mut our_steps).launch(stream, len),
        || {
            steps.par_iter_mut().enumerate().for_each(|(i, steps)| {
                let (row, column) = (i as u32 / width, i as u32 % width);
                let x = column as f32 / width as f32 * 3.0 - 2.0;
                let y = row as f32 / height as f32 * 2.0 - 1.0;
                *steps = maps::escape(x, y, 200);
            });
        },
    )?;
    bench.same("Mandelbrot, 1024 x 768", &our_steps, &steps)?;

    let (width, height) = (640, 480);
    let spheres = [
        0.0, 0.0, 1.0, 0.6, -0.9, 0.3, 2.0, 0.7, 0.8, -0.2, 0.4, 0.35,
    ];
    let (our_spheres, mut our_light) = (stream.create(&spheres)?, stream.empty(width * height)?);
    let mut light = vec![0.0; width * height];
    bench.row(
        "rays, 640 x 480",
        |stream| {
            rays::trace(width, height, &our_spheres, &mut our_light).launch(stream, width * height)
        },
        || {
            light
                .par_iter_mut()
                .enumerate()
                .for_each(|(i, light)| *light = traced(i, width, height, &spheres))
        },
    )?;
    bench.same("rays, 640 x 480", &our_light, &light)?;

    let (width, height) = (2048, 1024);
    let len = width * height;
    let (x, weights) = (uniform(1, len), uniform(2, 7));
    let (our_x, our_weights, mut our_y) = (
        stream.create(&x)?,
        stream.create(&weights)?,
        stream.empty(len)?,
    );
    let mut y = vec![0.0; len];
    bench.row(
        "rows of a convolution, 2048 x 1024",
        |stream| maps::convolve_rows(width, &our_x, &our_weights, &mut our_y).launch(stream, len),
        || {
            y.par_iter_mut().enumerate().for_each(|(i, y)| {
                let (row, column) = (i / width, i % width);
                let mut sum = 0.0;
                for (tap, weight) in weights.iter().enumerate() {
                    let at = (column + tap).wrapping_sub(3);
                    if at < width {
                        sum += x[row * width + at] * weight;
                    }
                }
                *y = sum;
            });
        },
    )?;
    bench.same("rows of a convolution, 2048 x 1024", &our_y, &y)
}

/// A pixel of `rays::trace` in ordinary Rust.
fn traced(i: usize, width: usize, height: usize, spheres: &[f32]) -> f32 {
    use rays::{Vector, first_hit};
    let (row, column) = (i / width, i % width);
    let across = (column as f32 + 0.5) / width as f32 - 0.5;
    let up = 0.5 - (row as f32 + 0.5) / height as f32;
    let mut from = Vector::new(0.0, 0.0, -2.0);
    let mut along = Vector::new(across, up, 1.0).unit();
    let sun = Vector::new(0.5, 0.8, -0.6).unit();
    let (mut seen, mut share) = (0.0, 1.0);
    for _ in 0..3 {
        let hit = first_hit(spheres, from, along);
        if hit.distance >= 1e6 {
            seen += share * (0.4 + 0.3 * along.y);
            break;
        }
        from = from + hit.distance * along;
        let at = 4 * hit.sphere;
        let normal = (from - Vector::new(spheres[at], spheres[at + 1], spheres[at + 2])).unit();
        let lit = if first_hit(spheres, from, sun).distance >= 1e6 {
            normal.dot(sun).max(0.0)
        } else {
            0.0
        };
        seen += share * 0.7 * lit;
        share *= 0.3;
        along = along + (-2.0 * along.dot(normal)) * normal;
    }
    seen
}

fn steps(bench: &mut Bench) -> Done {
    let stream = bench.stream.clone();
    let n = 4000;
    let (positions, mut speeds) = (uniform(1, 3 * n), uniform(2, 3 * n));
    let (our_positions, mut our_speeds) = (stream.create(&positions)?, stream.create(&speeds)?);
    bench.row(
        "n-body, 4000",
        |stream| maps::n_body(0.001, &our_positions, &mut our_speeds).launch(stream, n),
        || {
            let (across, rest) = speeds.split_at_mut(n);
            let (down, deep) = rest.split_at_mut(n);
            let all = across.par_iter_mut().zip(down).zip(deep).enumerate();
            all.for_each(|(i, ((across, down), deep))| {
                let (x, y, z) = (positions[i], positions[n + i], positions[2 * n + i]);
                let (mut fx, mut fy, mut fz) = (0.0, 0.0, 0.0);
                for j in 0..n {
                    let (dx, dy, dz) = (
                        positions[j] - x,
                        positions[n + j] - y,
                        positions[2 * n + j] - z,
                    );
                    let inverse = 1.0 / (dx * dx + dy * dy + dz * dz + 0.01).sqrt();
                    let cubed = inverse * inverse * inverse;
                    (fx, fy, fz) = (fx + dx * cubed, fy + dy * cubed, fz + dz * cubed);
                }
                (*across, *down, *deep) =
                    (*across + 0.001 * fx, *down + 0.001 * fy, *deep + 0.001 * fz);
            });
        },
    )?;
    bench.same("n-body, 4000", &our_speeds, &speeds)?;

    let (features, points, centres) = (8, 1 << 18, 16);
    let (x, middles) = (
        uniform(1, points * features),
        uniform(2, centres * features),
    );
    let (our_x, our_middles) = (stream.create(&x)?, stream.create(&middles)?);
    let (mut our_members, changed) = (
        stream.create(&vec![0_u32; points])?,
        stream.create(&[0_u32])?,
    );
    let mut members = vec![0_u32; points];
    bench.row(
        "k-means: nearest of 16, 256 K",
        |stream| {
            k_means::assign(features, &our_x, &our_middles, &mut our_members, &changed)
                .launch(stream, points)
        },
        || {
            members
                .par_iter_mut()
                .zip(x.par_chunks(features))
                .for_each(|(member, point)| {
                    let (mut nearest, mut least) = (0, f32::INFINITY);
                    for (centre, middle) in middles.chunks(features).enumerate() {
                        let mut distance = 0.0;
                        for (a, b) in point.iter().zip(middle) {
                            distance += (a - b) * (a - b);
                        }
                        if distance < least {
                            (nearest, least) = (centre as u32, distance);
                        }
                    }
                    *member = nearest;
                });
        },
    )?;
    bench.same("k-means: nearest of 16, 256 K", &our_members, &members)?;

    let (nodes, edges_each) = (1 << 20, 8);
    let starts: Vec<u32> = (0..=nodes as u32).map(|i| i * edges_each).collect();
    let edges: Vec<u32> = uniform(1, nodes * edges_each as usize)
        .iter()
        .map(|it| (it * nodes as f32) as u32)
        .collect();
    let found: Vec<u32> = uniform(2, nodes)
        .iter()
        .map(|it| u32::from(*it > 0.3))
        .collect();
    let (our_starts, our_edges, our_found) = (
        stream.create(&starts)?,
        stream.create(&edges)?,
        stream.create(&found)?,
    );
    let our_marks = stream.create(&vec![0_u32; nodes])?;
    let marks: Vec<_> = (0..nodes)
        .map(|_| std::sync::atomic::AtomicU32::new(0))
        .collect();
    bench.row(
        "breadth first: a step, 1 M",
        |stream| {
            breadth_first::expand(0, &our_starts, &our_edges, &our_found, &our_marks)
                .launch(stream, nodes)
        },
        || {
            found
                .par_iter()
                .zip(starts.par_windows(2))
                .for_each(|(found, ends)| {
                    if *found == 0 {
                        for edge in &edges[ends[0] as usize..ends[1] as usize] {
                            marks[*edge as usize]
                                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
        },
    )?;

    let len = 1 << 20;
    let (run, distance) = (64, 16);
    let mut keys: Vec<u32> = uniform(1, len)
        .iter()
        .map(|part| (part * 1e6) as u32)
        .collect();
    let mut our_keys = stream.create(&keys)?;
    bench.row(
        "bitonic: a step, 1 M",
        |stream| samples::bitonic(run, distance, &mut our_keys).launch(stream, len / 2),
        || {
            keys.par_chunks_mut(2 * distance)
                .enumerate()
                .for_each(|(chunk, keys)| {
                    let rises = (2 * distance * chunk) & run == 0;
                    let (low, high) = keys.split_at_mut(distance);
                    for (low, high) in low.iter_mut().zip(high) {
                        if (*low > *high) == rises {
                            std::mem::swap(low, high);
                        }
                    }
                });
        },
    )?;
    bench.same("bitonic: a step, 1 M", &our_keys, &keys)?;

    let (inputs, units) = (1024, 1024);
    let (given, deltas) = (uniform(1, inputs), uniform(2, units));
    let (mut moves, mut weights) = (
        vec![0.0; (inputs + 1) * units],
        uniform(3, (inputs + 1) * units),
    );
    let (our_given, our_deltas) = (stream.create(&given)?, stream.create(&deltas)?);
    let (mut our_moves, mut our_weights) = (stream.create(&moves)?, stream.create(&weights)?);
    bench.row(
        "back-propagation: weights, 1 M",
        |stream| {
            back_propagation::adjust_weights(
                &our_given,
                &our_deltas,
                &mut our_moves,
                &mut our_weights,
            )
            .launch(stream, [inputs + 1, units])
        },
        || {
            let rows = moves
                .par_chunks_mut(units)
                .zip(weights.par_chunks_mut(units))
                .enumerate();
            rows.for_each(|(row, (moves, weights))| {
                let input = if row == 0 { 1.0 } else { given[row - 1] };
                for ((last, weight), delta) in moves.iter_mut().zip(weights).zip(&deltas) {
                    *last = 0.3 * delta * input + 0.3 * *last;
                    *weight += *last;
                }
            });
        },
    )?;
    bench.same("back-propagation: weights, 1 M", &our_weights, &weights)?;

    let (rows, columns) = (1024, 1024);
    let len = rows * columns;
    let (flows, from) = (uniform(1, len), uniform(2, len));
    let (our_flows, our_from, mut our_to) = (
        stream.create(&flows)?,
        stream.create(&from)?,
        stream.empty(len)?,
    );
    let mut to = vec![0.0; len];
    bench.row(
        "fluid: Jacobi, 1 M",
        |stream| {
            fluid::jacobi(rows, columns, &our_flows, &our_from, &mut our_to)
                .launch(stream, [rows, columns])
        },
        || {
            to.par_chunks_mut(columns)
                .enumerate()
                .for_each(|(row, to)| {
                    for (column, to) in to.iter_mut().enumerate() {
                        let at = row * columns + column;
                        let own = from[at];
                        let above = if row > 0 { from[at - columns] } else { own };
                        let below = if row + 1 < rows {
                            from[at + columns]
                        } else {
                            own
                        };
                        let left = if column > 0 { from[at - 1] } else { own };
                        let right = if column + 1 < columns {
                            from[at + 1]
                        } else {
                            own
                        };
                        *to = (above + below + left + right - flows[at]) / 4.0;
                    }
                });
        },
    )?;
    bench.same("fluid: Jacobi, 1 M", &our_to, &to)?;

    let (down, across) = (between(3, len, -3.0, 3.0), between(4, len, -3.0, 3.0));
    let (our_down, our_across) = (stream.create(&down)?, stream.create(&across)?);
    bench.row(
        "fluid: moved dye, 1 M",
        |stream| {
            fluid::advect(
                rows,
                columns,
                1.5,
                &our_down,
                &our_across,
                &our_from,
                &mut our_to,
            )
            .launch(stream, [rows, columns])
        },
        || {
            to.par_iter_mut().enumerate().for_each(|(at, to)| {
                let (row, column) = ((at / columns) as f32, (at % columns) as f32);
                let (row, column) = (row - 1.5 * down[at], column - 1.5 * across[at]);
                *to = fluid::sample(rows, columns, &from[..], row, column);
            });
        },
    )?;
    bench.same("fluid: moved dye, 1 M", &our_to, &to)
}
