__device__ inline float sample(size_t rows, size_t columns, const float* field, float row, float column) {
  row = fminf(fmaxf(row, 0.0f), (float)(rows - 1));
  column = fminf(fmaxf(column, 0.0f), (float)(columns - 1));
  size_t top = (size_t)row, left = (size_t)column, bottom = min(top + 1, rows - 1), right = min(left + 1, columns - 1);
  float down = row - (float)top, across = column - (float)left;
  float above = field[top * columns + left] * (1.0f - across) + field[top * columns + right] * across;
  float below = field[bottom * columns + left] * (1.0f - across) + field[bottom * columns + right] * across;
  return above * (1.0f - down) + below * down;
}
extern "C" __global__ void __launch_bounds__(256) advect(size_t rows, size_t columns, float dt, const float* __restrict__ down, const float* __restrict__ across, const float* __restrict__ from, float* to) {
  size_t row = blockIdx.y * (size_t)blockDim.y + threadIdx.y, column = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (row >= rows || column >= columns) return;
  size_t at = row * columns + column;
  to[at] = sample(rows, columns, from, (float)row - dt * down[at], (float)column - dt * across[at]);
}
