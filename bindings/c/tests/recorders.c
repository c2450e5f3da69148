// Recorders whose calls wait on a driven device while callbacks use or destroy them. A part of the program `behaviour.c`.
#include "check.h"

static const float ones[4] = {1, 1, 1, 1};

struct inside {
    ms_recorder *recorder; // NULL once the callback has destroyed it
    ms_buffer *buffer;
    ms_status expected; // what calls with the recorder answer inside
    int calls;
};

static void use_and_destroy(ms_status status, const void *data, size_t bytes, void *user) {
    struct inside *inside = user;
    (void)data, (void)bytes;
    CHECK(status == MS_STATUS_OK && inside->recorder != NULL);
    ms_recording *recording = NULL;
    ms_buffer *parameter = NULL;
    uint64_t scalar = 0;
    CHECK_STATUS(inside->expected, ms_recorder_fill(inside->recorder, inside->buffer, ones, 4));
    CHECK_STATUS(inside->expected, ms_recorder_copy(inside->recorder, inside->buffer, inside->buffer));
    CHECK_STATUS(inside->expected, ms_recorder_scalar(inside->recorder, MS_TYPE_F32, &scalar));
    CHECK_GIVES_NONE(inside->expected, parameter, ms_recorder_parameter(inside->recorder, 4, &parameter));
    CHECK_GIVES_NONE(inside->expected, recording, ms_recorder_finish(inside->recorder, &recording));
    CHECK_OK(ms_recorder_destroy(inside->recorder));
    inside->recorder = NULL;
    inside->calls++;
}

struct driven {
    ms_device *device;
    ms_driver *driver;
    ms_client *client;
    ms_stream *stream, *nowait;
    struct inside inside;
};

// A driven device with a callback that is due, which only a call that waits for room in the mailbox runs.
static struct driven open_full(ms_status expected) {
    struct driven opened = {NULL, NULL, NULL, NULL, NULL, {NULL, NULL, expected, 0}};
    ms_device_options options = {0};
    options.size = sizeof options;
    options.mailbox_capacity = 4;
    CHECK_OK(ms_device_open_driven("cpu", &options, &opened.device, &opened.driver));
    CHECK_OK(ms_client_create(opened.device, NULL, &opened.client));
    CHECK_OK(ms_stream_create(opened.client, &opened.stream));
    CHECK_OK(ms_stream_nowait(opened.stream, &opened.nowait));
    CHECK_OK(ms_buffer_create_from(opened.stream, ones, sizeof ones, &opened.inside.buffer));
    return opened;
}

static void request_callback(struct driven *opened) {
    ms_pending *read = NULL;
    CHECK_OK(ms_read(opened->stream, opened->inside.buffer, &read));
    CHECK_OK(ms_pending_on_ready(read, use_and_destroy, &opened->inside));
    CHECK_OK(ms_pending_destroy(read));
}

static void fill_mailbox(const struct driven *opened) {
    int accepted = 0;
    while (ms_fill(opened->nowait, opened->inside.buffer, ones, 4) == MS_STATUS_OK) {
        CHECK(++accepted < 100000);
    }
}

static void close_full(struct driven *opened) {
    CHECK_OK(ms_buffer_destroy(opened->inside.buffer));
    CHECK_OK(ms_stream_destroy(opened->nowait));
    CHECK_OK(ms_stream_destroy(opened->stream));
    CHECK_OK(ms_client_destroy(opened->client));
    CHECK_OK(ms_driver_destroy(opened->driver));
    CHECK_OK(ms_device_destroy(opened->device));
}

static void a_callback_uses_and_destroys_a_recorder_that_makes_a_parameter(void) {
    struct driven opened = open_full(MS_STATUS_BUSY);
    CHECK_OK(ms_recorder_create(opened.stream, &opened.inside.recorder));
    ms_recorder *const recorder = opened.inside.recorder;
    CHECK_OK(ms_recorder_fill(recorder, opened.inside.buffer, ones, 4));
    request_callback(&opened);
    for (int i = 0; opened.inside.calls == 0; i++) {
        ms_buffer *parameter = NULL;
        size_t bytes = 0;
        CHECK(i < 100000);
        // The call whose wait runs the callback succeeds like the others.
        CHECK_OK(ms_recorder_parameter(recorder, 16, &parameter));
        CHECK_OK(ms_buffer_get_bytes(parameter, &bytes));
        CHECK(bytes == 16);
        CHECK_OK(ms_buffer_destroy(parameter));
    }
    CHECK_HANDLE(ms_recorder_fill(recorder, opened.inside.buffer, ones, 4));
    CHECK_HANDLE(ms_recorder_destroy(recorder));
    close_full(&opened);
}

static void a_callback_uses_and_destroys_a_recorder_that_finishes(void) {
    struct driven opened = open_full(MS_STATUS_TAKEN);
    const float two = 2;
    float got[4];
    request_callback(&opened);
    for (int i = 0; opened.inside.calls == 0; i++) {
        CHECK(i < 100000);
        CHECK_OK(ms_recorder_create(opened.stream, &opened.inside.recorder));
        ms_recorder *const recorder = opened.inside.recorder;
        CHECK_OK(ms_recorder_fill(recorder, opened.inside.buffer, &two, 4));
        fill_mailbox(&opened);
        ms_recording *recording = NULL;
        CHECK_OK(ms_recorder_finish(recorder, &recording));
        if (opened.inside.calls == 0) {
            CHECK_OK(ms_recorder_destroy(recorder));
        } else {
            CHECK_HANDLE(ms_recorder_destroy(recorder));
            // The recording is whole.
            CHECK_OK(ms_replay(opened.stream, recording, NULL, 0, NULL, 0));
            CHECK_OK(ms_read_into(opened.stream, opened.inside.buffer, got, sizeof got));
            CHECK(got[0] == 2 && got[3] == 2);
        }
        CHECK_OK(ms_recording_destroy(recording));
    }
    close_full(&opened);
}

void check_recorders(void);

void check_recorders(void) {
    a_callback_uses_and_destroys_a_recorder_that_makes_a_parameter();
    a_callback_uses_and_destroys_a_recorder_that_finishes();
}
