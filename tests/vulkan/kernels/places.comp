#version 460
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
BUFFER(0)
layout(push_constant, scalar) uniform Block { WORDS(dst); };

void main() {
    if (gl_LocalInvocationIndex == 0) {
        uvec3 cube = gl_WorkGroupID;
        uint place = (cube.z * gl_NumWorkGroups.y + cube.y) * gl_NumWorkGroups.x + cube.x;
        AT(0, dst, place) = cube.x + 10 * cube.y + 100 * cube.z;
    }
}
