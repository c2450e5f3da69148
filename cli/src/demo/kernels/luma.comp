#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
layout(push_constant, scalar) uniform Block { Bytes rgb; Floats light; uint width; };

// Computes the luma of each pixel, from 0 to 1. A cube computes one row.
void main() {
    const uint row = gl_WorkGroupID.x * width;
    EACH(x, width) {
        const uint pixel = (row + x) * 3;
        const float sum = LUMA_RED * uint(rgb.at[pixel]) + LUMA_GREEN * uint(rgb.at[pixel + 1])
                        + LUMA_BLUE * uint(rgb.at[pixel + 2]);
        light.at[row + x] = sum / 255.0;
    }
}
