//! K-means: points get the centre that is nearest, and centres the mean of their points.

use millstream::prelude::*;

use crate::{Checked, equal, near, uniform};

/// The square of the distance of a point from a centre. `features` numbers describe each.
#[kernel]
pub fn distance(
    features: usize,
    points: &[f32],
    point: usize,
    centres: &[f32],
    centre: usize,
) -> f32 {
    let mut sum = 0.0;
    for k in 0..features {
        let part = points[point * features + k] - centres[centre * features + k];
        sum += part * part;
    }
    sum
}

/// Gives each point its nearest centre, and counts those whose centre is another than before.
#[kernel]
pub fn assign(
    features: usize,
    points: &[f32],
    centres: &[f32],
    members: &mut [u32],
    changed: &[Atomic<u32>],
) {
    let i = thread();
    let mut nearest = 0;
    let mut least = f32::INFINITY;
    for centre in 0..centres.len() / features {
        let distance = distance(features, points, i, centres, centre);
        if distance < least {
            (nearest, least) = (centre as u32, distance);
        }
    }
    if members[i] != nearest {
        members[i] = nearest;
        changed[0].fetch_add(1);
    }
}

/// Moves each centre, which has a cube, to the mean of its points.
#[kernel(cube = 64)]
pub fn centre(features: usize, points: &[f32], members: &[u32], centres: &mut [f32]) {
    let centre = cube();
    for k in 0..features {
        let (mut sum, mut count) = (0.0, 0_u32);
        for point in (thread_in_cube()..members.len()).step_by(threads_in_cube()) {
            if members[point] == centre as u32 {
                sum += points[point * features + k];
                count += 1;
            }
        }
        let (sum, count) = (cube_sum(sum), cube_sum(count));
        // A centre without points stays.
        if thread_in_cube() == 0 && count > 0 {
            centres[centre * features + k] = sum / count as f32;
        }
    }
}

/// Moves centres until no point gets another. Returns the centre of each point.
fn clusters(
    stream: &Stream,
    features: usize,
    points: &Handle<f32>,
    centres: &mut Handle<f32>,
) -> Result<Vec<u32>, Box<dyn std::error::Error>> {
    let (count, k) = (points.len() / features, centres.len() / features);
    let mut members = stream.create(&vec![u32::MAX; count])?;
    for _ in 0..20 {
        let changed = stream.create(&[0_u32])?;
        assign(features, points, centres, &mut members, &changed).launch(stream, count)?;
        if stream.read(&changed).wait()? == [0] {
            return Ok(stream.read(&members).wait()?);
        }
        centre(features, points, &members, centres).launch(stream, k * 64)?;
    }
    Err("no end after 20 rounds".into())
}

/// The same in ordinary Rust.
fn expected(features: usize, points: &[f32], centres: &mut [f32]) -> Vec<u32> {
    let mut members = vec![u32::MAX; points.len() / features];
    loop {
        let nearest = points.chunks(features).map(|point| {
            let distances = centres.chunks(features).map(|centre| {
                let parts = point
                    .iter()
                    .zip(centre)
                    .map(|(a, b)| f64::from(*a) - f64::from(*b));
                parts.map(|part| part * part).sum::<f64>()
            });
            let nearest = (0..)
                .zip(distances)
                .reduce(|a, b| if b.1 < a.1 { b } else { a });
            nearest.map_or(0, |nearest| nearest.0)
        });
        let nearest: Vec<u32> = nearest.collect();
        if nearest == members {
            return members;
        }
        members = nearest;
        for (number, centre) in (0..).zip(centres.chunks_mut(features)) {
            let own = || {
                points
                    .chunks(features)
                    .zip(&members)
                    .filter(|(_, of)| **of == number)
            };
            let count = own().count();
            for (k, value) in centre.iter_mut().enumerate().filter(|_| count > 0) {
                let sum: f64 = own().map(|(point, _)| f64::from(point[k])).sum();
                *value = (sum / count as f64) as f32;
            }
        }
    }
}

/// Compares k-means with plain Rust.
///
/// # Errors
/// They differ.
pub fn k_means_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    let near_corners = |features: usize, count: usize| -> Vec<f32> {
        let of = |(i, part): (usize, &f32)| (10 * (i / features * 7 % 5)) as f32 + part;
        uniform(1, count * features)
            .iter()
            .enumerate()
            .map(of)
            .collect()
    };
    let inputs = [
        (1, vec![3.0], 1),
        (4, near_corners(4, 300), 5),
        // Points that are equal, more centres than points, and points that are near no centre.
        (2, [1.0, 2.0].repeat(70), 3),
        (3, near_corners(3, 2), 6),
        (1, vec![f32::NAN, 1.0, f32::INFINITY, 2.0], 1),
    ];
    for (features, points, k) in inputs {
        let first = points.iter().copied().cycle().take(features * k);
        let mut expected_centres: Vec<f32> = first.collect();
        let (points_of, mut centres) = (stream.create(&points)?, stream.create(&expected_centres)?);
        let expected = expected(features, &points, &mut expected_centres);
        let members = clusters(&stream, features, &points_of, &mut centres)?;
        equal("members", &members, &expected)?;
        near(
            "centres",
            &stream.read(&centres).wait()?,
            &expected_centres,
            1e-5,
        )?;
    }
    Ok(())
}
