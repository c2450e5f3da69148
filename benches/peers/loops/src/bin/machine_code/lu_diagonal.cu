extern "C" __global__ void __launch_bounds__(16) diagonal(size_t n, size_t at, float* a) {
  __shared__ float block[16][16];
  unsigned mine = threadIdx.x;
  for (int row = 0; row < 16; row++) {
    size_t down = at + row, across = at + mine;
    block[row][mine] = down < n && across < n ? a[down * n + across] : down == across ? 1.0f : 0.0f;
  }
  for (int pivot = 0; pivot < 15; pivot++) {
    __syncthreads();
    if (mine > pivot) {
      float lower = block[mine][pivot];
      for (int k = 0; k < pivot; k++) lower -= block[mine][k] * block[k][pivot];
      block[mine][pivot] = lower / block[pivot][pivot];
    }
    __syncthreads();
    if (mine > pivot) {
      float upper = block[pivot + 1][mine];
      for (int k = 0; k <= pivot; k++) upper -= block[pivot + 1][k] * block[k][mine];
      block[pivot + 1][mine] = upper;
    }
  }
  __syncthreads();
  for (int row = 0; row < 16; row++)
    if (at + row < n && at + mine < n) a[(at + row) * n + at + mine] = block[row][mine];
}
