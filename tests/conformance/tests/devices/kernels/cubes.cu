// Each cube does this once, whatever its number of threads.

extern "C" __global__ void places(unsigned* out) {
    if (threadIdx.x == 0) {
        unsigned place = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        out[place] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z;
    }
}

extern "C" __global__ void count_cubes(unsigned* cubes) {
    if (threadIdx.x == 0) atomicAdd(cubes, 1);
}

extern "C" __global__ void atomics(unsigned* a, unsigned* b) {
    if (threadIdx.x == 0) {
        atomicAdd(a, 1);
        atomicAdd(b, 1);
    }
}
