#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
// One step of Gray and Scott's system. A cube computes one row. `precise`: every operation is rounded separately, as on
// the CPU, so that both compute the same bits.
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Block { Floats food, field, next_food, next_field; };

const float FEED = 0.0545, KILL = 0.062;

// The diffusion to a cell from those at its sides and corners.
float spread(Floats of, uvec3 rows, uvec3 columns) {
    const uint up = rows.x, here = rows.y, down = rows.z;
    const uint left = columns.x, x = columns.y, right = columns.z;
    precise const float sides = of.at[up + x] + of.at[down + x] + of.at[here + left] + of.at[here + right];
    precise const float corners = of.at[up + left] + of.at[up + right] + of.at[down + left] + of.at[down + right];
    precise const float spread = 0.2 * sides + 0.05 * corners - of.at[here + x];
    return spread;
}

void main() {
    const uint size = gl_NumWorkGroups.x, y = gl_WorkGroupID.x;
    const uvec3 rows = size * ((uvec3(y) + uvec3(size - 1, 0, 1)) % size);
    for (uint x = gl_LocalInvocationID.x; x < size; x += gl_WorkGroupSize.x) {
        const uvec3 columns = (uvec3(x) + uvec3(size - 1, 0, 1)) % size;
        const float f = food.at[rows.y + x], v = field.at[rows.y + x];
        precise const float reaction = f * v * v;
        precise const float grown = f + spread(food, rows, columns) - reaction;
        precise const float fed = grown + FEED * (1.0 - f);
        precise const float eaten = v + 0.5 * spread(field, rows, columns) + reaction;
        precise const float left = eaten - (FEED + KILL) * v;
        next_food.at[rows.y + x] = fed;
        next_field.at[rows.y + x] = left;
    }
}
