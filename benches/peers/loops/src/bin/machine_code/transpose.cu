extern "C" __global__ void __launch_bounds__(256) transpose(size_t rows, size_t columns, const float* __restrict__ x, float* y) {
  __shared__ float tile[16][17];
  unsigned across = threadIdx.x % 16, down = threadIdx.x / 16;
  size_t tiles = (columns + 15) / 16, tile_row = blockIdx.x / tiles, tile_column = blockIdx.x % tiles;
  size_t row = tile_row * 16 + down, column = tile_column * 16 + across;
  if (row < rows && column < columns) tile[down][across] = x[row * columns + column];
  __syncthreads();
  row = tile_column * 16 + down, column = tile_row * 16 + across;
  if (row < columns && column < rows) y[row * rows + column] = tile[across][down];
}
