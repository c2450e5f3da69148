extern "C" __global__ void __launch_bounds__(64) scan(const unsigned* __restrict__ x, unsigned* sums, size_t n) {
  __shared__ unsigned part[64];
  size_t i = blockIdx.x * (size_t)64 + threadIdx.x;
  unsigned mine = threadIdx.x;
  part[mine] = i < n ? x[i] : 0;
  for (unsigned distance = 1; distance < 64; distance *= 2) {
    __syncthreads();
    unsigned other = mine >= distance ? part[mine - distance] : 0;
    __syncthreads();
    part[mine] += other;
  }
  if (i < n) sums[i] = part[mine];
}
