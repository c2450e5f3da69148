// Calls every function with every bad argument: each answers a status, gives no handle, and none crashes.
//
// For handles the bad ones are NULL, a destroyed one, one of another type, and an address; for memory NULL; for structs
// sizes of 0, too small, and too great; for numbers unknown values.
#include "scale.h"

static ms_device *device;
static ms_driver *driver;
static ms_client *client;
static ms_stream *stream;
static ms_buffer *buffer;
static ms_kernel *kernel;
static ms_pending *pending;
static ms_recorder *recorder;
static ms_recording *recording;
static ms_cancel_token *token;
static ms_profile *profile; // it was ended
static ms_submission_log *submissions;

// Destroyed handles, one of each type.
static ms_device *gone_device;
static ms_driver *gone_driver;
static ms_client *gone_client;
static ms_stream *gone_stream;
static ms_buffer *gone_buffer;
static ms_kernel *gone_kernel;
static ms_pending *gone_pending;
static ms_recorder *gone_recorder;
static ms_recording *gone_recording;
static ms_cancel_token *gone_token;
static ms_profile *gone_profile;
static ms_submission_log *gone_submissions;

// Makes one object of each type.
static void make_all(void) {
    ms_device_options options = {0};
    options.size = sizeof options;
    options.log_submissions = 1 << 20;
    CHECK_OK(ms_device_open_driven("cpu", &options, &device, &driver));
    CHECK_OK(ms_client_create(device, NULL, &client));
    CHECK_OK(ms_stream_create(client, &stream));
    const float values[4] = {1, 2, 3, 4};
    CHECK_OK(ms_buffer_create_from(stream, values, sizeof values, &buffer));
    kernel = make_scale(client);
    CHECK_OK(ms_sync(stream, &pending));
    CHECK_OK(ms_recorder_create(stream, &recorder));
    ms_recorder *other = NULL;
    CHECK_OK(ms_recorder_create(stream, &other));
    CHECK_OK(ms_recorder_finish(other, &recording));
    CHECK_OK(ms_recorder_destroy(other));
    CHECK_OK(ms_cancel_token_create(&token));
    CHECK_OK(ms_stream_start_profile(stream, &profile));
    CHECK_OK(ms_profile_end(profile));
    CHECK_OK(ms_device_take_log(device, &submissions));
}

static void destroy_all(void) {
    CHECK_OK(ms_submission_log_destroy(submissions));
    CHECK_OK(ms_profile_destroy(profile));
    CHECK_OK(ms_cancel_token_destroy(token));
    CHECK_OK(ms_recording_destroy(recording));
    CHECK_OK(ms_recorder_destroy(recorder));
    CHECK_OK(ms_pending_destroy(pending));
    CHECK_OK(ms_kernel_destroy(kernel));
    CHECK_OK(ms_buffer_destroy(buffer));
    CHECK_OK(ms_stream_destroy(stream));
    CHECK_OK(ms_client_destroy(client));
    CHECK_OK(ms_driver_destroy(driver));
    CHECK_OK(ms_device_destroy(device));
}

// Runs `call` with `handle` as each bad handle: NULL, destroyed, of another type, an address.
#define EACH_BAD_HANDLE(type, gone, handle, call)                                                                      \
    do {                                                                                                               \
        int local_ = 0;                                                                                                \
        type *bad_[] = {NULL, gone, (type *)(void *)other_, (type *)(void *)&local_, (type *)(void *)-1};              \
        for (size_t i_ = 0; i_ < sizeof bad_ / sizeof *bad_; i_++) {                                                   \
            type *handle = bad_[i_];                                                                                   \
            CHECK_HANDLE(call);                                                                                        \
        }                                                                                                              \
    } while (0)

// Functions of tasks, which no device here calls.
static int32_t on_vulkan(const ms_vulkan_task *task, void *user) {
    (void)task, (void)user;
    return 1;
}

static int32_t on_cuda(const ms_cuda_task *task, void *user) {
    (void)task, (void)user;
    return 1;
}

static void bad_handles(void) {
    void *other_ = buffer;
    size_t size = 0;
    uint64_t number = 0;
    const void *data = NULL;
    bool more = false;
    char text[64];
    float values[4] = {0};
    const ms_cubes cubes = {1, 1, 1};
    ms_health health;
    ms_device_properties properties = {0};
    properties.size = sizeof properties;
    ms_memory_usage usage = {0};
    usage.size = sizeof usage;
    ms_client *new_client;
    ms_stream *new_stream;
    ms_buffer *new_buffer;
    ms_pending *new_pending;
    ms_kernel *new_kernel;
    ms_recorder *new_recorder;
    ms_recording *new_recording;
    ms_profile *new_profile;
    ms_submission_log *new_submissions;
    ms_vulkan_buffer *vulkan_buffer;
    ms_vulkan_point *vulkan_point;
    void *address = NULL;
    ms_tally tally = {0};
    tally.size = sizeof tally;
    ms_profile_summary summary = {0};
    summary.size = sizeof summary;
    ms_profile_entry entry = {0};
    entry.size = sizeof entry;
    ms_submission_log_info info = {0};
    info.size = sizeof info;
    ms_vulkan_memory memory = {0};
    memory.size = sizeof memory;
    ms_cuda_handles cuda = {0};
    cuda.size = sizeof cuda;
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "empty";
    ms_argument arguments[2] = {ms_arg_update(buffer), ms_arg_f32(2)};

    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_reopen(bad));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_close(bad, 0, NULL));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_sync(bad, &new_pending));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_get_properties(bad, &properties));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_get_name(bad, text, sizeof text, &size));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_get_health(bad, &health));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_get_memory(bad, &usage));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_get_metrics(bad, text, sizeof text, &size));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_client_create(bad, NULL, &new_client));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_start_profile(bad, &new_profile));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_take_log(bad, &new_submissions));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_get_cuda(bad, &cuda));
    EACH_BAD_HANDLE(ms_device, gone_device, bad, ms_device_get_cuda_stream(bad, 0, &address));
    EACH_BAD_HANDLE(ms_driver, gone_driver, bad, ms_pump(bad, 0, &more));
    EACH_BAD_HANDLE(ms_client, gone_client, bad, ms_client_start_profile(bad, NULL, 0, &new_profile));
    EACH_BAD_HANDLE(ms_client, gone_client, bad, ms_resubmit(bad, submissions, NULL, 0, 0, NULL, NULL, NULL));
    EACH_BAD_HANDLE(ms_client, gone_client, bad, ms_client_sync(bad, &new_pending));
    EACH_BAD_HANDLE(ms_client, gone_client, bad, ms_stream_create(bad, &new_stream));
    EACH_BAD_HANDLE(ms_client, gone_client, bad, ms_kernel_create(bad, &desc, &new_kernel));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_stream_nowait(bad, &new_stream));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_stream_with_deadline(bad, 1, &new_stream));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_stream_with_cancel(bad, token, &new_stream));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_stream_get_tally(bad, &tally));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_stream_start_profile(bad, &new_profile));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_stream_flush(bad));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_sync(bad, &new_pending));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_buffer_create(bad, 4, &new_buffer));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_buffer_create_from(bad, values, 4, &new_buffer));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_write(bad, buffer, values, sizeof values));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_fill(bad, buffer, values, 4));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_copy(bad, buffer, buffer));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_read(bad, buffer, &new_pending));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_read_into(bad, buffer, values, sizeof values));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_launch(bad, kernel, cubes, arguments, 2));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_launch_indirect(bad, kernel, buffer, arguments, 2));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad,
                    ms_launch_with_metadata(bad, kernel, cubes, arguments, 2, NULL, 0));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_vulkan_buffer_create(bad, buffer, 1, &vulkan_buffer));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_vulkan_wait(bad, arguments, 1, &address, 1, NULL, NULL));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_vulkan_point_create(bad, arguments, 1, &vulkan_point));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_vulkan_record(bad, "task", arguments, 1, on_vulkan, NULL, NULL));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_cuda_submit(bad, "task", arguments, 1, on_cuda, NULL, NULL));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_recorder_create(bad, &new_recorder));
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad, ms_replay(bad, recording, NULL, 0, NULL, 0));
    EACH_BAD_HANDLE(ms_recorder, gone_recorder, bad, ms_recorder_parameter(bad, 4, &new_buffer));
    EACH_BAD_HANDLE(ms_recorder, gone_recorder, bad, ms_recorder_scalar(bad, MS_TYPE_F32, &number));
    EACH_BAD_HANDLE(ms_recorder, gone_recorder, bad, ms_recorder_launch(bad, kernel, cubes, arguments, 2));
    EACH_BAD_HANDLE(ms_recorder, gone_recorder, bad,
                    ms_recorder_launch_with_metadata(bad, kernel, cubes, arguments, 2, NULL, 0));
    EACH_BAD_HANDLE(ms_recorder, gone_recorder, bad, ms_recorder_copy(bad, buffer, buffer));
    EACH_BAD_HANDLE(ms_recorder, gone_recorder, bad, ms_recorder_fill(bad, buffer, values, 4));
    EACH_BAD_HANDLE(ms_recorder, gone_recorder, bad, ms_recorder_finish(bad, &new_recording));
    EACH_BAD_HANDLE(ms_recording, gone_recording, bad, ms_replay(stream, bad, NULL, 0, NULL, 0));
    EACH_BAD_HANDLE(ms_pending, gone_pending, bad, ms_pending_poll(bad));
    EACH_BAD_HANDLE(ms_pending, gone_pending, bad, ms_pending_wait(bad, 0));
    EACH_BAD_HANDLE(ms_pending, gone_pending, bad, ms_pending_data(bad, &data, &size));

    EACH_BAD_HANDLE(ms_cancel_token, gone_token, bad, ms_cancel_token_cancel(bad, NULL));
    EACH_BAD_HANDLE(ms_cancel_token, gone_token, bad, ms_cancel_token_is_cancelled(bad, &more));
    EACH_BAD_HANDLE(ms_cancel_token, gone_token, bad, ms_cancel_token_get_tally(bad, &tally));
    EACH_BAD_HANDLE(ms_profile, gone_profile, bad, ms_profile_end(bad));
    EACH_BAD_HANDLE(ms_profile, gone_profile, bad, ms_profile_poll(bad));
    EACH_BAD_HANDLE(ms_profile, gone_profile, bad, ms_profile_wait(bad, 0));
    EACH_BAD_HANDLE(ms_profile, gone_profile, bad, ms_profile_get_summary(bad, &summary));
    EACH_BAD_HANDLE(ms_profile, gone_profile, bad, ms_profile_get_entry(bad, 0, &entry));
    EACH_BAD_HANDLE(ms_profile, gone_profile, bad, ms_profile_get_text(bad, text, sizeof text, &size));
    EACH_BAD_HANDLE(ms_submission_log, gone_submissions, bad, ms_submission_log_encode(bad, text, sizeof text, &size));
    EACH_BAD_HANDLE(ms_submission_log, gone_submissions, bad, ms_submission_log_get_info(bad, &info));
    EACH_BAD_HANDLE(ms_submission_log, gone_submissions, bad, ms_submission_log_append(bad, submissions));
    EACH_BAD_HANDLE(ms_submission_log, gone_submissions, bad, ms_submission_log_accept_cut(bad));
    EACH_BAD_HANDLE(ms_vulkan_buffer, NULL, bad, ms_vulkan_buffer_get_memory(bad, &memory));
    EACH_BAD_HANDLE(ms_vulkan_point, NULL, bad, ms_vulkan_point_get(bad, &address, &number));

    // The other handles of calls that take several, and those in arrays.
    other_ = client;
    EACH_BAD_HANDLE(ms_cancel_token, gone_token, bad, ms_stream_with_cancel(stream, bad, &new_stream));
    EACH_BAD_HANDLE(ms_submission_log, gone_submissions, bad, ms_submission_log_append(submissions, bad));
    EACH_BAD_HANDLE(ms_submission_log, gone_submissions, bad, ms_resubmit(client, bad, NULL, 0, 0, NULL, NULL, NULL));
    const ms_stream *streams[2] = {stream, NULL};
    EACH_BAD_HANDLE(ms_stream, gone_stream, bad,
                    (streams[1] = bad, ms_client_start_profile(client, streams, 2, &new_profile)));
    const ms_kernel *kernels[2] = {kernel, NULL};
    EACH_BAD_HANDLE(ms_kernel, gone_kernel, bad,
                    (kernels[1] = bad, ms_resubmit(client, submissions, kernels, 2, 0, NULL, NULL, NULL)));
    EACH_BAD_HANDLE(ms_kernel, gone_kernel, bad,
                    ms_launch_with_metadata(stream, bad, cubes, arguments, 2, NULL, 0));
    EACH_BAD_HANDLE(ms_kernel, gone_kernel, bad,
                    ms_recorder_launch_with_metadata(recorder, bad, cubes, arguments, 2, NULL, 0));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_vulkan_buffer_create(stream, bad, 1, &vulkan_buffer));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad,
                    (arguments[0] = ms_arg_update(bad),
                     ms_launch_with_metadata(stream, kernel, cubes, arguments, 2, NULL, 0)));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad,
                    (arguments[0] = ms_arg_update(bad),
                     ms_recorder_launch_with_metadata(recorder, kernel, cubes, arguments, 2, NULL, 0)));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad,
                    (arguments[0] = ms_arg_read(bad), ms_vulkan_wait(stream, arguments, 1, &address, 1, NULL, NULL)));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad,
                    (arguments[0] = ms_arg_read(bad), ms_vulkan_point_create(stream, arguments, 1, &vulkan_point)));
    EACH_BAD_HANDLE(
        ms_buffer, gone_buffer, bad,
        (arguments[0] = ms_arg_read(bad), ms_vulkan_record(stream, "task", arguments, 1, on_vulkan, NULL, NULL)));
    EACH_BAD_HANDLE(
        ms_buffer, gone_buffer, bad,
        (arguments[0] = ms_arg_read(bad), ms_cuda_submit(stream, "task", arguments, 1, on_cuda, NULL, NULL)));
    arguments[0] = ms_arg_update(buffer);
    EACH_BAD_HANDLE(ms_kernel, gone_kernel, bad, ms_launch(stream, bad, cubes, arguments, 2));
    EACH_BAD_HANDLE(ms_kernel, gone_kernel, bad, ms_launch_indirect(stream, bad, buffer, arguments, 2));
    EACH_BAD_HANDLE(ms_kernel, gone_kernel, bad, ms_recorder_launch(recorder, bad, cubes, arguments, 2));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_buffer_slice(bad, 0, 0, &new_buffer));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_buffer_get_bytes(bad, &size));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_write(stream, bad, values, sizeof values));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_fill(stream, bad, values, 4));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_copy(stream, bad, buffer));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_copy(stream, buffer, bad));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_read(stream, bad, &new_pending));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_read_into(stream, bad, values, sizeof values));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_launch_indirect(stream, kernel, bad, arguments, 2));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_recorder_copy(recorder, bad, buffer));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_recorder_copy(recorder, buffer, bad));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad, ms_recorder_fill(recorder, bad, values, 4));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad,
                    (arguments[0] = ms_arg_update(bad), ms_launch(stream, kernel, cubes, arguments, 2)));
    EACH_BAD_HANDLE(ms_buffer, gone_buffer, bad,
                    (arguments[0] = ms_arg_update(bad), ms_recorder_launch(recorder, kernel, cubes, arguments, 2)));
    ms_rebind rebind = {sizeof rebind, 0, NULL, NULL};
    EACH_BAD_HANDLE(
        ms_buffer, gone_buffer, bad,
        (rebind.parameter = bad, rebind.buffer = buffer, ms_replay(stream, recording, &rebind, 1, NULL, 0)));
    EACH_BAD_HANDLE(
        ms_buffer, gone_buffer, bad,
        (rebind.parameter = buffer, rebind.buffer = bad, ms_replay(stream, recording, &rebind, 1, NULL, 0)));

    // A handle that is not NULL and not valid cannot be destroyed; NULL can.
    other_ = buffer;
#define BAD_DESTROY(type, gone, destroy)                                                                               \
    do {                                                                                                               \
        CHECK_OK(destroy(NULL));                                                                                       \
        CHECK_HANDLE(destroy(gone));                                                                                   \
        CHECK_HANDLE(destroy((type *)other_));                                                                         \
        CHECK_HANDLE(destroy((type *)(void *)&size));                                                                  \
    } while (0)
    BAD_DESTROY(ms_device, gone_device, ms_device_destroy);
    BAD_DESTROY(ms_driver, gone_driver, ms_driver_destroy);
    BAD_DESTROY(ms_client, gone_client, ms_client_destroy);
    BAD_DESTROY(ms_stream, gone_stream, ms_stream_destroy);
    BAD_DESTROY(ms_kernel, gone_kernel, ms_kernel_destroy);
    BAD_DESTROY(ms_pending, gone_pending, ms_pending_destroy);
    BAD_DESTROY(ms_recorder, gone_recorder, ms_recorder_destroy);
    BAD_DESTROY(ms_recording, gone_recording, ms_recording_destroy);
    BAD_DESTROY(ms_cancel_token, gone_token, ms_cancel_token_destroy);
    BAD_DESTROY(ms_profile, gone_profile, ms_profile_destroy);
    BAD_DESTROY(ms_submission_log, gone_submissions, ms_submission_log_destroy);
    BAD_DESTROY(ms_vulkan_buffer, (ms_vulkan_buffer *)(void *)gone_buffer, ms_vulkan_buffer_destroy);
    BAD_DESTROY(ms_vulkan_point, (ms_vulkan_point *)(void *)gone_buffer, ms_vulkan_point_destroy);
    other_ = client;
    BAD_DESTROY(ms_buffer, gone_buffer, ms_buffer_destroy);
}

static void null_outputs(void) {
    const float values[4] = {0};
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "empty";
    size_t size = 0;
    const void *data = NULL;
    ms_device *new_device;
    ms_driver *new_driver;
    CHECK_ARGUMENT(ms_device_open("cpu", NULL, NULL));
    CHECK_ARGUMENT(ms_device_open_driven("cpu", NULL, NULL, &new_driver));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_open_driven("cpu", NULL, &new_device, NULL));
    ms_vulkan_device adopted = {0};
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_vulkan(NULL, NULL, &new_device, NULL));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_vulkan(&adopted, NULL, &new_device, NULL));
    adopted.size = sizeof adopted;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_vulkan(&adopted, NULL, &new_device, NULL));
    CHECK_ARGUMENT(ms_device_adopt_vulkan(&adopted, NULL, NULL, NULL));
    ms_cuda_context context = {0};
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_cuda(NULL, NULL, &new_device, NULL));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_cuda(&context, NULL, &new_device, NULL));
    context.size = sizeof context; // the context is NULL
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_cuda(&context, NULL, &new_device, NULL));
    context.context = &context;
    context.stream_count = 1; // NULL
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_cuda(&context, NULL, &new_device, NULL));
    void *no_stream = NULL;
    context.streams = &no_stream;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_cuda(&context, NULL, &new_device, NULL));
    context.stream_count = SIZE_MAX;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_adopt_cuda(&context, NULL, &new_device, NULL));
    CHECK_ARGUMENT(ms_device_adopt_cuda(&context, NULL, NULL, NULL));
    CHECK_ARGUMENT(ms_device_start_profile(device, NULL));
    CHECK_ARGUMENT(ms_device_take_log(device, NULL));
    CHECK_ARGUMENT(ms_client_start_profile(client, NULL, 0, NULL));
    CHECK_ARGUMENT(ms_client_start_profile(client, NULL, 1, &(ms_profile *){NULL}));
    CHECK_ARGUMENT(ms_stream_start_profile(stream, NULL));
    CHECK_ARGUMENT(ms_stream_with_cancel(stream, token, NULL));
    CHECK_ARGUMENT(ms_cancel_token_create(NULL));
    CHECK_ARGUMENT(ms_cancel_token_is_cancelled(token, NULL));
    CHECK_ARGUMENT(ms_cancel_token_get_tally(token, NULL));
    CHECK_OK(ms_profile_wait(profile, MS_FOREVER));
    CHECK_ARGUMENT(ms_profile_get_summary(profile, NULL));
    CHECK_ARGUMENT(ms_profile_get_entry(profile, 0, NULL));
    CHECK_ARGUMENT(ms_profile_get_text(profile, NULL, 4, &size));
    CHECK_ARGUMENT(ms_submission_log_encode(submissions, NULL, 4, &size));
    CHECK_ARGUMENT(ms_submission_log_get_info(submissions, NULL));
    CHECK_ARGUMENT(ms_submission_log_decode("", 0, NULL));
    ms_submission_log *new_submissions;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_submissions, ms_submission_log_decode(NULL, 4, &new_submissions));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_submissions, ms_submission_log_decode(NULL, 0, &new_submissions));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_submissions, ms_submission_log_decode("log", 3, &new_submissions));
    CHECK_ARGUMENT(ms_resubmit(client, submissions, NULL, 1, 0, NULL, NULL, NULL));
    CHECK_ARGUMENT(ms_resubmit(client, submissions, NULL, SIZE_MAX, 0, NULL, NULL, NULL));
    // What only a device of Vulkan or CUDA has, on another one; and without a pointer.
    const ms_argument argument = ms_arg_read(buffer), scalar = ms_arg_f32(1);
    ms_vulkan_buffer *vulkan_buffer;
    ms_vulkan_point *vulkan_point;
    ms_cuda_handles cuda = {0};
    void *address = NULL;
    CHECK_ARGUMENT(ms_vulkan_buffer_create(stream, buffer, 1, NULL));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, vulkan_buffer,
                     ms_vulkan_buffer_create(stream, buffer, 0, &vulkan_buffer));
    CHECK_GIVES_NONE(MS_STATUS_UNSUPPORTED, vulkan_buffer, ms_vulkan_buffer_create(stream, buffer, 1, &vulkan_buffer));
    CHECK_ARGUMENT(ms_vulkan_wait(stream, &argument, 1, NULL, 1, NULL, NULL));
    CHECK_ARGUMENT(ms_vulkan_wait(stream, NULL, 1, &size, 1, NULL, NULL));
    CHECK_ARGUMENT(ms_vulkan_wait(stream, &scalar, 1, &size, 1, NULL, NULL));
    CHECK_STATUS(MS_STATUS_UNSUPPORTED, ms_vulkan_wait(stream, &argument, 1, &size, 1, NULL, NULL));
    CHECK_ARGUMENT(ms_vulkan_point_create(stream, &argument, 1, NULL));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, vulkan_point, ms_vulkan_point_create(stream, NULL, 1, &vulkan_point));
    CHECK_GIVES_NONE(MS_STATUS_UNSUPPORTED, vulkan_point, ms_vulkan_point_create(stream, NULL, 0, &vulkan_point));
    CHECK_ARGUMENT(ms_vulkan_record(stream, NULL, &argument, 1, on_vulkan, NULL, NULL));
    CHECK_ARGUMENT(ms_vulkan_record(stream, "task", &argument, 1, NULL, NULL, NULL));
    CHECK_ARGUMENT(ms_vulkan_record(stream, "task", NULL, 1, on_vulkan, NULL, NULL));
    CHECK_STATUS(MS_STATUS_UNSUPPORTED, ms_vulkan_record(stream, "task", &argument, 1, on_vulkan, NULL, NULL));
    CHECK_ARGUMENT(ms_cuda_submit(stream, NULL, &argument, 1, on_cuda, NULL, NULL));
    CHECK_ARGUMENT(ms_cuda_submit(stream, "task", &argument, 1, NULL, NULL, NULL));
    CHECK_ARGUMENT(ms_cuda_submit(stream, "task", &scalar, 1, on_cuda, NULL, NULL));
    CHECK_STATUS(MS_STATUS_UNSUPPORTED, ms_cuda_submit(stream, "task", &argument, 1, on_cuda, NULL, NULL));
    CHECK_STATUS(MS_STATUS_UNSUPPORTED, ms_device_get_cuda(device, &cuda));
    CHECK_STATUS(MS_STATUS_UNSUPPORTED, ms_device_get_cuda_stream(device, 0, &address));
    CHECK_ARGUMENT(ms_device_sync(device, NULL));
    CHECK_ARGUMENT(ms_device_get_properties(device, NULL));
    CHECK_ARGUMENT(ms_device_get_name(device, NULL, 4, &size));
    CHECK_STATUS(MS_STATUS_TOO_SMALL, ms_device_get_name(device, NULL, 0, NULL));
    CHECK_ARGUMENT(ms_device_get_health(device, NULL));
    CHECK_ARGUMENT(ms_device_get_memory(device, NULL));
    CHECK_ARGUMENT(ms_device_get_metrics(device, NULL, 4, &size));
    CHECK_OK(ms_pump(driver, 0, NULL));
    CHECK_ARGUMENT(ms_client_create(device, NULL, NULL));
    CHECK_ARGUMENT(ms_client_sync(client, NULL));
    CHECK_ARGUMENT(ms_stream_create(client, NULL));
    CHECK_ARGUMENT(ms_stream_nowait(stream, NULL));
    CHECK_ARGUMENT(ms_stream_with_deadline(stream, 1, NULL));
    CHECK_ARGUMENT(ms_sync(stream, NULL));
    CHECK_ARGUMENT(ms_buffer_create(stream, 4, NULL));
    CHECK_ARGUMENT(ms_buffer_create_from(stream, values, 4, NULL));
    CHECK_ARGUMENT(ms_buffer_slice(buffer, 0, 4, NULL));
    CHECK_ARGUMENT(ms_buffer_get_bytes(buffer, NULL));
    CHECK_ARGUMENT(ms_read(stream, buffer, NULL));
    CHECK_ARGUMENT(ms_kernel_create(client, &desc, NULL));
    CHECK_ARGUMENT(ms_recorder_create(stream, NULL));
    CHECK_ARGUMENT(ms_recorder_parameter(recorder, 4, NULL));
    CHECK_ARGUMENT(ms_recorder_scalar(recorder, MS_TYPE_F32, NULL));
    CHECK_ARGUMENT(ms_recorder_finish(recorder, NULL));
    CHECK_OK(ms_pending_wait(pending, MS_FOREVER));
    CHECK_ARGUMENT(ms_pending_data(pending, NULL, &size));
    CHECK_ARGUMENT(ms_pending_data(pending, &data, NULL));
    CHECK_ARGUMENT(ms_pending_on_ready(pending, NULL, NULL));
    CHECK_ARGUMENT(ms_launch_fail(NULL, "message"));
    ms_launch_args args = {0};
    CHECK_ARGUMENT(ms_launch_fail(&args, NULL));
    CHECK_ARGUMENT(ms_launch_fail(&args, "no kernel runs"));
}

static void ignore(ms_log_level level, const char *subject, const char *text, void *user) {
    (void)level, (void)subject, (void)text, (void)user;
}

static void memory_and_values(void) {
    float values[4] = {1, 2, 3, 4};
    ms_buffer *part;
    ms_device *new_device;
    ms_client *new_client;
    ms_stream *new_stream;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_open(NULL, NULL, &new_device));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_open("", NULL, &new_device));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_open("gpu", NULL, &new_device));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_open("\xff", NULL, &new_device));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, part, ms_buffer_create_from(stream, NULL, 4, &part));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, part, ms_buffer_create_from(stream, values, SIZE_MAX, &part));
    CHECK_GIVES_NONE(MS_STATUS_TOO_LARGE, part, ms_buffer_create(stream, SIZE_MAX, &part));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, part, ms_buffer_slice(buffer, 0, 17, &part));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, part, ms_buffer_slice(buffer, 17, 0, &part));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, part, ms_buffer_slice(buffer, SIZE_MAX, SIZE_MAX, &part));
    CHECK_OK(ms_buffer_create_from(stream, NULL, 0, &part));
    CHECK_OK(ms_read_into(stream, part, NULL, 0));
    CHECK_OK(ms_write(stream, part, NULL, 0));
    CHECK_OK(ms_buffer_destroy(part));
    CHECK_ARGUMENT(ms_write(stream, buffer, NULL, sizeof values));
    CHECK_ARGUMENT(ms_write(stream, buffer, values, 4));
    CHECK_ARGUMENT(ms_read_into(stream, buffer, NULL, sizeof values));
    CHECK_ARGUMENT(ms_read_into(stream, buffer, values, 4));
    CHECK_ARGUMENT(ms_fill(stream, buffer, NULL, 4));
    CHECK_ARGUMENT(ms_fill(stream, buffer, values, 3));
    CHECK_ARGUMENT(ms_fill(stream, buffer, values, 0));
    CHECK_ARGUMENT(ms_recorder_fill(recorder, buffer, values, 3));
    CHECK_ARGUMENT(ms_recorder_fill(recorder, buffer, NULL, 4));
    CHECK_OK(ms_buffer_slice(buffer, 0, 6, &part));
    CHECK_ARGUMENT(ms_fill(stream, part, values, 4));
    CHECK_ARGUMENT(ms_copy(stream, part, buffer));
    CHECK_ARGUMENT(ms_copy(stream, buffer, buffer));
    CHECK_ARGUMENT(ms_recorder_copy(recorder, buffer, buffer));
    CHECK_OK(ms_buffer_destroy(part));
    uint64_t number = 0;
    CHECK_ARGUMENT(ms_recorder_scalar(recorder, 0, &number));
    CHECK_ARGUMENT(ms_recorder_scalar(recorder, MS_ACCESS_READ, &number));
    CHECK_ARGUMENT(ms_set_log(ignore, 0, NULL));
    CHECK_ARGUMENT(ms_set_log(ignore, 6, NULL));
    CHECK_OK(ms_set_log(NULL, 6, NULL));
    ms_client_options client_options = {0};
    client_options.size = sizeof client_options;
    client_options.priority = 3;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_client, ms_client_create(device, &client_options, &new_client));
    client_options.priority = 0;
    client_options.at_limit = 2;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_client, ms_client_create(device, &client_options, &new_client));
    client_options.at_limit = 0;
    client_options.name = "\xff";
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_client, ms_client_create(device, &client_options, &new_client));
    ms_device_options device_options = {0};
    device_options.size = sizeof device_options;
    device_options.log_level = 3;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_open("cpu", &device_options, &new_device));
    device_options.log_level = 0;
    device_options.queues = 1000;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_open("cpu", &device_options, &new_device));
    CHECK_OK(ms_stream_with_deadline(stream, UINT64_MAX, &new_stream));
    CHECK_OK(ms_stream_destroy(new_stream));
    CHECK_ARGUMENT(ms_device_reopen(device)); // not lost
    CHECK(ms_status_name(-1) != NULL && ms_status_name(1000) != NULL);
}

// Sizes of a struct that are no size of any version.
static void sizes(void) {
    const uint32_t bad[] = {0, 4, 5000, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ms_device *new_device;
        ms_client *new_client;
        ms_kernel *new_kernel;
        ms_device_options device_options = {0};
        device_options.size = bad[i];
        CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_device, ms_device_open("cpu", &device_options, &new_device));
        ms_client_options client_options = {0};
        client_options.size = bad[i];
        CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_client,
                         ms_client_create(device, &client_options, &new_client));
        ms_kernel_desc desc = {0};
        desc.size = bad[i];
        CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, new_kernel, ms_kernel_create(client, &desc, &new_kernel));
        ms_device_properties properties = {0};
        properties.size = bad[i];
        CHECK_ARGUMENT(ms_device_get_properties(device, &properties));
        ms_memory_usage usage = {0};
        usage.size = bad[i];
        CHECK_ARGUMENT(ms_device_get_memory(device, &usage));
        ms_tally tally = {0};
        tally.size = bad[i];
        CHECK_ARGUMENT(ms_cancel_token_get_tally(token, &tally));
        CHECK_ARGUMENT(ms_cancel_token_cancel(token, &tally)); // cancels nothing
        bool cancelled = true;
        CHECK_OK(ms_cancel_token_is_cancelled(token, &cancelled));
        CHECK(!cancelled);
        ms_profile_summary summary = {0};
        summary.size = bad[i];
        CHECK_ARGUMENT(ms_profile_get_summary(profile, &summary));
        ms_submission_log_info info = {0};
        info.size = bad[i];
        CHECK_ARGUMENT(ms_submission_log_get_info(submissions, &info));
        ms_close_report report = {0};
        report.size = bad[i];
        ms_device *closing = NULL;
        CHECK_OK(ms_device_open("cpu", NULL, &closing));
        CHECK_ARGUMENT(ms_device_close(closing, 0, &report));
        CHECK_OK(ms_device_destroy(closing));
        ms_argument arguments[2] = {ms_arg_update(buffer), ms_arg_f32(2)};
        const ms_cubes cubes = {1, 1, 1};
        arguments[1].size = bad[i];
        CHECK_ARGUMENT(ms_launch(stream, kernel, cubes, arguments, 2));
        CHECK_ARGUMENT(ms_recorder_launch(recorder, kernel, cubes, arguments, 2));
        arguments[0].size = bad[i];
        CHECK_ARGUMENT(ms_launch(stream, kernel, cubes, arguments, 2));
        CHECK_ARGUMENT(ms_vulkan_wait(stream, arguments, 1, &report, 1, NULL, NULL));
        const uint64_t axis = 4;
        const ms_tensor tensor = {bad[i], MS_TENSOR_GROUP_INPUT, &axis, &axis, 1, 4};
        ms_argument good[2] = {ms_arg_update(buffer), ms_arg_f32(2)};
        CHECK_ARGUMENT(ms_launch_with_metadata(stream, kernel, cubes, good, 2, &tensor, 1));
        CHECK_ARGUMENT(ms_recorder_launch_with_metadata(recorder, kernel, cubes, good, 2, &tensor, 1));
        ms_rebind rebind = {bad[i], 0, buffer, buffer};
        CHECK_ARGUMENT(ms_replay(stream, recording, &rebind, 1, NULL, 0));
        ms_rescalar rescalar = {bad[i], MS_TYPE_F32, 0, {0}};
        CHECK_ARGUMENT(ms_replay(stream, recording, NULL, 0, &rescalar, 1));
    }
    // A struct of a newer header is fine if what this library does not know is zero.
    struct {
        ms_device_properties known;
        uint64_t unknown;
    } newer = {{0}, 7};
    newer.known.size = sizeof newer;
    CHECK_OK(ms_device_get_properties(device, &newer.known));
    CHECK(newer.known.size == sizeof newer && newer.known.queues > 0 && newer.unknown == 0);
    struct {
        ms_device_options known;
        uint64_t unknown;
    } options = {{0}, 0};
    options.known.size = sizeof options;
    ms_device *other = NULL;
    CHECK_OK(ms_device_open("cpu", &options.known, &other));
    CHECK_OK(ms_device_destroy(other));
    options.unknown = 1;
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, other, ms_device_open("cpu", &options.known, &other));
}

static void kernels_and_launches(void) {
    ms_kernel *made;
    ms_binding_desc binding = {sizeof binding, MS_ACCESS_UPDATE, MS_TYPE_F32, 0, "values"};
    ms_scalar_desc scalar = {sizeof scalar, MS_TYPE_F32, "factor"};
    ms_source source = {0};
    source.size = sizeof source;
    source.kind = MS_SOURCE_KIND_NATIVE;
    source.function = scale;
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "scale";
#define BAD_KERNEL(expected) CHECK_GIVES_NONE(expected, made, ms_kernel_create(client, &desc, &made))
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, made, ms_kernel_create(client, NULL, &made));
    BAD_KERNEL(MS_STATUS_UNSUPPORTED); // no source
    desc.name = NULL;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    desc.name = "scale";
    desc.binding_count = 1; // NULL
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    desc.bindings = &binding;
    desc.scalar_count = 1; // NULL
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    desc.scalars = &scalar;
    desc.source_count = 1; // NULL
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    desc.sources = &source;
    desc.source_count = SIZE_MAX;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    desc.source_count = 1;
    binding.access = 0;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    binding.access = MS_ACCESS_READ;
    binding.dtype = 99;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    binding.dtype = MS_TYPE_F32;
    binding.name = NULL;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    binding.name = "values";
    scalar.dtype = 0;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    scalar.dtype = MS_TYPE_F32;
    source.function = NULL;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    source.kind = 0;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    source.kind = 77;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    source.kind = MS_SOURCE_KIND_WGSL; // no text
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    source.data = "not for the processor";
    BAD_KERNEL(MS_STATUS_UNSUPPORTED);
    source.kind = MS_SOURCE_KIND_SPIRV;
    source.bytes = 3;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);
    source.bytes = 0;
    BAD_KERNEL(MS_STATUS_INVALID_ARGUMENT);

    const ms_cubes cubes = {1, 1, 1};
    ms_argument good[2] = {ms_arg_update(buffer), ms_arg_f32(1)};
    CHECK_ARGUMENT(ms_launch(stream, kernel, cubes, NULL, 2));
    CHECK_ARGUMENT(ms_launch(stream, kernel, cubes, NULL, 0));
    CHECK_ARGUMENT(ms_launch(stream, kernel, cubes, good, 1));
    CHECK_ARGUMENT(ms_launch(stream, kernel, cubes, good, SIZE_MAX));
    CHECK_ARGUMENT(ms_recorder_launch(recorder, kernel, cubes, NULL, 2));
    CHECK_ARGUMENT(ms_recorder_launch(recorder, kernel, cubes, good, 1));
    CHECK_ARGUMENT(ms_recorder_launch(recorder, kernel, cubes, good, SIZE_MAX));
    CHECK_ARGUMENT(ms_launch_with_metadata(stream, kernel, cubes, NULL, 2, NULL, 0));
    CHECK_ARGUMENT(ms_launch_with_metadata(stream, kernel, cubes, good, 1, NULL, 0));
    CHECK_ARGUMENT(ms_launch_with_metadata(stream, kernel, cubes, good, 2, NULL, 1));
    CHECK_ARGUMENT(ms_launch_indirect(stream, kernel, buffer, good, 2)); // 16 bytes are not 3 numbers
    const ms_argument bad[][2] = {
        {ms_arg_read(buffer), ms_arg_f32(1)},    {ms_arg_f32(1), ms_arg_f32(1)},
        {ms_arg_update(buffer), ms_arg_f64(1)},  {ms_arg_update(buffer), ms_arg_read(buffer)},
        {ms_arg_update(buffer), ms_arg_u8(1)},   {ms_arg_update(buffer), ms_arg_scalar_(0)},
        {ms_arg_scalar_(12345), ms_arg_f32(1)},  {ms_arg_update(buffer), ms_arg_parameter(7)},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_ARGUMENT(ms_launch(stream, kernel, cubes, bad[i], 2));
        CHECK_ARGUMENT(ms_launch_with_metadata(stream, kernel, cubes, bad[i], 2, NULL, 0));
        CHECK_ARGUMENT(ms_recorder_launch(recorder, kernel, cubes, bad[i], 2));
    }
    CHECK_ARGUMENT(ms_replay(stream, recording, NULL, 1, NULL, 0));
    CHECK_ARGUMENT(ms_replay(stream, recording, NULL, 0, NULL, 1));
    ms_rescalar rescalar = {sizeof rescalar, MS_TYPE_F32, 0, {0}};
    CHECK_ARGUMENT(ms_replay(stream, recording, NULL, 0, &rescalar, 1));
    rescalar.parameter = UINT64_MAX;
    CHECK_ARGUMENT(ms_replay(stream, recording, NULL, 0, &rescalar, 1));
    ms_rebind rebind = {sizeof rebind, 0, buffer, buffer}; // no parameter of the recording
    CHECK_ARGUMENT(ms_replay(stream, recording, &rebind, 1, NULL, 0));

    // Objects of another device.
    ms_device *other_device = NULL;
    ms_client *other_client = NULL;
    ms_stream *other_stream = NULL;
    CHECK_OK(ms_device_open("cpu", NULL, &other_device));
    CHECK_OK(ms_client_create(other_device, NULL, &other_client));
    CHECK_OK(ms_stream_create(other_client, &other_stream));
    float values[4];
    ms_pending *read;
    CHECK_ARGUMENT(ms_launch(other_stream, kernel, cubes, good, 2));
    CHECK_ARGUMENT(ms_read_into(other_stream, buffer, values, sizeof values));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, read, ms_read(other_stream, buffer, &read));
    CHECK_ARGUMENT(ms_write(other_stream, buffer, values, sizeof values));
    CHECK_ARGUMENT(ms_copy(other_stream, buffer, buffer));
    CHECK_ARGUMENT(ms_replay(other_stream, recording, NULL, 0, NULL, 0));
    CHECK_OK(ms_stream_destroy(other_stream));
    CHECK_OK(ms_client_destroy(other_client));
    CHECK_OK(ms_device_destroy(other_device));

    // A finished recorder.
    ms_recording *again;
    ms_buffer *parameter;
    uint64_t number;
    ms_recorder *finished = NULL;
    CHECK_OK(ms_recorder_create(stream, &finished));
    CHECK_OK(ms_recorder_finish(finished, &again));
    CHECK_OK(ms_recording_destroy(again));
    CHECK_GIVES_NONE(MS_STATUS_TAKEN, again, ms_recorder_finish(finished, &again));
    CHECK_GIVES_NONE(MS_STATUS_TAKEN, parameter, ms_recorder_parameter(finished, 4, &parameter));
    CHECK_STATUS(MS_STATUS_TAKEN, ms_recorder_scalar(finished, MS_TYPE_F32, &number));
    CHECK_STATUS(MS_STATUS_TAKEN, ms_recorder_fill(finished, buffer, values, 4));
    CHECK_OK(ms_recorder_destroy(finished));
}

// Objects of a closed device answer so.
static void closed(void) {
    float values[4] = {0};
    const ms_cubes cubes = {1, 1, 1};
    ms_argument arguments[2] = {ms_arg_update(buffer), ms_arg_f32(1)};
    ms_buffer *new_buffer;
    ms_pending *new_pending;
    ms_close_report report = {0};
    report.size = sizeof report;
    CHECK_OK(ms_device_close(device, MS_FOREVER, &report));
    CHECK(report.drained == 1 && report.tasks_left == 0);
    ms_health health = MS_HEALTH_RUNNING;
    CHECK_OK(ms_device_get_health(device, &health));
    CHECK(health == MS_HEALTH_CLOSED);
    CHECK_STATUS(MS_STATUS_CLOSED, ms_launch(stream, kernel, cubes, arguments, 2));
    CHECK_STATUS(MS_STATUS_CLOSED, ms_write(stream, buffer, values, sizeof values));
    CHECK_STATUS(MS_STATUS_CLOSED, ms_read_into(stream, buffer, values, sizeof values));
    CHECK_GIVES_NONE(MS_STATUS_CLOSED, new_buffer, ms_buffer_create(stream, 4, &new_buffer));
    CHECK_GIVES_NONE(MS_STATUS_CLOSED, new_pending, ms_read(stream, buffer, &new_pending));
    CHECK_GIVES_NONE(MS_STATUS_CLOSED, new_pending, ms_sync(stream, &new_pending));
    ms_profile *new_profile;
    ms_submission_log *new_submissions;
    CHECK_GIVES_NONE(MS_STATUS_CLOSED, new_profile, ms_stream_start_profile(stream, &new_profile));
    CHECK_GIVES_NONE(MS_STATUS_CLOSED, new_profile, ms_client_start_profile(client, NULL, 0, &new_profile));
    CHECK_GIVES_NONE(MS_STATUS_CLOSED, new_profile, ms_device_start_profile(device, &new_profile));
    CHECK_GIVES_NONE(MS_STATUS_CLOSED, new_submissions, ms_device_take_log(device, &new_submissions));
    CHECK_OK(ms_pump(driver, 0, NULL));
}

int main(void) {
    make_all();
    gone_device = device, gone_driver = driver, gone_client = client, gone_stream = stream, gone_buffer = buffer;
    gone_kernel = kernel, gone_pending = pending, gone_recorder = recorder, gone_recording = recording;
    gone_token = token, gone_profile = profile, gone_submissions = submissions;
    destroy_all();
    make_all(); // in the slots of the destroyed ones
    CHECK(device != gone_device && buffer != gone_buffer);
    bad_handles();
    null_outputs();
    memory_and_values();
    sizes();
    kernels_and_launches();
    closed();
    destroy_all();
    puts("every bad argument is a status");
    return 0;
}
