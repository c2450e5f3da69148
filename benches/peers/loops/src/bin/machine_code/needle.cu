extern "C" __global__ void __launch_bounds__(16) align(size_t diagonal, size_t first, int penalty, const int* __restrict__ similar, const unsigned char* __restrict__ down, const unsigned char* __restrict__ across, size_t downs, size_t acrosses, int* scores) {
  __shared__ int part[17][17];
  unsigned mine = threadIdx.x;
  size_t block_row = first + blockIdx.x, row = block_row * 16, column = (diagonal - block_row) * 16, width = acrosses + 1;
  size_t rows = min(downs, row + 16), columns = min(acrosses, column + 16);
  if (mine == 0) part[0][0] = scores[row * width + column];
  if (column + mine < columns) part[0][mine + 1] = scores[row * width + column + mine + 1];
  if (row + mine < rows) part[mine + 1][0] = scores[(row + mine + 1) * width + column];
  for (unsigned step = 0; step < 31; step++) {
    __syncthreads();
    unsigned at = step - mine;
    if (at < 16 && row + at < rows && column + mine < columns) {
      int both = part[at][mine] + similar[down[row + at] * 24 + across[column + mine]];
      int gap = max(part[at][mine + 1], part[at + 1][mine]) - penalty;
      part[at + 1][mine + 1] = max(both, gap);
    }
  }
  __syncthreads();
  for (unsigned at = 0; at < 16; at++)
    if (row + at < rows && column + mine < columns) scores[(row + at + 1) * width + column + mine + 1] = part[at + 1][mine + 1];
}
