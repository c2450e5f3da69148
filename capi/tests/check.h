// Checks of the test programs: a failed one prints the place and the last error, and ends the program.
#ifndef CHECK_H
#define CHECK_H

#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: `%s` is false; last error: %s\n", __FILE__, __LINE__, #condition,                  \
                    ms_last_error());                                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// The call answers this status.
#define CHECK_STATUS(expected, call)                                                                                   \
    do {                                                                                                               \
        const ms_status status_ = (call);                                                                              \
        if (status_ != (expected)) {                                                                                   \
            fprintf(stderr, "%s:%d: `%s` answered %s, expected %s; last error: %s\n", __FILE__, __LINE__, #call,       \
                    ms_status_name(status_), ms_status_name(expected), ms_last_error());                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK_OK(call) CHECK_STATUS(MS_STATUS_OK, call)
#define CHECK_ARGUMENT(call) CHECK_STATUS(MS_STATUS_INVALID_ARGUMENT, call)
#define CHECK_HANDLE(call) CHECK_STATUS(MS_STATUS_INVALID_HANDLE, call)

// The call answers this status, and gives no handle.
#define CHECK_GIVES_NONE(expected, out, call)                                                                          \
    do {                                                                                                               \
        (out) = (void *)&(out);                                                                                        \
        CHECK_STATUS(expected, call);                                                                                  \
        CHECK((out) == NULL);                                                                                          \
    } while (0)

// The declared arguments of a kernel that multiplies `values` by `factor`, and the function.
static void scale(const ms_launch_args *args, void *user) {
    (void)user;
    float *values = (float *)((char *)args->bindings[0].data + args->bindings[0].share_start);
    for (size_t i = 0; i < args->bindings[0].share_bytes / sizeof(float); i++) {
        values[i] *= args->scalars[0].f32;
    }
}

static ms_kernel *make_scale(const ms_client *client) {
    ms_binding_desc binding = {sizeof binding, MS_ACCESS_UPDATE, MS_TYPE_F32, 0, "values"};
    ms_scalar_desc scalar = {sizeof scalar, MS_TYPE_F32, "factor"};
    ms_source source = {0};
    source.size = sizeof source;
    source.kind = MS_SOURCE_KIND_NATIVE;
    source.function = scale;
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "scale";
    desc.bindings = &binding;
    desc.binding_count = 1;
    desc.scalars = &scalar;
    desc.scalar_count = 1;
    desc.sources = &source;
    desc.source_count = 1;
    ms_kernel *kernel = NULL;
    CHECK_OK(ms_kernel_create(client, &desc, &kernel));
    return kernel;
}

#endif
