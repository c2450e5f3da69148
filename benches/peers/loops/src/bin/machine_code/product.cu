extern "C" __global__ void __launch_bounds__(256) product(size_t n, const float* __restrict__ a, const float* __restrict__ b, float* c) {
  __shared__ float left[16][16], right[16][16];
  size_t across = threadIdx.x % 16, down = threadIdx.x / 16, tiles = (n + 15) / 16;
  size_t row = blockIdx.x / tiles * 16 + down, column = blockIdx.x % tiles * 16 + across;
  float sum = 0;
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t at = tile * 16;
    left[down][across] = row < n && at + across < n ? a[row * n + at + across] : 0;
    right[down][across] = at + down < n && column < n ? b[(at + down) * n + column] : 0;
    __syncthreads();
    for (int k = 0; k < 16; k++) sum += left[down][k] * right[k][across];
    __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}
