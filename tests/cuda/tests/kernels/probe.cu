// Kernels for which NVRTC prints many kinds of PTX instructions. probe.rs computes the expected results.
typedef unsigned long long u64;

__constant__ float TABLE[4] = {1.0f, 2.0f, 4.0f, 8.0f};
__device__ unsigned counter = 5;

extern "C" __global__ void integers(const unsigned* in, unsigned* out) {
    const unsigned t = threadIdx.x, a = in[2 * t], b = in[2 * t + 1];
    unsigned* o = out + 16 * t;
    o[0] = __clz(a) | __popc(a) << 8 | __ffs(a) << 16;
    o[1] = __brev(a);
    o[2] = __byte_perm(a, b, 0x7315);
    o[3] = __funnelshift_l(a, b, 7);
    o[4] = __umulhi(a, b);
    o[5] = __mulhi((int)a, (int)b);
    o[6] = a / (b | 1);
    o[7] = (int)a % (int)(b | 1);
    o[8] = __dp4a((int)a, (int)b, 7);
    o[9] = __usad(a, b, 3);
    o[10] = (a & b) ^ (~a | (b >> 3));
    o[11] = (unsigned)((int)(a << 5) >> 9);
    o[12] = min((int)a, (int)b) + max(a, b);
    o[13] = (signed char)a + (unsigned short)b;
    switch (a % 9) {
    case 0: o[14] = 3; break;
    case 1: o[14] = b * 7; break;
    case 2: o[14] = b ^ 9; break;
    case 3: o[14] = b / 5; break;
    case 4: o[14] = b << 3; break;
    case 5: o[14] = ~b; break;
    default: o[14] = a;
    }
    o[15] = __vadd2(a, b);
}

extern "C" __global__ void wide(const u64* in, u64* out) {
    const unsigned t = threadIdx.x;
    const u64 a = in[2 * t], b = in[2 * t + 1];
    u64* o = out + 8 * t;
    o[0] = a * b;
    o[1] = __umul64hi(a, b);
    o[2] = (u64)__mul64hi((long long)a, (long long)b);
    o[3] = a / (b | 1);
    o[4] = (u64)((long long)a % (long long)(b | 1));
    o[5] = a >> (b & 63) | a << (64 - (b & 63) & 63);
    o[6] = __clzll(a) | __popcll(b) << 8;
    o[7] = (u64)((double)a * 0.5);
}

extern "C" __global__ void singles(const float* in, float* out) {
    const unsigned t = threadIdx.x;
    const float x = in[t];
    float* o = out + 16 * t;
    o[0] = sinf(x);
    o[1] = cosf(x);
    o[2] = expf(x * 0.1f);
    o[3] = logf(fabsf(x) + 0.5f);
    o[4] = powf(fabsf(x) + 0.5f, 1.3f);
    o[5] = rsqrtf(fabsf(x) + 0.5f);
    o[6] = tanhf(x);
    o[7] = fmodf(x, 0.7f);
    o[8] = rintf(x) + truncf(x) * 4.0f + floorf(x) * 16.0f;
    o[9] = copysignf(3.0f, x);
    o[10] = __fadd_rz(x, 1e-7f);
    o[11] = __fmul_ru(x, 0.1f);
    o[12] = __fdiv_rd(x, 3.0f);
    o[13] = __fsqrt_ru(fabsf(x));
    o[14] = __saturatef(x);
    o[15] = fminf(x, 2.0f) + fmaxf(x, -2.0f) + (float)(int)x;
}

extern "C" __global__ void doubles(const double* in, double* out) {
    const unsigned t = threadIdx.x;
    const double x = in[t];
    double* o = out + 8 * t;
    o[0] = sin(x);
    o[1] = exp(x * 0.1);
    o[2] = log(fabs(x) + 0.5);
    o[3] = sqrt(fabs(x)) / (fabs(x) + 1.0);
    o[4] = rint(x) + floor(x) * 4.0;
    o[5] = __dadd_ru(x, 1e-17);
    o[6] = __fma_rz(x, 0.1, 1.0);
    o[7] = (double)(float)x + (double)(long long)x;
}

__device__ __noinline__ float polynomial(float x, int terms) {
    float sum = 0.0f;
    for (int term = 0; term < terms; ++term) {
        sum = sum * x + TABLE[term & 3];
    }
    return sum;
}

struct Pair {
    float values[6];
};

__device__ __noinline__ float chosen(Pair pair, unsigned which) {
    return pair.values[which % 6] + polynomial(pair.values[0], 2);
}

extern "C" __global__ void calls(const float* in, float* out) {
    const unsigned t = threadIdx.x;
    Pair pair;
    for (int at = 0; at < 6; ++at) {
        pair.values[at] = in[t] * (at + 1);
    }
    out[t] = t % 3 == 0 ? polynomial(in[t], 5) : chosen(pair, t);
    atomicAdd(&counter, 1u);
    __syncthreads();
    if (t == 0) {
        out[blockDim.x] = (float)atomicAdd(&counter, 0u);
    }
}

extern "C" __global__ void warps(const unsigned* in, unsigned* out) {
    __shared__ unsigned of_warps[32];
    const unsigned t = threadIdx.x, lane = t % 32, warp = t / 32, whole = 0xffffffff;
    unsigned scan = in[t];
    for (unsigned by = 1; by < 32; by *= 2) {
        const unsigned before = __shfl_up_sync(whole, scan, by);
        scan += lane >= by ? before : 0;
    }
    if (lane == 31) {
        of_warps[warp] = scan;
    }
    __syncthreads();
    for (unsigned before = 0; before < warp; ++before) {
        scan += of_warps[before];
    }
    unsigned* o = out + 8 * t;
    o[0] = scan;
    o[1] = __ballot_sync(whole, in[t] & 1);
    o[2] = __match_any_sync(whole, in[t] % 3);
    o[3] = __reduce_max_sync(whole, in[t]);
    o[4] = __syncthreads_count(in[t] % 5 == 0);
    // Even and odd lanes exchange in separate shuffles.
    o[5] = lane % 2 == 0 ? __shfl_sync(0x55555555, t, lane ^ 2) : __shfl_xor_sync(0xaaaaaaaa, t * 3, 4);
    o[6] = __all_sync(whole, in[t] < 1000) + 2 * __any_sync(whole, in[t] == 7);
    o[7] = __activemask();
}
