#version 460
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
BUFFER(0)
BUFFER(1)
BUFFER(2)
layout(push_constant, scalar) uniform Block { WORDS(a); WORDS(b); WORDS(dst); uint n; };

void main() {
    EACH(i, n) AT(2, dst, i) = AT(0, a, i) + AT(1, b, i);
}
