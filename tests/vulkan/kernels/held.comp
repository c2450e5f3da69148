#version 460
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// A gate: whether it is open, and the number of arrivals.
layout(buffer_reference, scalar) volatile coherent buffer Gate { uint is_open; uint arrivals; };

void pass(Gate gate) {
    atomicAdd(gate.arrivals, 1);
    while (atomicAdd(gate.is_open, 0) == 0) {
    }
}

BUFFER(0)
layout(push_constant, scalar) uniform Block { WORDS(values); Gate gate; };

void main() {
    if (gl_LocalInvocationIndex == 0) {
        pass(gate);
        AT(0, values, 0) += 1;
    }
}
