extern "C" __global__ void __launch_bounds__(128) partial_sums(const float* __restrict__ x, float* sums, size_t n) {
  __shared__ float part[128];
  unsigned mine = threadIdx.x;
  float sum = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + mine; i < n; i += gridDim.x * (size_t)blockDim.x) sum += x[i];
  part[mine] = sum;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (mine < half) part[mine] += part[mine + half];
  }
  if (mine == 0) sums[blockIdx.x] = part[0];
}
