// How the kernels of the suite receive their buffers: as addresses, or, with DESCRIPTORS, as storage buffers of set 0,
// with the byte offset of the first element in place of the address.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require

layout(local_size_x = 256) in;
layout(buffer_reference, scalar) buffer Words { uint at[]; };

#ifdef DESCRIPTORS
#define BUFFER(slot) layout(set = 0, binding = slot, scalar) buffer Buffer##slot { uint at[]; } buffer_##slot;
#define WORDS(name) uint64_t name
#define AT(slot, name, i) buffer_##slot.at[uint(name / 4) + (i)]
#else
#define BUFFER(slot)
#define WORDS(name) Words name
#define AT(slot, name, i) name.at[i]
#endif

// Any number of cubes share the elements.
#define EACH(i, n) for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * 256)
