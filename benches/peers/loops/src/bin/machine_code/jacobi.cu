__device__ inline float element(size_t rows, size_t columns, const float* field, size_t row, size_t column, float beyond) {
  return row < rows && column < columns ? field[row * columns + column] : beyond;
}
extern "C" __global__ void __launch_bounds__(256) jacobi(size_t rows, size_t columns, const float* __restrict__ flows, const float* __restrict__ from, float* to) {
  size_t row = blockIdx.y * (size_t)blockDim.y + threadIdx.y, column = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (row >= rows || column >= columns) return;
  size_t at = row * columns + column;
  float own = from[at];
  float around = element(rows, columns, from, row - 1, column, own) + element(rows, columns, from, row + 1, column, own) + element(rows, columns, from, row, column - 1, own) + element(rows, columns, from, row, column + 1, own);
  to[at] = (around - flows[at]) / 4.0f;
}
