#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
layout(push_constant, scalar) uniform Block { Floats src; Floats edges; uint width; };

// Computes the Sobel gradient. A cube computes one row.
void main() {
    const uint y = gl_WorkGroupID.x;
    const uint above = (max(y, 1) - 1) * width;
    const uint middle = y * width;
    const uint below = min(y + 1, gl_NumWorkGroups.x - 1) * width;
    EACH(x, width) {
        const uint left = max(x, 1) - 1, right = min(x + 1, width - 1);
        const float across = (src.at[above + right] - src.at[above + left])
                           + 2.0 * (src.at[middle + right] - src.at[middle + left])
                           + (src.at[below + right] - src.at[below + left]);
        const float down = (src.at[below + left] - src.at[above + left])
                         + 2.0 * (src.at[below + x] - src.at[above + x])
                         + (src.at[below + right] - src.at[above + right]);
        edges.at[middle + x] = sqrt(across * across + down * down) / 4.0;
    }
}
