#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
layout(push_constant, scalar) uniform Block { Words src; Words dst; uint n; };

void main() {
    EACH(i, n) dst.at[i] = dst.at[i] * 31 + src.at[i];
}
