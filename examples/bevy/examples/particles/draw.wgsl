// Draws each particle as a point, bluer at rest and redder in motion. Points add up.

struct View { clip_from_world: mat4x4f }
@group(0) @binding(0) var<uniform> view: View;

struct Point {
    @builtin(position) position: vec4f,
    @location(0) colour: vec3f,
}

@vertex
fn vertex(@location(0) particle: vec4f) -> Point {
    let speed = saturate(0.8 * length(particle.zw));
    let colour = mix(vec3f(0.05, 0.16, 0.55), vec3f(1.0, 0.42, 0.12), speed);
    return Point(view.clip_from_world * vec4f(particle.xy, 0.0, 1.0), colour);
}

@fragment
fn fragment(point: Point) -> @location(0) vec4f {
    return vec4f(0.08 * point.colour, 1.0);
}
