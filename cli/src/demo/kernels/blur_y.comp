#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
layout(push_constant, scalar) uniform Block { Floats src; Floats taps; Floats dst; uint width; };

// Blurs along the columns; the edges repeat the outermost row. A cube computes one row.
void main() {
    const int y = int(gl_WorkGroupID.x), last = int(gl_NumWorkGroups.x) - 1;
    EACH(x, width) {
        float sum = 0.0;
        for (int k = 0; k <= 2 * RADIUS; ++k) {
            sum += taps.at[k] * src.at[uint(clamp(y + k - RADIUS, 0, last)) * width + x];
        }
        dst.at[y * width + x] = sum;
    }
}
