#version 460
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
BUFFER(0)
layout(push_constant, scalar) uniform Block { WORDS(cubes); };

void main() {
    if (gl_LocalInvocationIndex == 0) {
        atomicAdd(AT(0, cubes, 0), 1);
    }
}
