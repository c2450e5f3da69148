extern "C" __global__ void __launch_bounds__(64) product(size_t m, size_t k, size_t n, const float* __restrict__ a, const float* __restrict__ b, float* c) {
  __shared__ float left[16][16], right[16][16];
  unsigned down = threadIdx.y, across = threadIdx.x;
  size_t top = blockIdx.y * (size_t)16, column = blockIdx.x * (size_t)16 + across;
  float sums[4] = {};
  for (size_t at = 0; at < k; at += 16) {
    for (unsigned line = down; line < 16; line += 4) {
      size_t row = top + line;
      left[line][across] = row < m && at + across < k ? a[row * k + at + across] : 0;
      right[line][across] = at + line < k && column < n ? b[(at + line) * n + column] : 0;
    }
    __syncthreads();
    for (int j = 0; j < 16; j++)
      for (int part = 0; part < 4; part++) sums[part] += left[4 * part + down][j] * right[j][across];
    __syncthreads();
  }
  for (int part = 0; part < 4; part++) {
    size_t row = top + 4 * part + down;
    if (row < m && column < n) c[row * n + column] = sums[part];
  }
}
