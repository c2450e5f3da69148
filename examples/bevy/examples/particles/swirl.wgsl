// Moves particles by one step: three centres that circle attract them and drag them along.

@group(0) @binding(0) var<storage, read_write> particles: array<vec4f>; // position, velocity
struct Scalars { time: f32, step: f32 }
var<immediate> scalars: Scalars;

@compute @workgroup_size(256)
fn swirl(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= arrayLength(&particles) { return; }
    var position = particles[id.x].xy;
    var velocity = particles[id.x].zw;
    var force = -0.15 * position;
    for (var centre = 0; centre < 3; centre++) {
        let angle = 0.9 * scalars.time + 2.0943951 * f32(centre);
        let to = 0.5 * vec2f(1.5 * cos(angle), sin(angle)) - position;
        let squared = dot(to, to) + 0.006;
        force += (0.09 * to + 0.05 * vec2f(-to.y, to.x)) / squared;
    }
    velocity = 0.996 * (velocity + scalars.step * force);
    position += scalars.step * velocity;
    particles[id.x] = vec4f(position, velocity);
}
