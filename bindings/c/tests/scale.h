// A kernel that multiplies `values` by `factor`.
#ifndef SCALE_H
#define SCALE_H

#include "check.h"

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
