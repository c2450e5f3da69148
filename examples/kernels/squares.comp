#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
// Sums the squares of a cube's numbers: first within each thread, then pair by pair over the threads.
const uint PER_CUBE = 4096; // the same value as in service.rs
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Block { Floats numbers, parts; uint count; };

shared float sums[gl_WorkGroupSize.x];

void main() {
    const uint me = gl_LocalInvocationIndex;
    const uint start = gl_WorkGroupID.x * PER_CUBE, end = min(start + PER_CUBE, count);
    float sum = 0.0;
    for (uint at = start + me; at < end; at += gl_WorkGroupSize.x) {
        sum += numbers.at[at] * numbers.at[at];
    }
    sums[me] = sum;
    for (uint by = gl_WorkGroupSize.x / 2; by > 0; by /= 2) {
        barrier();
        if (me < by) {
            sums[me] += sums[me + by];
        }
    }
    if (me == 0) {
        parts.at[gl_WorkGroupID.x] = sums[0];
    }
}
