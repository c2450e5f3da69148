//! A ray tracer: spheres, a light, shadows and mirrors. Structs with methods.

use std::ops::{Add, Mul, Neg, Sub};

use millstream::prelude::*;

use crate::{Checked, near};

/// A vector.
#[kernel]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vector {
    /// To the right.
    pub x: f32,
    /// Up.
    pub y: f32,
    /// Forward.
    pub z: f32,
}

#[kernel]
impl Vector {
    /// Returns a vector.
    pub fn new(x: f32, y: f32, z: f32) -> Self {
        Self { x, y, z }
    }

    /// Returns the product.
    pub fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// Returns the vector of length 1.
    pub fn unit(self) -> Self {
        1.0 / self.dot(self).sqrt() * self
    }
}

#[kernel]
impl Add for Vector {
    type Output = Vector;

    fn add(self, other: Vector) -> Vector {
        Vector::new(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

#[kernel]
impl Sub for Vector {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

#[kernel]
impl Neg for Vector {
    type Output = Vector;

    fn neg(self) -> Vector {
        -1.0 * self
    }
}

#[kernel]
impl Mul<Vector> for f32 {
    type Output = Vector;

    fn mul(self, other: Vector) -> Vector {
        Vector {
            x: self * other.x,
            y: self * other.y,
            z: self * other.z,
        }
    }
}

/// A ray that met a sphere: its distance, and the sphere's number.
#[kernel]
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// The distance; very far without a hit.
    pub distance: f32,
    /// The number.
    pub sphere: usize,
}

const FAR: f32 = 1e6;

/// Returns the first sphere on a ray. A sphere has four numbers: its centre and radius.
#[kernel]
pub fn first_hit(spheres: &[f32], from: Vector, along: Vector) -> Hit {
    let mut hit = Hit {
        distance: FAR,
        sphere: 0,
    };
    for sphere in 0..spheres.len() / 4 {
        let at = 4 * sphere;
        let centre = Vector::new(spheres[at], spheres[at + 1], spheres[at + 2]);
        let to = centre - from;
        let (middle, radius) = (to.dot(along), spheres[at + 3]);
        let inside = middle * middle - to.dot(to) + radius * radius;
        if inside < 0.0 {
            continue;
        }
        let distance = middle - inside.sqrt();
        if distance > 0.001 && distance < hit.distance {
            hit = Hit { distance, sphere };
        }
    }
    hit
}

/// The light that a pixel receives.
#[kernel]
pub fn trace(width: usize, height: usize, spheres: &[f32], #[whole] light: &mut [f32]) {
    let i = thread();
    let (row, column) = (i / width, i % width);
    let across = (column as f32 + 0.5) / width as f32 - 0.5;
    let up = 0.5 - (row as f32 + 0.5) / height as f32;
    let mut from = Vector::new(0.0, 0.0, -2.0);
    let mut along = Vector::new(across, up, 1.0).unit();
    let sun = Vector::new(0.5, 0.8, -0.6).unit();
    let (mut seen, mut share) = (0.0, 1.0);
    let mut mirrors = 0;
    while mirrors < 3 {
        let hit = first_hit(spheres, from, along);
        if hit.distance >= FAR {
            seen += share * (0.4 + 0.3 * along.y);
            break;
        }
        let at = 4 * hit.sphere;
        from = from + hit.distance * along;
        let centre = Vector::new(spheres[at], spheres[at + 1], spheres[at + 2]);
        let normal = (from - centre).unit();
        let lit = if first_hit(spheres, from, sun).distance < FAR {
            0.0
        } else {
            normal.dot(sun).max(0.0)
        };
        seen += share * 0.7 * lit;
        share *= 0.3;
        along = along - 2.0 * along.dot(normal) * normal;
        mirrors += 1;
    }
    light[i] = seen;
}

/// The same in ordinary Rust, in `f64`.
fn expected(width: usize, height: usize, spheres: &[f32]) -> Vec<f32> {
    type V = [f64; 3];
    let dot = |a: V, b: V| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let plus = |a: V, s: f64, b: V| -> V { std::array::from_fn(|i| a[i] + s * b[i]) };
    let unit = |a: V| a.map(|part| part / dot(a, a).sqrt());
    let all: Vec<(V, f64)> = spheres
        .chunks(4)
        .map(|it| (std::array::from_fn(|i| f64::from(it[i])), f64::from(it[3])))
        .collect();
    let first = |from: V, along: V| {
        let hits = all.iter().filter_map(|(centre, radius)| {
            let to = plus(*centre, -1.0, from);
            let middle = dot(to, along);
            let inside = middle * middle - dot(to, to) + radius * radius;
            let distance = middle - inside.sqrt();
            (inside >= 0.0 && distance > 0.001).then_some((distance, *centre))
        });
        hits.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let sun = unit([0.5, 0.8, -0.6]);
    let pixel = |i: usize| {
        let (row, column) = (i / width, i % width);
        let across = (column as f64 + 0.5) / width as f64 - 0.5;
        let up = 0.5 - (row as f64 + 0.5) / height as f64;
        let (mut from, mut along) = ([0.0, 0.0, -2.0], unit([across, up, 1.0]));
        let (mut seen, mut share) = (0.0, 1.0);
        for _ in 0..3 {
            let Some((distance, centre)) = first(from, along) else {
                seen += share * (0.4 + 0.3 * along[1]);
                break;
            };
            from = plus(from, distance, along);
            let normal = unit(plus(from, -1.0, centre));
            let lit = first(from, sun).map_or(dot(normal, sun).max(0.0), |_| 0.0);
            seen += share * 0.7 * lit;
            share *= 0.3;
            along = plus(along, -2.0 * dot(along, normal), normal);
        }
        seen as f32
    };
    (0..width * height).map(pixel).collect()
}

/// Compares `trace` with plain Rust.
///
/// # Errors
/// They differ in more than a few pixels on edges.
pub fn trace_matches(device: &Device) -> Checked {
    let (stream, width, height) = (device.new_stream(), 48, 32);
    let spheres = [
        0.0, 0.0, 1.0, 0.6, -0.9, 0.3, 2.0, 0.7, 0.8, -0.2, 0.4, 0.35,
    ];
    let expected = expected(width, height, &spheres);
    let (spheres, mut light) = (stream.create(&spheres)?, stream.empty(width * height)?);
    trace(width, height, &spheres, &mut light).launch(&stream, width * height)?;
    let given = stream.read(&light).wait()?;
    let far = |(a, b): &(&f32, &f32)| (**a - **b).abs() > 1e-3;
    match given.iter().zip(&expected).filter(far).count() {
        0..=15 => Ok(()),
        _ => near("light", &given, &expected, 1e-3),
    }
}
