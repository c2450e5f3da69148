#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
layout(push_constant, scalar) uniform Block { Bytes image; Words bins; uint pixels; };
shared uint counted[LEVELS];

// Counts the pixels of each level. A cube counts a chunk of pixels in shared memory before it adds to `bins`.
void main() {
    EACH(bin, LEVELS) {
        counted[bin] = 0;
    }
    barrier();
    const uint start = gl_WorkGroupID.x * PIXELS_PER_COUNT;
    const uint end = min(start + PIXELS_PER_COUNT, pixels);
    for (uint at = start + gl_LocalInvocationID.x; at < end; at += gl_WorkGroupSize.x) {
        atomicAdd(counted[uint(image.at[at])], 1);
    }
    barrier();
    EACH(bin, LEVELS) {
        if (counted[bin] > 0) {
            atomicAdd(bins.at[bin], counted[bin]);
        }
    }
}
