extern "C" __global__ void __launch_bounds__(64) row_sums(size_t columns, const float* __restrict__ x, float* sums) {
  __shared__ float partial[64];
  unsigned mine = threadIdx.x;
  size_t row = blockIdx.x;
  float sum = 0;
  for (size_t column = mine; column < columns; column += 64) sum += x[row * columns + column];
  partial[mine] = sum;
  for (unsigned half = 32; half > 0; half /= 2) {
    __syncthreads();
    if (mine < half) partial[mine] += partial[mine + half];
  }
  if (mine == 0) sums[row] = partial[0];
}
