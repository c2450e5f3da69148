// Kernels with more arguments than a message has room for. The words of the metadata follow the scalars.

typedef unsigned char u8;
typedef unsigned u32;
typedef unsigned long long u64;

template <int N>
struct Words {
    u32 words[N];

    __device__ u64 sum() const {
        u64 sum = 0;
        for (int i = 0; i < N; i++) sum += words[i];
        return sum;
    }
};

extern "C" __global__ void large(
    const u32* i0, const u32* i1, const u32* i2, const u32* i3, const u32* i4, const u32* i5, const u32* i6,
    const u32* i7, const u32* i8, const u32* i9, const u32* i10, u64* out,
    u64 s0, u64 s1, u64 s2, u64 s3, u64 s4, u64 s5, u64 s6, u64 s7, u64 s8, u64 s9,
    u64 s10, u64 s11, u64 s12, u64 s13, u64 s14, u64 s15, u64 s16, u64 s17, u64 s18, u64 s19,
    u64 s20, u64 s21, u64 s22, u64 s23, u64 s24, u64 s25, u64 s26, u64 s27, u64 s28, u64 s29,
    Words<7> metadata) {
    if (threadIdx.x == 0) {
        out[0] = *i0 + *i1 + *i2 + *i3 + *i4 + *i5 + *i6 + *i7 + *i8 + *i9 + *i10
            + s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9
            + s10 + s11 + s12 + s13 + s14 + s15 + s16 + s17 + s18 + s19
            + s20 + s21 + s22 + s23 + s24 + s25 + s26 + s27 + s28 + s29
            + metadata.sum();
    }
}

// All cubes have the same number of elements.
extern "C" __global__ void wide(
    const u8* i0, const u8* i1, const u8* i2, const u8* i3, const u8* i4, const u8* i5, const u8* i6, const u8* i7,
    const u8* i8, const u8* i9, u64* out,
    u64 s0, u64 s1, u64 s2, u64 s3, u64 s4, u64 s5, u64 s6, u64 s7, u64 s8, u64 s9,
    u64 s10, u64 s11, u64 s12, u64 s13, u64 s14, u64 s15, u64 s16, u64 s17, u64 s18, u64 s19,
    signed char i, float f, u32 n, Words<9> metadata) {
    u64 sum = *i0 + *i1 + *i2 + *i3 + *i4 + *i5 + *i6 + *i7 + *i8 + *i9
        + s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9
        + s10 + s11 + s12 + s13 + s14 + s15 + s16 + s17 + s18 + s19;
    u64 more = (u64)(long long)i ^ __float_as_uint(f);
    u64 cube = blockIdx.x;
    u32 each = n / gridDim.x;
    for (u32 at = threadIdx.x; at < each; at += blockDim.x) {
        out[cube * each + at] = sum ^ more ^ metadata.sum() << 8 ^ cube << 48;
    }
}
