//! A picture of spheres: the camera is a parameter, and the spheres are the elements of a buffer.

use millstream::prelude::*;

use crate::rays::Vector;
use crate::{Checked, near};

/// Where the picture is taken from.
#[kernel]
#[derive(Clone, Copy, Debug)]
pub struct Camera {
    /// The place.
    pub from: Vector,
    /// From the place to the middle of the picture.
    pub forward: Vector,
    /// Half of the picture's width.
    pub right: Vector,
    /// Half of its height.
    pub up: Vector,
    /// The number of columns and rows.
    pub size: (usize, usize),
}

#[kernel]
impl Camera {
    /// Returns the direction of the ray through a pixel.
    pub fn ray(self, row: usize, column: usize) -> Vector {
        let across = (2 * column + 1) as f32 / self.size.0 as f32 - 1.0;
        let up = 1.0 - (2 * row + 1) as f32 / self.size.1 as f32;
        (self.forward + across * self.right + up * self.up).unit()
    }
}

/// A sphere.
#[kernel]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sphere {
    /// The centre.
    pub centre: Vector,
    /// The radius.
    pub radius: f32,
    /// Red, green and blue.
    pub colour: [f32; 3],
    /// Its name; an integer among floats.
    pub name: u32,
}

/// The sphere that a ray meets first, and the distance; the number of spheres if it meets none.
#[kernel]
pub fn first(spheres: &[Sphere], from: Vector, along: Vector) -> (usize, f32) {
    let mut hit = (spheres.len(), 1e6);
    for number in 0..spheres.len() {
        let to = spheres[number].centre - from;
        let middle = to.dot(along);
        let inside = middle * middle - to.dot(to) + spheres[number].radius * spheres[number].radius;
        if inside >= 0.0 {
            let distance = middle - inside.sqrt();
            if distance > 0.001 && distance < hit.1 {
                hit = (number, distance);
            }
        }
    }
    hit
}

/// Takes the picture.
#[kernel]
pub fn picture(camera: Camera, sun: Vector, spheres: &[Sphere], #[whole] pixels: &mut [[f32; 3]]) {
    let [row, column] = position();
    let along = camera.ray(row, column);
    let (number, distance) = first(spheres, camera.from, along);
    let mut pixel = [0.25, 0.5, 0.75];
    if number < spheres.len() {
        let at = camera.from + distance * along;
        let normal = (at - spheres[number].centre).unit();
        let mut light = 0.125;
        let (before, _) = first(spheres, at, sun);
        if before == spheres.len() {
            light += normal.dot(sun).max(0.0);
        }
        for part in 0..3 {
            pixel[part] = light * spheres[number].colour[part];
        }
    }
    pixels[thread()] = pixel;
}

/// The same in ordinary Rust, in `f64`.
fn expected(camera: &Camera, sun: Vector, spheres: &[Sphere]) -> Vec<[f32; 3]> {
    type V = [f64; 3];
    let of = |v: Vector| [v.x, v.y, v.z].map(f64::from);
    let dot = |a: V, b: V| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let plus = |a: V, s: f64, b: V| -> V { std::array::from_fn(|i| a[i] + s * b[i]) };
    let unit = |a: V| a.map(|part| part / dot(a, a).sqrt());
    let first = |from: V, along: V| {
        let hits = spheres.iter().enumerate().filter_map(|(number, sphere)| {
            let to = plus(of(sphere.centre), -1.0, from);
            let middle = dot(to, along);
            let inside = middle * middle - dot(to, to) + f64::from(sphere.radius).powi(2);
            let distance = middle - inside.sqrt();
            (inside >= 0.0 && distance > 0.001).then_some((distance, number))
        });
        hits.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (columns, rows) = camera.size;
    let pixel = |i: usize| {
        let across = (2 * (i % columns) + 1) as f64 / columns as f64 - 1.0;
        let up = 1.0 - (2 * (i / columns) + 1) as f64 / rows as f64;
        let along = plus(of(camera.forward), across, of(camera.right));
        let along = unit(plus(along, up, of(camera.up)));
        let Some((distance, number)) = first(of(camera.from), along) else {
            return [0.25, 0.5, 0.75];
        };
        let at = plus(of(camera.from), distance, along);
        let normal = unit(plus(at, -1.0, of(spheres[number].centre)));
        let light = match first(at, of(sun)) {
            None => 0.125 + dot(normal, of(sun)).max(0.0),
            Some(_) => 0.125,
        };
        let colour = spheres[number].colour;
        colour.map(|part| (light * f64::from(part)) as f32)
    };
    (0..columns * rows).map(pixel).collect()
}

/// Compares `picture` with plain Rust.
///
/// # Errors
/// They differ in more than a few pixels on edges.
pub fn picture_matches(device: &Device) -> Checked {
    let (stream, columns, rows) = (device.new_stream(), 40, 24);
    let vector = |x: f32, y: f32, z: f32| Vector { x, y, z };
    let camera = Camera {
        from: vector(0.0, 0.5, -3.0),
        forward: vector(0.0, -0.125, 1.0),
        right: vector(0.75, 0.0, 0.0),
        up: vector(0.0, 0.5, 0.0625),
        size: (columns, rows),
    };
    let sun = vector(0.48, 0.8, -0.36);
    let sphere = |centre: Vector, radius: f32, colour: [f32; 3]| Sphere {
        centre,
        radius,
        colour,
        name: 0,
    };
    let spheres = [
        sphere(vector(0.0, 0.0, 0.5), 0.75, [1.0, 0.5, 0.25]),
        sphere(vector(1.0, 0.25, 1.5), 0.5, [0.5, 1.0, 0.5]),
        sphere(vector(-1.0, -0.25, 0.0), 0.5, [0.25, 0.25, 1.0]),
    ];
    let expected: Vec<f32> = expected(&camera, sun, &spheres)
        .into_iter()
        .flatten()
        .collect();
    let (spheres, mut pixels) = (stream.create(&spheres)?, stream.empty(columns * rows)?);
    picture(camera, sun, &spheres, &mut pixels).launch(&stream, [rows, columns])?;
    let given = stream.read(&pixels).wait()?;
    let given: Vec<f32> = given.into_iter().flatten().collect();
    let far = |(a, b): &(&f32, &f32)| (**a - **b).abs() > 1e-3;
    match given.iter().zip(&expected).filter(far).count() {
        0..=30 => Ok(()),
        _ => near("pixels", &given, &expected, 1e-3),
    }
}
