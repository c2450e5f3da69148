// Kernels that wait at a valve: two words of host memory, whether it is open and the number of arrivals.

__device__ void pass(unsigned* valve) {
    atomicAdd_system(valve + 1, 1);
    while (*(volatile unsigned*)valve == 0) {
    }
}

extern "C" __global__ void held(unsigned* values, unsigned long long valve) {
    if (threadIdx.x == 0) {
        pass((unsigned*)valve);
        values[0] += 1;
    }
}

extern "C" __global__ void held_reader(const unsigned* values, unsigned* out, unsigned long long valve) {
    if (threadIdx.x == 0) {
        pass((unsigned*)valve);
        out[0] = values[0];
    }
}
