// What the kernels of the testkit's programs have in common; they compute the same as the closures on a CPU. All threads
// of all cubes share the elements.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

layout(local_size_x = 256) in;
layout(buffer_reference, scalar) buffer Words { uint at[]; };

#define EACH(i, n) for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
