#version 460
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
BUFFER(0)
BUFFER(1)
layout(push_constant, scalar) uniform Block { WORDS(a); WORDS(b); };

void main() {
    if (gl_LocalInvocationIndex == 0) {
        atomicAdd(AT(0, a, 0), 1);
        atomicAdd(AT(1, b, 0), 1);
    }
}
