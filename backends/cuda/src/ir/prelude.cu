// The prelude of printed kernels. Needs no headers.
// The arithmetic is that of millstream's IR: integers wrap and never trap, min and max propagate NaN, and a product is
// never contracted with a sum. Functions that may contract have the operators of C for both instead.
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
// Half floats are stored as their bits; the only operations are load, store and cast.
struct f16 { u16 bits; };
struct bf16 { u16 bits; };

// Unused values, statements that are never executed (111) and loops that are never reached (128) are not the mistake
// of a kernel's author.
#pragma nv_diag_suppress 177
#pragma nv_diag_suppress 111
#pragma nv_diag_suppress 128
#define ON __device__ __forceinline__
// In a namespace, because the compiler has built-in functions with some of these names, whose min and max lose NaN.
namespace ms {
template <int N> struct Words { u64 word[N]; };
template <class T, int N> struct alignas(sizeof(T) * N) Wide { T lane[N]; };

// The unsigned type in which an integer wraps, and whether the integer is signed.
template <class T> struct Whole { typedef u32 type; static const bool sign = true; };
template <> struct Whole<u8> { typedef u32 type; static const bool sign = false; };
template <> struct Whole<u16> { typedef u32 type; static const bool sign = false; };
template <> struct Whole<u32> { typedef u32 type; static const bool sign = false; };
template <> struct Whole<i64> { typedef u64 type; static const bool sign = true; };
template <> struct Whole<u64> { typedef u64 type; static const bool sign = false; };
template <class T> ON typename Whole<T>::type wrap(T a) { return (typename Whole<T>::type)a; }

template <class T> ON T add(T a, T b) { return (T)(wrap(a) + wrap(b)); }
template <class T> ON T sub(T a, T b) { return (T)(wrap(a) - wrap(b)); }
template <class T> ON T mul(T a, T b) { return (T)(wrap(a) * wrap(b)); }
template <class T> ON T neg(T a) { return (T)(0 - wrap(a)); }
// The next index of a loop with a positive step, or the end if there is none.
ON i64 next(i64 index, i64 step, i64 end) { return (u64)step < (u64)end - (u64)index ? index + step : end; }
template <class T> ON bool traps(T b) { return b == 0 || (Whole<T>::sign && b == (T)-1); }
// Without branches, so that the compiler computes a quotient and its remainder by one division.
template <class T> ON T divisor(T b) { return traps(b) ? (T)1 : b; }
template <class T> ON T div(T a, T b) {
    const T quotient = (T)(a / divisor(b));
    return b == 0 ? (T)0 : traps(b) ? neg(a) : quotient;
}
template <class T> ON T rem(T a, T b) { return (T)(a % divisor(b)); }
// As an unsigned number, a negative shift is large.
template <class T> ON T shl(T a, T b) { return (u64)b < 8 * sizeof(T) ? (T)((u64)a << (u32)b) : (T)0; }
template <class T> ON T shr(T a, T b) {
    const bool negative = Whole<T>::sign && a < (T)1 && a != (T)0;
    return (u64)b < 8 * sizeof(T) ? (T)(a >> (u32)b) : (T)(negative ? -1 : 0);
}
template <class T> ON T abs(T a) { return Whole<T>::sign && a < (T)1 ? neg(a) : a; }
template <class T> ON T min(T a, T b) { return a < b || a != a ? a : b; }
template <class T> ON T max(T a, T b) { return a > b || a != a ? a : b; }

ON f32 add(f32 a, f32 b) { return __fadd_rn(a, b); }
ON f32 sub(f32 a, f32 b) { return __fsub_rn(a, b); }
ON f32 mul(f32 a, f32 b) { return __fmul_rn(a, b); }
// Rounded as `__fdiv_rn` rounds it, of which the compiler does not know that half of a number is a product.
ON f32 div(f32 a, f32 b) { return a / b; }
ON f32 rem(f32 a, f32 b) { return fmodf(a, b); }
ON f32 neg(f32 a) { return -a; }
ON f32 abs(f32 a) { return fabsf(a); }
ON f32 fma(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
ON f64 add(f64 a, f64 b) { return __dadd_rn(a, b); }
ON f64 sub(f64 a, f64 b) { return __dsub_rn(a, b); }
ON f64 mul(f64 a, f64 b) { return __dmul_rn(a, b); }
ON f64 div(f64 a, f64 b) { return a / b; }
ON f64 rem(f64 a, f64 b) { return ::fmod(a, b); }
ON f64 neg(f64 a) { return -a; }
ON f64 abs(f64 a) { return ::fabs(a); }
ON f64 fma(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }

#define BOTH(name, single, twice) \
    ON f32 name(f32 a) { return single(a); } \
    ON f64 name(f64 a) { return twice(a); }
BOTH(sqrt, ::sqrtf, ::sqrt)
BOTH(exp, ::expf, ::exp)
BOTH(log, ::logf, ::log)
BOTH(sin, ::sinf, ::sin)
BOTH(cos, ::cosf, ::cos)
BOTH(tanh, ::tanhf, ::tanh)
BOTH(erf, ::erff, ::erf)
BOTH(floor, ::floorf, ::floor)
BOTH(ceil, ::ceilf, ::ceil)
#undef BOTH
ON f32 pow(f32 a, f32 b) { return ::powf(a, b); }
ON f64 pow(f64 a, f64 b) { return ::pow(a, b); }

// Reinterprets the bits of a value as another type.
template <class To, class From> ON To bits(From a) {
    union { From from; To to; } both;
    both.from = a;
    return both.to;
}

// Conversions between half and single precision.
ON f32 single(f16 a) {
    f32 b;
    asm("cvt.f32.f16 %0, %1;" : "=f"(b) : "h"(a.bits));
    return b;
}
ON f32 single(bf16 a) { return __uint_as_float((u32)a.bits << 16); }
ON f16 to_f16(f32 a) {
    f16 b;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b.bits) : "f"(a));
    return b;
}
ON bf16 to_bf16(f32 a) {
    // Rounds to nearest, ties to even; a NaN stays a NaN.
    const u32 bits = __float_as_uint(a);
    const u32 near = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return bf16{(u16)(a != a ? bits >> 16 | 0x40u : near)};
}

// Rounds to odd: truncates to single precision, and sets the last bit if that lost bits. Rounding the result again, to
// half precision, is then the same as rounding once.
template <class T> ON f32 odd(T a, f32 cut, bool exact) {
    return exact || a != a ? cut : __uint_as_float(__float_as_uint(cut) | 1u);
}
ON f32 to_odd(f32 a) { return a; }
ON f32 to_odd(f64 a) { const f32 cut = __double2float_rz(a); return odd(a, cut, (f64)cut == a); }
ON f32 to_odd(i64 a) { const f32 cut = __ll2float_rz(a); return odd(a, cut, __float2ll_rz(cut) == a); }
ON f32 to_odd(u64 a) { const f32 cut = __ull2float_rz(a); return odd(a, cut, __float2ull_rz(cut) == a); }
ON f32 to_odd(i32 a) { return to_odd((f64)a); }
ON f32 to_odd(u32 a) { return to_odd((f64)a); }

// Floats to integers: truncates and saturates. The GPU does the same, except for NaN as a 64-bit integer.
ON i32 to_i32(f32 a) { return a != a ? 0 : __float2int_rz(a); }
ON u32 to_u32(f32 a) { return a != a ? 0 : __float2uint_rz(a); }
ON i64 to_i64(f32 a) { return a != a ? 0 : __float2ll_rz(a); }
ON u64 to_u64(f32 a) { return a != a ? 0 : __float2ull_rz(a); }
ON i32 to_i32(f64 a) { return a != a ? 0 : __double2int_rz(a); }
ON u32 to_u32(f64 a) { return a != a ? 0 : __double2uint_rz(a); }
ON i64 to_i64(f64 a) { return a != a ? 0 : __double2ll_rz(a); }
ON u64 to_u64(f64 a) { return a != a ? 0 : __double2ull_rz(a); }
ON i32 within(i32 a, i32 least, i32 most) { return a < least ? least : a > most ? most : a; }
template <class T> ON i8 to_i8(T a) { return (i8)within(to_i32(a), -128, 127); }
template <class T> ON u8 to_u8(T a) { return (u8)within(to_i32(a), 0, 255); }
template <class T> ON i16 to_i16(T a) { return (i16)within(to_i32(a), -32768, 32767); }
template <class T> ON u16 to_u16(T a) { return (u16)within(to_i32(a), 0, 65535); }

// Philox4x32-10, the first word.
ON u32 random(u64 seed, i64 counter) {
    u32 a = (u32)counter, b = (u32)((u64)counter >> 32), c = 0, d = 0;
    u32 key = (u32)seed, other = (u32)(seed >> 32);
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u32 high = __umulhi(0xd2511f53u, a), low = 0xd2511f53u * a;
        a = __umulhi(0xcd9e8d57u, c) ^ b ^ key;
        b = 0xcd9e8d57u * c;
        c = high ^ d ^ other;
        d = low;
        key += 0x9e3779b9u;
        other += 0xbb67ae85u;
    }
    return a;
}

// Atomic operations return what the element was before. The compiler has no additions of `i64`, and exchanges bits.
ON i64 atomic_add(i64* to, i64 a) { return (i64)atomicAdd((u64*)to, (u64)a); }
template <class T> ON T atomic_add(T* to, T a) { return atomicAdd(to, a); }
template <class T> ON T atomic_min(T* to, T a) { return atomicMin(to, a); }
template <class T> ON T atomic_max(T* to, T a) { return atomicMax(to, a); }
template <class T> ON T atomic_and(T* to, T a) { return (T)atomicAnd((typename Whole<T>::type*)to, wrap(a)); }
template <class T> ON T atomic_or(T* to, T a) { return (T)atomicOr((typename Whole<T>::type*)to, wrap(a)); }
template <class T> ON T atomic_xor(T* to, T a) { return (T)atomicXor((typename Whole<T>::type*)to, wrap(a)); }
template <class T> ON T atomic_compare_exchange(T* to, T expected, T a) {
    return (T)atomicCAS((typename Whole<T>::type*)to, wrap(expected), wrap(a));
}
template <class T> ON T atomic_swap(T* to, T a) { return (T)atomicExch((typename Whole<T>::type*)to, wrap(a)); }
ON f32 atomic_swap(f32* to, f32 a) { return atomicExch(to, a); }
ON f64 atomic_swap(f64* to, f64 a) { return bits<f64>(atomicExch((u64*)to, bits<u64>(a))); }
template <class T> ON T atomic_load(T* from) { return *(volatile T*)from; }
template <class T> ON void atomic_store(T* to, T a) { *(volatile T*)to = a; }

struct Sum { template <class T> static ON T of(T a, T b) { return add(a, b); } };
struct Prod { template <class T> static ON T of(T a, T b) { return mul(a, b); } };
struct Min { template <class T> static ON T of(T a, T b) { return min(a, b); } };
struct Max { template <class T> static ON T of(T a, T b) { return max(a, b); } };

// A value as shuffles carry it.
template <class T> struct Carried { static ON T to(T a) { return a; } static ON T from(T a) { return a; } };
#define CARRIED(T, TO, FROM) \
    template <> struct Carried<T> { static ON int to(T a) { return TO; } static ON T from(int a) { return FROM; } };
CARRIED(bool, a, a != 0) CARRIED(i8, a, (i8)a) CARRIED(u8, a, (u8)a) CARRIED(i16, a, (i16)a) CARRIED(u16, a, (u16)a)
CARRIED(f16, a.bits, f16{(u16)a}) CARRIED(bf16, a.bits, bf16{(u16)a})

// Reads the value of another lane of the warp.
template <class T> ON T of_lane(u32 mask, T a, int lane) {
    return Carried<T>::from(__shfl_sync(mask, Carried<T>::to(a), lane));
}

// The index of this thread in the cube, the number of lanes of its warp, and the mask of them.
ON int thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
template <int THREADS> ON int lanes(int thread) {
    return THREADS % 32 == 0 ? 32 : THREADS - (thread & ~31) < 32 ? THREADS - (thread & ~31) : 32;
}
template <int THREADS> ON u32 warp() {
    return THREADS % 32 == 0 ? ~0u : ~0u >> (32 - lanes<THREADS>(thread()));
}

// The value of another thread of a subgroup, which is a part of a warp; its own if there is none.
template <int WIDTH> ON int near(i64 by) { return (u64)by < WIDTH ? (int)by : 0; }
template <int WIDTH, int THREADS, class T> ON T shuffle_lane(T a, i64 by) {
    const int lane = (u64)by < WIDTH ? (int)by : threadIdx.x % WIDTH;
    return Carried<T>::from(__shfl_sync(warp<THREADS>(), Carried<T>::to(a), lane, WIDTH));
}
template <int WIDTH, int THREADS, class T> ON T shuffle_xor(T a, i64 by) {
    return Carried<T>::from(__shfl_xor_sync(warp<THREADS>(), Carried<T>::to(a), near<WIDTH>(by), WIDTH));
}
template <int WIDTH, int THREADS, class T> ON T shuffle_down(T a, i64 by) {
    return Carried<T>::from(__shfl_down_sync(warp<THREADS>(), Carried<T>::to(a), near<WIDTH>(by), WIDTH));
}
template <int WIDTH, int THREADS, class T> ON T shuffle_up(T a, i64 by) {
    return Carried<T>::from(__shfl_up_sync(warp<THREADS>(), Carried<T>::to(a), near<WIDTH>(by), WIDTH));
}

// The reductions of whole warps that are one instruction. They are exact, so their order does not matter.
template <class F, class T> struct Warp { static const bool has = false; static ON T of(T a) { return a; } };
#if __CUDA_ARCH__ >= 800
#define WARP(F, T, CALL) \
    template <> struct Warp<F, T> { static const bool has = true; static ON T of(T a) { return CALL(~0u, a); } };
WARP(Sum, i32, __reduce_add_sync) WARP(Min, i32, __reduce_min_sync) WARP(Max, i32, __reduce_max_sync)
WARP(Sum, u32, __reduce_add_sync) WARP(Min, u32, __reduce_min_sync) WARP(Max, u32, __reduce_max_sync)
#endif

// Whether the order of two operands matters: of the zeros of floats.
template <class F, class T> struct Ordered { static const bool is = false; };
template <> struct Ordered<Min, f32> { static const bool is = true; };
template <> struct Ordered<Max, f32> { static const bool is = true; };
template <> struct Ordered<Min, f64> { static const bool is = true; };
template <> struct Ordered<Max, f64> { static const bool is = true; };

// Reduces the values of `WIDTH` neighbouring threads.
template <class F, int WIDTH, int THREADS, class T> ON T reduce_subgroup(T a) {
    if (WIDTH == 32 && THREADS % 32 == 0 && Warp<F, T>::has) return Warp<F, T>::of(a);
    #pragma unroll
    for (int step = WIDTH / 2; step > 0; step /= 2) a = F::of(a, shuffle_xor<WIDTH, THREADS>(a, step));
    // The first thread has combined lower values with upper ones.
    return Ordered<F, T>::is ? shuffle_lane<WIDTH, THREADS>(a, 0) : a;
}

// Reduces the values of all threads of the cube, through 32 words of shared memory.
template <class F, int THREADS, class T> ON T reduce_cube(T a, u64* places) {
    const int me = thread(), lane = me & 31, here = lanes<THREADS>(me);
    const u32 mask = ~0u >> (32 - here);
    #pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const bool has = (lane ^ step) < here;
        const T other = of_lane(mask, a, has ? lane ^ step : lane);
        // In a partial warp, the first lane still combines all existing lanes.
        if (has) a = F::of(a, other);
    }
    T* of_warp = (T*)places;
    if (lane == 0) of_warp[me / 32] = a;
    __syncthreads();
    T all = of_warp[0];
    for (int warp = 1; warp < (THREADS + 31) / 32; ++warp) all = F::of(all, of_warp[warp]);
    // All threads have read the words before a later reduction overwrites them.
    __syncthreads();
    return all;
}
} // namespace ms
