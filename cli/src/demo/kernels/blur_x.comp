#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
layout(push_constant, scalar) uniform Block { Floats src; Floats taps; Floats dst; uint width; };

// Blurs along the rows; the edges repeat the outermost pixel. A cube computes one row.
void main() {
    const uint row = gl_WorkGroupID.x * width;
    const int last = int(width) - 1;
    EACH(x, width) {
        float sum = 0.0;
        for (int k = 0; k <= 2 * RADIUS; ++k) {
            sum += taps.at[k] * src.at[row + clamp(int(x) + k - RADIUS, 0, last)];
        }
        dst.at[row + x] = sum;
    }
}
