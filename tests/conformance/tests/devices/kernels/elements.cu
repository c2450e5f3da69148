// The suite's kernels, equivalent to the closures in their declarations. A grid-stride loop lets any number of cubes
// process all elements.

#define EACH(i, n) \
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)

extern "C" __global__ void add_one(unsigned* values, unsigned n) {
    EACH(i, n) values[i] += 1;
}

extern "C" __global__ void transfer(const unsigned* src, unsigned* dst, unsigned n) {
    EACH(i, n) dst[i] = src[i];
}

extern "C" __global__ void set(unsigned* dst, unsigned value, unsigned n) {
    EACH(i, n) dst[i] = value;
}

extern "C" __global__ void add(unsigned* values, unsigned by, unsigned n) {
    EACH(i, n) values[i] += by;
}

extern "C" __global__ void mix(const unsigned* src, unsigned* dst, unsigned n) {
    EACH(i, n) dst[i] = dst[i] * 31 + src[i];
}

extern "C" __global__ void sum(const unsigned* a, const unsigned* b, unsigned* out, unsigned n) {
    EACH(i, n) out[i] = a[i] + b[i];
}
