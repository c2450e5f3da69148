#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
layout(push_constant, scalar) uniform Block { Floats light; Floats edges; Bytes image; uint width; };

// Draws edges as ink on paper that keeps a little of the light. A cube computes one row.
void main() {
    const uint row = gl_WorkGroupID.x * width;
    EACH(x, width) {
        const float paper = PAPER + (1.0 - PAPER) * light.at[row + x];
        const float tone = paper * HALF_INK / (edges.at[row + x] + HALF_INK);
        image.at[row + x] = uint8_t(uint(tone * 255.0 + 0.5));
    }
}
