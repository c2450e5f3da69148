// A forked child has its parent's devices, but none of their threads: each call answers a status instead of waiting for
// ever. A part of the program `behaviour.c`, of which no other thread runs at this point.
#define _DEFAULT_SOURCE
#include "scale.h"

#include <sys/wait.h>
#include <unistd.h>

// After this number of seconds a child that waits is ended by a signal. Under valgrind it is slow.
enum { PATIENCE_S = 120 };

#define CHECK_FORKED(call) CHECK_STATUS(MS_STATUS_FORKED, call)

struct inherited {
    ms_device *device;
    ms_driver *driver;
    ms_client *client;
    ms_stream *stream, *nowait;
    ms_kernel *kernel;
    ms_buffer *buffer, *other;
    ms_recorder *recorder;
    ms_recording *recording;
    ms_profile *profile;
    ms_pending *read, *sync, *called;
};

static struct inherited open_device(const char *backend, bool driven) {
    struct inherited all;
    memset(&all, 0, sizeof all);
    if (driven) {
        CHECK_OK(ms_device_open_driven(backend, NULL, &all.device, &all.driver));
    } else {
        CHECK_OK(ms_device_open(backend, NULL, &all.device));
    }
    const float ones[4] = {1, 1, 1, 1};
    CHECK_OK(ms_client_create(all.device, NULL, &all.client));
    CHECK_OK(ms_stream_create(all.client, &all.stream));
    CHECK_OK(ms_stream_nowait(all.stream, &all.nowait));
    all.kernel = make_scale(all.client);
    CHECK_OK(ms_buffer_create_from(all.stream, ones, sizeof ones, &all.buffer));
    CHECK_OK(ms_buffer_create_from(all.stream, ones, sizeof ones, &all.other));
    CHECK_OK(ms_recorder_create(all.stream, &all.recorder));
    CHECK_OK(ms_recorder_copy(all.recorder, all.buffer, all.other));
    CHECK_OK(ms_recorder_finish(all.recorder, &all.recording));
    CHECK_OK(ms_recorder_destroy(all.recorder));
    CHECK_OK(ms_recorder_create(all.stream, &all.recorder));
    CHECK_OK(ms_recorder_copy(all.recorder, all.buffer, all.other));
    CHECK_OK(ms_stream_start_profile(all.stream, &all.profile));
    CHECK_OK(ms_read(all.stream, all.buffer, &all.read));
    CHECK_OK(ms_read(all.stream, all.buffer, &all.called));
    CHECK_OK(ms_sync(all.stream, &all.sync));
    // The device's threads sleep when the answer has arrived. The answers are not taken.
    float got[4];
    CHECK_OK(ms_read_into(all.stream, all.buffer, got, sizeof got));
    return all;
}

static void destroy(struct inherited *all) {
    CHECK_OK(ms_pending_destroy(all->read));
    CHECK_OK(ms_pending_destroy(all->called));
    CHECK_OK(ms_pending_destroy(all->sync));
    CHECK_OK(ms_profile_destroy(all->profile));
    CHECK_OK(ms_recording_destroy(all->recording));
    CHECK_OK(ms_recorder_destroy(all->recorder));
    CHECK_OK(ms_buffer_destroy(all->other));
    CHECK_OK(ms_buffer_destroy(all->buffer));
    CHECK_OK(ms_kernel_destroy(all->kernel));
    CHECK_OK(ms_stream_destroy(all->nowait));
    CHECK_OK(ms_stream_destroy(all->stream));
    CHECK_OK(ms_client_destroy(all->client));
    CHECK_OK(ms_driver_destroy(all->driver));
    CHECK_OK(ms_device_destroy(all->device));
}

static void ready(ms_status status, const void *data, size_t bytes, void *user) {
    (void)status, (void)data, (void)bytes, (void)user;
}

static void submissions_are_refused(const struct inherited *all) {
    const float value = 1, values[4] = {0};
    float got[4];
    const ms_cubes cubes = {1, 1, 1};
    const ms_argument arguments[2] = {ms_arg_update(all->buffer), ms_arg_f32(2)};
    ms_buffer *buffer;
    ms_pending *pending;
    ms_profile *profile;
    for (int i = 0; i < 2; i++) {
        const ms_stream *stream = i == 0 ? all->stream : all->nowait;
        CHECK_GIVES_NONE(MS_STATUS_FORKED, buffer, ms_buffer_create(stream, 16, &buffer));
        CHECK_GIVES_NONE(MS_STATUS_FORKED, buffer, ms_buffer_create_from(stream, values, sizeof values, &buffer));
        CHECK_FORKED(ms_launch(stream, all->kernel, cubes, arguments, 2));
        CHECK_FORKED(ms_launch_with_metadata(stream, all->kernel, cubes, arguments, 2, NULL, 0));
        CHECK_FORKED(ms_fill(stream, all->buffer, &value, sizeof value));
        CHECK_FORKED(ms_write(stream, all->buffer, values, sizeof values));
        CHECK_FORKED(ms_copy(stream, all->buffer, all->other));
        CHECK_FORKED(ms_replay(stream, all->recording, NULL, 0, NULL, 0));
        CHECK_GIVES_NONE(MS_STATUS_FORKED, pending, ms_read(stream, all->buffer, &pending));
        CHECK_FORKED(ms_read_into(stream, all->buffer, got, sizeof got));
        CHECK_GIVES_NONE(MS_STATUS_FORKED, pending, ms_sync(stream, &pending));
        CHECK_GIVES_NONE(MS_STATUS_FORKED, profile, ms_stream_start_profile(stream, &profile));
        CHECK_FORKED(ms_stream_flush(stream));
    }
    CHECK(strstr(ms_last_error(), "spawn") != NULL);
}

static void objects_are_refused(const struct inherited *all) {
    ms_client *client = NULL;
    ms_stream *stream;
    ms_pending *pending;
    ms_buffer *parameter;
    ms_recording *recording;
    ms_submission_log *log;
    ms_profile *profile;
    CHECK_OK(ms_client_create(all->device, NULL, &client));
    CHECK_GIVES_NONE(MS_STATUS_FORKED, stream, ms_stream_create(client, &stream));
    CHECK_GIVES_NONE(MS_STATUS_FORKED, pending, ms_client_sync(client, &pending));
    CHECK_GIVES_NONE(MS_STATUS_FORKED, profile, ms_client_start_profile(client, NULL, 0, &profile));
    CHECK_OK(ms_client_destroy(client));
    CHECK_GIVES_NONE(MS_STATUS_FORKED, pending, ms_device_sync(all->device, &pending));
    CHECK_GIVES_NONE(MS_STATUS_FORKED, profile, ms_device_start_profile(all->device, &profile));
    CHECK_GIVES_NONE(MS_STATUS_FORKED, log, ms_device_take_log(all->device, &log));
    CHECK_GIVES_NONE(MS_STATUS_FORKED, parameter, ms_recorder_parameter(all->recorder, 16, &parameter));
    CHECK_GIVES_NONE(MS_STATUS_FORKED, recording, ms_recorder_finish(all->recorder, &recording));
    ms_memory_usage usage = {0};
    usage.size = sizeof usage;
    CHECK_FORKED(ms_device_get_memory(all->device, &usage));
    size_t needed = 0;
    CHECK_FORKED(ms_device_get_metrics(all->device, NULL, 0, &needed));
}

static void answers_are_refused(const struct inherited *all) {
    CHECK_FORKED(ms_pending_wait(all->read, MS_FOREVER));
    CHECK_FORKED(ms_pending_poll(all->read));
    CHECK_FORKED(ms_pending_poll(all->sync));
    CHECK_FORKED(ms_pending_wait(all->sync, 0));
    CHECK_FORKED(ms_pending_on_ready(all->called, ready, NULL));
    CHECK_FORKED(ms_profile_end(all->profile));
    CHECK_FORKED(ms_profile_wait(all->profile, MS_FOREVER));
    bool more = true;
    if (all->driver != NULL) {
        CHECK_OK(ms_pump(all->driver, 1000000, &more));
        CHECK(!more);
    }
}

// Runs in the child.
static void use_inherited(struct inherited *all) {
    submissions_are_refused(all);
    objects_are_refused(all);
    answers_are_refused(all);
    ms_close_report report = {0};
    report.size = sizeof report;
    CHECK_OK(ms_device_close(all->device, MS_FOREVER, &report));
    CHECK(report.tasks_left == 0);
    destroy(all);
    // The child may open devices of its own.
    struct inherited own = open_device("cpu", false);
    destroy(&own);
}

static void a_forked_child_gets_a_status_from_each_call(const char *backend, bool driven) {
    struct inherited all = open_device(backend, driven);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(PATIENCE_S);
        use_inherited(&all);
        // Memcheck would find leaks at an exit: the child has the memory of threads that it does not have.
        execlp("true", "true", (char *)NULL);
        _exit(2);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(!WIFSIGNALED(status)); // a call hangs
    CHECK(WEXITSTATUS(status) == 0);
    // The parent's device goes on.
    const void *data = NULL;
    size_t bytes = 0;
    CHECK_OK(ms_pending_wait(all.read, MS_FOREVER));
    CHECK_OK(ms_pending_data(all.read, &data, &bytes));
    CHECK(bytes == 16 && *(const float *)data == 1);
    CHECK_OK(ms_profile_end(all.profile));
    destroy(&all);
}

void check_forked(void);

void check_forked(void) {
    a_forked_child_gets_a_status_from_each_call("cpu", false);
    a_forked_child_gets_a_status_from_each_call("cpu", true);
    a_forked_child_gets_a_status_from_each_call("sim", false);
    a_forked_child_gets_a_status_from_each_call("sim", true);
}
