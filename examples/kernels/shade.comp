#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
// Draws the field as a lit relief. A cube computes one row. Division and square root may differ from those of the CPU by
// some units in the last place, so a pixel may differ by one.
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Block { Floats field; Words pixels; };

// From deep blue over teal and gold to ivory.
const vec3 PALETTE[5] = vec3[](
    vec3(0.03, 0.05, 0.13), vec3(0.05, 0.26, 0.40), vec3(0.11, 0.56, 0.55), vec3(0.93, 0.70, 0.33), vec3(1.00, 0.95, 0.84)
);

// The light comes from the upper left.
uint colour(float height, float slope_x, float slope_y) {
    precise const float place = 4.0 * clamp(2.6 * height, 0.0, 1.0);
    const int below = min(int(place), 3);
    const float part = int(place) > below ? 1.0 : place - trunc(place);
    precise const float slope = slope_x + slope_y;
    precise const float steepness = sqrt(1.0 + 64.0 * (slope_x * slope_x + slope_y * slope_y));
    precise const float light = 0.62 + 0.38 * (1.0 - 5.0 * slope) / steepness;
    precise const float gleam = 0.6 * max((1.0 - 4.0 * slope) / steepness - 1.0, 0.0);
    precise const vec3 plain = PALETTE[below] * (1.0 - part) + PALETTE[below + 1] * part;
    precise const vec3 lit = 255.0 * clamp(plain * light + gleam, 0.0, 1.0);
    const uvec3 bytes = uvec3(lit);
    return 0xff000000 | bytes.r | bytes.g << 8 | bytes.b << 16;
}

void main() {
    const uint size = gl_NumWorkGroups.x, y = gl_WorkGroupID.x;
    const uvec3 rows = size * ((uvec3(y) + uvec3(size - 1, 0, 1)) % size);
    for (uint x = gl_LocalInvocationID.x; x < size; x += gl_WorkGroupSize.x) {
        const uint left = (x + size - 1) % size, right = (x + 1) % size;
        const float slope_x = field.at[rows.y + right] - field.at[rows.y + left];
        const float slope_y = field.at[rows.z + x] - field.at[rows.x + x];
        pixels.at[rows.y + x] = colour(field.at[rows.y + x], slope_x, slope_y);
    }
}
