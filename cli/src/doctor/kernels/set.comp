#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
layout(push_constant, scalar) uniform Block { Words dst; uint value; uint n; };

void main() {
    EACH(i, n) dst.at[i] = value;
}
