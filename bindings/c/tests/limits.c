// A client at its hard limit: what never fits, what does not fit now, and waiting. A part of the program `behaviour.c`.
#include "check.h"

#include <pthread.h>

static ms_stream *stream_at_limit(const ms_device *device, ms_at_limit at_limit) {
    ms_client_options options = {0};
    options.size = sizeof options;
    options.hard_limit = 1000;
    options.at_limit = (uint32_t)at_limit;
    ms_client *client = NULL;
    ms_stream *stream = NULL;
    CHECK_OK(ms_client_create(device, &options, &client));
    CHECK_OK(ms_stream_create(client, &stream));
    CHECK_OK(ms_client_destroy(client));
    return stream;
}

// The last error names each of these.
static void check_names(const char *first, const char *second) {
    CHECK(strstr(ms_last_error(), first) != NULL && strstr(ms_last_error(), second) != NULL);
}

static void too_large_for_ever_and_too_large_now_are_two_statuses(ms_at_limit at_limit) {
    ms_device *device = NULL;
    CHECK_OK(ms_device_open("cpu", NULL, &device));
    ms_stream *stream = stream_at_limit(device, at_limit), *nowait = NULL, *late = NULL;
    ms_buffer *held = NULL, *more;
    CHECK_OK(ms_stream_nowait(stream, &nowait));
    CHECK_OK(ms_stream_with_deadline(stream, 1000000, &late));
    CHECK_GIVES_NONE(MS_STATUS_TOO_LARGE, more, ms_buffer_create(stream, 1001, &more));
    check_names("create a smaller buffer", "`ms_client_options`");
    CHECK_OK(ms_buffer_create(stream, 600, &held));
    const ms_status now = at_limit == MS_AT_LIMIT_WAIT ? MS_STATUS_BUSY : MS_STATUS_OUT_OF_MEMORY;
    const char *hint = at_limit == MS_AT_LIMIT_WAIT ? "try again later" : "`MS_AT_LIMIT_WAIT`";
    const char data[600] = {0};
    CHECK_GIVES_NONE(now, more, ms_buffer_create(nowait, 600, &more));
    check_names("`ms_buffer_destroy`", hint);
    CHECK_GIVES_NONE(now, more, ms_buffer_create_from(nowait, data, sizeof data, &more));
    CHECK_GIVES_NONE(now, more, ms_buffer_create(late, 600, &more)); // at the latest when its deadline has passed
    CHECK_OK(ms_buffer_destroy(held));
    CHECK_OK(ms_buffer_create(stream, 1000, &more)); // nothing else is charged
    CHECK_OK(ms_buffer_destroy(more));
    CHECK_OK(ms_stream_destroy(late));
    CHECK_OK(ms_stream_destroy(nowait));
    CHECK_OK(ms_stream_destroy(stream));
    CHECK_OK(ms_device_destroy(device));
}

static void *make_and_destroy(void *stream) {
    const char data[600] = {0};
    for (int i = 0; i < 10; i++) {
        ms_buffer *buffer = NULL;
        CHECK_OK(ms_buffer_create_from(stream, data, sizeof data, &buffer));
        CHECK_OK(ms_buffer_destroy(buffer));
    }
    return NULL;
}

static void threads_wait_for_their_turn(void) {
    enum { THREADS = 8 };
    ms_device *device = NULL;
    CHECK_OK(ms_device_open("cpu", NULL, &device));
    ms_stream *stream = stream_at_limit(device, MS_AT_LIMIT_WAIT);
    ms_buffer *held = NULL;
    pthread_t threads[THREADS];
    CHECK_OK(ms_buffer_create(stream, 600, &held));
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, make_and_destroy, stream) == 0);
    }
    CHECK_OK(ms_buffer_destroy(held)); // until then none of them has room
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_OK(ms_stream_destroy(stream));
    CHECK_OK(ms_device_destroy(device));
}

void check_limits(void);

void check_limits(void) {
    too_large_for_ever_and_too_large_now_are_two_statuses(MS_AT_LIMIT_FAIL);
    too_large_for_ever_and_too_large_now_are_two_statuses(MS_AT_LIMIT_WAIT);
    threads_wait_for_their_turn();
}
