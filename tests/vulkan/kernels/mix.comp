#version 460
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
BUFFER(0)
BUFFER(1)
layout(push_constant, scalar) uniform Block { WORDS(src); WORDS(dst); uint n; };

void main() {
    EACH(i, n) AT(1, dst, i) = AT(1, dst, i) * 31 + AT(0, src, i);
}
