// A frame loop that pumps a driven device, and reads frames back some frames later. No call of a frame waits.
//
//     cc frame_loop.c $(pkg-config --cflags --libs millstream) -o frame_loop && ./frame_loop
#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAMES 120
#define CELLS 4096
// The readbacks that may be in flight.
#define IN_FLIGHT 3

static void check(ms_status status, const char *what) {
    if (status != MS_STATUS_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, ms_status_name(status), ms_last_error());
        exit(1);
    }
}

// Adds `amount` to the cells of one cube's share.
static void grow(const ms_launch_args *args, void *user) {
    (void)user;
    uint32_t *cells = (uint32_t *)((char *)args->bindings[0].data + args->bindings[0].share_start);
    const size_t count = args->bindings[0].share_bytes / sizeof *cells;
    for (size_t i = 0; i < count; i++) {
        cells[i] += args->scalars[0].u32;
    }
}

static ms_kernel *make_grow(const ms_client *client) {
    ms_binding_desc cells = {sizeof cells, MS_ACCESS_UPDATE, MS_TYPE_U32, 0, "cells"};
    ms_scalar_desc amount = {sizeof amount, MS_TYPE_U32, "amount"};
    ms_source source = {0};
    source.size = sizeof source;
    source.kind = MS_SOURCE_KIND_NATIVE;
    source.function = grow;
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "grow";
    desc.bindings = &cells;
    desc.binding_count = 1;
    desc.scalars = &amount;
    desc.scalar_count = 1;
    desc.sources = &source;
    desc.source_count = 1;
    ms_kernel *kernel = NULL;
    check(ms_kernel_create(client, &desc, &kernel), "ms_kernel_create");
    return kernel;
}

struct readback {
    ms_pending *pending; // NULL: free
    uint32_t frame;
};

int main(void) {
    ms_device *device = NULL;
    ms_driver *driver = NULL;
    ms_client *client = NULL;
    ms_stream *blocking = NULL, *stream = NULL;
    ms_buffer *cells = NULL;
    static uint32_t zeros[CELLS];
    check(ms_device_open_driven("cpu", NULL, &device, &driver), "ms_device_open_driven"); // starts no thread
    check(ms_client_create(device, NULL, &client), "ms_client_create");
    check(ms_stream_create(client, &blocking), "ms_stream_create");
    check(ms_stream_nowait(blocking, &stream), "ms_stream_nowait"); // a frame never waits for room
    check(ms_buffer_create_from(stream, zeros, sizeof zeros, &cells), "ms_buffer_create_from");
    ms_kernel *kernel = make_grow(client);

    struct readback readbacks[IN_FLIGHT] = {{0}};
    uint32_t shown = 0, skipped = 0;
    for (uint32_t frame = 0; frame < FRAMES; frame++) {
        // What earlier frames have asked for.
        for (int i = 0; i < IN_FLIGHT; i++) {
            struct readback *read = &readbacks[i];
            if (read->pending == NULL || ms_pending_poll(read->pending) == MS_STATUS_PENDING) {
                continue;
            }
            const void *data = NULL;
            size_t bytes = 0;
            check(ms_pending_data(read->pending, &data, &bytes), "ms_pending_data");
            const uint32_t cell = ((const uint32_t *)data)[CELLS - 1];
            if (bytes != sizeof zeros || cell != read->frame + 1) {
                fprintf(stderr, "frame %u shows %u\n", read->frame, cell);
                return 1;
            }
            shown++;
            check(ms_pending_destroy(read->pending), "ms_pending_destroy");
            read->pending = NULL;
        }
        // This frame's step, and its readback if there is room for it.
        const ms_argument arguments[] = {ms_arg_update(cells), ms_arg_u32(1)};
        const ms_cubes cubes = {4, 1, 1};
        check(ms_launch(stream, kernel, cubes, arguments, 2), "ms_launch");
        struct readback *room = NULL;
        for (int i = 0; i < IN_FLIGHT && room == NULL; i++) {
            room = readbacks[i].pending == NULL ? &readbacks[i] : NULL;
        }
        if (room != NULL) {
            room->frame = frame;
            check(ms_read(stream, cells, &room->pending), "ms_read");
        } else {
            skipped++; // the device is behind
        }
        check(ms_pump(driver, 2000000, NULL), "ms_pump"); // at most 2 ms
    }
    printf("%u frames: %u shown, %u skipped, %d in flight at most\n", (unsigned)FRAMES, shown, skipped, IN_FLIGHT);

    for (int i = 0; i < IN_FLIGHT; i++) {
        check(ms_pending_destroy(readbacks[i].pending), "ms_pending_destroy");
    }
    check(ms_kernel_destroy(kernel), "ms_kernel_destroy");
    check(ms_buffer_destroy(cells), "ms_buffer_destroy");
    check(ms_stream_destroy(stream), "ms_stream_destroy");
    check(ms_stream_destroy(blocking), "ms_stream_destroy");
    check(ms_client_destroy(client), "ms_client_destroy");
    check(ms_driver_destroy(driver), "ms_driver_destroy");
    check(ms_device_destroy(device), "ms_device_destroy");
    return shown > 0 ? 0 : 1;
}
