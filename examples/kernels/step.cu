// One step of Gray and Scott's system. A cube computes one row. Every operation is rounded separately, as on the CPU,
// so that both compute the same bits.
__device__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ float sub(float a, float b) { return __fsub_rn(a, b); }

struct Rows {
    const float *up, *here, *down;

    __device__ Rows(const float* field, unsigned y, unsigned size)
        : up(field + (y + size - 1) % size * size), here(field + y * size), down(field + (y + 1) % size * size) {}

    // The diffusion to a cell from those at its sides and corners.
    __device__ float spread(unsigned left, unsigned x, unsigned right) const {
        const float sides = add(add(add(up[x], down[x]), here[left]), here[right]);
        const float corners = add(add(add(up[left], up[right]), down[left]), down[right]);
        return sub(add(mul(0.2f, sides), mul(0.05f, corners)), here[x]);
    }
};

extern "C" __global__ void step(const float* food, const float* field, float* next_food, float* next_field) {
    constexpr float FEED = 0.0545f, KILL = 0.062f;
    const unsigned size = gridDim.x, y = blockIdx.x;
    const Rows foods(food, y, size), fields(field, y, size);
    for (unsigned x = threadIdx.x; x < size; x += blockDim.x) {
        const unsigned left = (x + size - 1) % size, right = (x + 1) % size;
        const float f = foods.here[x], v = fields.here[x];
        const float reaction = mul(mul(f, v), v);
        const float grown = sub(add(f, foods.spread(left, x, right)), reaction);
        next_food[y * size + x] = add(grown, mul(FEED, sub(1.0f, f)));
        const float eaten = add(add(v, mul(0.5f, fields.spread(left, x, right))), reaction);
        next_field[y * size + x] = sub(eaten, mul(FEED + KILL, v));
    }
}
