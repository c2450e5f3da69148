extern "C" __global__ void __launch_bounds__(256) hotspot(size_t steps, size_t rows, size_t columns, float down_resistance, float across_resistance, const float* __restrict__ power, const float* __restrict__ from, float* to) {
  __shared__ float heat[16][16];
  unsigned down = threadIdx.y, across = threadIdx.x;
  size_t inner = 16 - 2 * steps, row = blockIdx.y * inner + down - steps, column = blockIdx.x * inner + across - steps;
  size_t at = row * columns + column;
  bool on_chip = row < rows && column < columns;
  unsigned depth = min(min(down, across), min(15 - down, 15 - across));
  float watts = 0;
  if (on_chip) { heat[down][across] = from[at]; watts = power[at]; }
  for (size_t step = 1; step <= steps; step++) {
    __syncthreads();
    bool changes = on_chip && depth >= step;
    float next = 0;
    if (changes) {
      float here = heat[down][across];
      float north = row > 0 ? heat[down - 1][across] : here, south = row + 1 < rows ? heat[down + 1][across] : here;
      float west = column > 0 ? heat[down][across - 1] : here, east = column + 1 < columns ? heat[down][across + 1] : here;
      next = here + 0.1f * (watts + (north + south - 2.0f * here) / down_resistance + (west + east - 2.0f * here) / across_resistance + (80.0f - here) / 8.0f);
    }
    __syncthreads();
    if (changes) heat[down][across] = next;
  }
  if (on_chip && depth >= steps) to[at] = heat[down][across];
}
