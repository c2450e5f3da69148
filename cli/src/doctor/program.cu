// The kernels of the testkit's programs; they compute the same as the closures on a CPU. All threads of all cubes share
// the elements.

#define EACH(i, n) for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)

extern "C" __global__ void add(unsigned* values, unsigned by, unsigned n) {
    EACH(i, n) values[i] += by;
}

extern "C" __global__ void mix(const unsigned* src, unsigned* dst, unsigned n) {
    EACH(i, n) dst[i] = dst[i] * 31 + src[i];
}

extern "C" __global__ void set(unsigned* dst, unsigned value, unsigned n) {
    EACH(i, n) dst[i] = value;
}
