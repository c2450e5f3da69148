__device__ inline float element(size_t n, size_t row, size_t column, const float* a) {
  return row < n && column < n ? a[row * n + column] : row == column ? 1.0f : 0.0f;
}
extern "C" __global__ void __launch_bounds__(256) inside(size_t n, size_t at, float* a) {
  __shared__ float left[16][16], above[16][16];
  unsigned down = threadIdx.y, across = threadIdx.x;
  size_t row = at + 16 + blockIdx.y * (size_t)16 + down, column = at + 16 + blockIdx.x * (size_t)16 + across;
  left[down][across] = element(n, row, at + across, a);
  above[down][across] = element(n, at + down, column, a);
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 16; k++) sum += left[down][k] * above[k][across];
  if (row < n && column < n) a[row * n + column] -= sum;
}
