// One kernel with a source for each kind of device: y[i] = a * x[i] + y[i]. Runs on the backends that are named by the
// arguments, and says which of them this machine lacks.
#include "check.h"

#define COUNT 1000

static const char WGSL[] = "@group(0) @binding(0) var<storage, read> x: array<f32>;\n"
                           "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"
                           "struct Scalars { a: f32, n: u32 }\n"
                           "var<immediate> scalars: Scalars;\n"
                           "@compute @workgroup_size(256)\n"
                           "fn saxpy(@builtin(global_invocation_id) id: vec3<u32>) {\n"
                           "    if id.x < scalars.n { y[id.x] += scalars.a * x[id.x]; }\n"
                           "}\n";

static const char CUDA[] = "extern \"C\" __global__ void saxpy(const float *x, float *y, float a, unsigned n) {\n"
                           "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "    if (i < n) y[i] += a * x[i];\n"
                           "}\n";

static const char PTX[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n) {\n"
                          ".reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %rd<8>;\n"
                          "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [a];\n"
                          "ld.param.u32 %r1, [n]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"
                          "mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4; setp.ge.u32 %p1, %r5, %r1;\n"
                          "@%p1 bra DONE;\n"
                          "cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;\n"
                          "mul.wide.u32 %rd5, %r5, 4; add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;\n"
                          "ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd7];\n"
                          "fma.rn.f32 %f4, %f1, %f2, %f3; st.global.f32 [%rd7], %f4;\n"
                          "DONE: ret;\n}\n";

static void saxpy(const ms_launch_args *args, void *user) {
    (void)user;
    const ms_span *share = &args->bindings[1];
    const float *x = (const float *)((const char *)args->bindings[0].data + share->share_start);
    float *y = (float *)((char *)share->data + share->share_start);
    for (size_t i = 0; i < share->share_bytes / sizeof(float); i++) {
        y[i] += args->scalars[0].f32 * x[i];
    }
}

static ms_source text(uint32_t kind, const void *data, size_t bytes) {
    ms_source source = {0};
    source.size = sizeof source;
    source.kind = kind;
    source.data = data;
    source.bytes = bytes;
    return source;
}

// Makes a kernel of some of the sources.
static ms_status make(const ms_client *client, const ms_source *sources, size_t count, ms_kernel **kernel) {
    ms_binding_desc bindings[2] = {{sizeof *bindings, MS_ACCESS_READ, MS_TYPE_F32, 0, "x"},
                                   {sizeof *bindings, MS_ACCESS_UPDATE, MS_TYPE_F32, 0, "y"}};
    ms_scalar_desc scalars[2] = {{sizeof *scalars, MS_TYPE_F32, "a"}, {sizeof *scalars, MS_TYPE_U32, "n"}};
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "saxpy";
    desc.bindings = bindings;
    desc.binding_count = 2;
    desc.scalars = scalars;
    desc.scalar_count = 2;
    desc.sources = sources;
    desc.source_count = count;
    desc.threads[0] = 256, desc.threads[1] = 1, desc.threads[2] = 1;
    return ms_kernel_create(client, &desc, kernel);
}

static void run_on(const char *backend) {
    ms_device *device = NULL;
    const ms_status opened = ms_device_open(backend, NULL, &device);
    if (opened == MS_STATUS_UNAVAILABLE) {
        const char *required = getenv("MILLSTREAM_VULKAN");
        CHECK(strcmp(backend, "vulkan") != 0 || required == NULL || strcmp(required, "required") != 0);
        printf("SKIPPED `%s`: %s\n", backend, ms_last_error());
        return;
    }
    CHECK_OK(opened);
    ms_client *client = NULL;
    ms_stream *stream = NULL;
    ms_kernel *kernel = NULL;
    CHECK_OK(ms_client_create(device, NULL, &client));
    CHECK_OK(ms_stream_create(client, &stream));
    ms_source sources[] = {
        text(MS_SOURCE_KIND_WGSL, WGSL, 0),
        text(MS_SOURCE_KIND_PTX, PTX, sizeof PTX - 1),
        text(MS_SOURCE_KIND_CUDA_C, CUDA, 0),
        text(MS_SOURCE_KIND_NATIVE, NULL, 0),
    };
    sources[3].function = saxpy;
    CHECK_OK(make(client, sources, 4, &kernel));

    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i, y[i] = 1;
    }
    ms_buffer *dx = NULL, *dy = NULL;
    CHECK_OK(ms_buffer_create_from(stream, x, sizeof x, &dx));
    CHECK_OK(ms_buffer_create_from(stream, y, sizeof y, &dy));
    const ms_argument arguments[] = {ms_arg_read(dx), ms_arg_update(dy), ms_arg_f32(2), ms_arg_u32(COUNT)};
    const ms_cubes cubes = {(COUNT + 255) / 256, 1, 1};
    CHECK_OK(ms_launch(stream, kernel, cubes, arguments, 4));
    CHECK_OK(ms_read_into(stream, dy, y, sizeof y));
    for (int i = 0; i < COUNT; i++) {
        CHECK(y[i] == 2.0f * (float)i + 1.0f);
    }
    // A source that does not compile is a status with the compiler's text, on the device that compiles it.
    if (strcmp(backend, "vulkan") == 0) {
        ms_kernel *broken = NULL;
        const ms_source wrong = text(MS_SOURCE_KIND_WGSL, "fn saxpy() { let x = ; }", 0);
        CHECK_GIVES_NONE(MS_STATUS_COMPILE, broken, make(client, &wrong, 1, &broken));
        CHECK(strstr(ms_last_error(), "saxpy") != NULL);
    }
    CHECK_OK(ms_kernel_destroy(kernel));
    CHECK_OK(ms_buffer_destroy(dx));
    CHECK_OK(ms_buffer_destroy(dy));
    CHECK_OK(ms_stream_destroy(stream));
    CHECK_OK(ms_client_destroy(client));
    CHECK_OK(ms_device_destroy(device));
    printf("`%s` ran the kernel\n", backend);
}

int main(int count, char **backends) {
    for (int i = 1; i < count; i++) {
        run_on(backends[i]);
    }
    return 0;
}
