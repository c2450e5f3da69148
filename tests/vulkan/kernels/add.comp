#version 460
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
BUFFER(0)
layout(push_constant, scalar) uniform Block { WORDS(values); uint by; uint n; };

void main() {
    EACH(i, n) AT(0, values, i) += by;
}
