// Sums the squares of a cube's numbers: first within each thread, then within each warp, then over the warps.
constexpr unsigned PER_CUBE = 4096; // the same value as in service.rs
constexpr unsigned WARP = 32, WHOLE = 0xffffffff;

__device__ float sum_of_warp(float sum) {
    for (unsigned by = WARP / 2; by > 0; by /= 2) {
        sum += __shfl_down_sync(WHOLE, sum, by);
    }
    return sum;
}

extern "C" __global__ void squares(const float* numbers, float* parts, unsigned count) {
    __shared__ float of_warps[WARP];
    const unsigned start = blockIdx.x * PER_CUBE;
    const unsigned end = min(start + PER_CUBE, count);
    float sum = 0.0f;
    for (unsigned at = start + threadIdx.x; at < end; at += blockDim.x) {
        sum += numbers[at] * numbers[at];
    }
    sum = sum_of_warp(sum);
    if (threadIdx.x % WARP == 0) {
        of_warps[threadIdx.x / WARP] = sum;
    }
    __syncthreads();
    if (threadIdx.x < WARP) {
        sum = sum_of_warp(threadIdx.x < blockDim.x / WARP ? of_warps[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) {
            parts[blockIdx.x] = sum;
        }
    }
}
