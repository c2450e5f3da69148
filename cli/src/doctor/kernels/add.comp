#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
layout(push_constant, scalar) uniform Block { Words values; uint by; uint n; };

void main() {
    EACH(i, n) values.at[i] += by;
}
