// The C++ header: owners, exceptions, the forms that do not throw, kernels in C++.
#include <atomic>
#include <cstdio>
#include <cstdlib>

// The header of a program may declare the classes without including this one.
namespace millstream {
class kernel;
class recording;
template <typename T> class buffer;
} // namespace millstream
#include <millstream.hpp>

namespace ms = millstream;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: `%s` is false; last error: %s\n", __FILE__, __LINE__, #condition,             \
                         ms_last_error());                                                                             \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

template <typename F> static void check_throws(ms_status code, const char *part, F function) {
    try {
        function();
    } catch (const ms::error &error) {
        CHECK(error.code() == code && std::string(error.what()).find(part) != std::string::npos);
        return;
    }
    CHECK(!"the call throws");
}

static_assert(!std::is_copy_constructible_v<ms::device> && std::is_nothrow_move_constructible_v<ms::device>);
static_assert(!std::is_copy_assignable_v<ms::buffer<float>> && std::is_nothrow_move_assignable_v<ms::buffer<float>>);

// The types of a launch are checked when it is compiled: `refused.cpp` has launches that do not compile.
using typed_builder = decltype(ms::kernel_builder("").reads<float>("").updates<int>("").scalar<float>(""));
using typed_kernel = decltype(std::declval<typed_builder>().build(std::declval<ms::client>()));
template <typename... Arguments> constexpr bool takes() { return ms::accepts<typed_kernel, Arguments...>; }
using reads_float = ms::bound<float, MS_ACCESS_READ>;
static_assert(takes<reads_float, ms::buffer<int>, float>());
static_assert(takes<reads_float, ms::bound<int, MS_ACCESS_UPDATE>, ms::parameter>());
static_assert(takes<ms_argument, ms_argument, ms_argument>());
static_assert(!takes<reads_float, ms::buffer<float>, float>()); // other elements
static_assert(!takes<ms::bound<unsigned, MS_ACCESS_READ>, ms::buffer<int>, float>());
static_assert(!takes<ms::buffer<float>, ms::buffer<int>, float>()); // another access
static_assert(!takes<reads_float, ms::buffer<int>, double>()); // another scalar
static_assert(!takes<reads_float, ms::buffer<int>>() && !takes<>()); // another number of arguments
static_assert(ms::accepts<ms::kernel, int>); // a kernel without types

static void owners_move() {
    auto device = ms::device::open("cpu");
    ms::client client(device);
    ms::stream stream(client);
    auto a = stream.create<int>({1, 2, 3});
    ms_buffer *handle = a.get();
    auto b = std::move(a);
    CHECK(!a && b.get() == handle);
    check_throws(MS_STATUS_INVALID_HANDLE, "NULL", [&] { a.size(); });
    b = stream.create<int>({4}); // destroys the first
    std::size_t bytes = 0;
    CHECK(ms_buffer_get_bytes(handle, &bytes) == MS_STATUS_INVALID_HANDLE);
    CHECK(b.size() == 1 && stream.read(b).get() == std::vector<int>{4});
    CHECK(device.health() == MS_HEALTH_RUNNING && !device.name().empty() && device.properties().queues > 0);
    CHECK(device.metrics().find("millstream_slices 1\n") != std::string::npos && device.memory().buffers == 1);
    device.close(std::chrono::seconds(10));
    CHECK(device.health() == MS_HEALTH_CLOSED);
    check_throws(MS_STATUS_CLOSED, "closed", [&] { stream.fill(b, 1); });
    CHECK(stream.try_fill(b, 1) == MS_STATUS_CLOSED);
    check_throws(MS_STATUS_CLOSED, "closed", [&] { ms::stream late(client); });
}

static void errors_are_exceptions_or_statuses() {
    check_throws(MS_STATUS_INVALID_ARGUMENT, "gpu", [] { ms::device::open("gpu"); });
    ms::device device;
    CHECK(ms::device::try_open("gpu", ms::device_options(), device) == MS_STATUS_INVALID_ARGUMENT && !device);
    CHECK(ms::device::try_open("sim", ms::device_options(), device) == MS_STATUS_OK && device);
    ms::client client(device);
    ms::stream stream(client);
    auto throwing = ms::kernel_builder("throws").writes<float>("out").native([](const ms::cube &cube) {
        (void)cube.share<float>(1); // there is none
    });
    auto kernel = throwing.build(client);
    auto out = stream.empty<float>(8);
    stream.launch(kernel, {2, 1, 1}, write(out));
    check_throws(MS_STATUS_FAILED, "no such buffer", [&] { stream.read(out).get(); });
    // What no type says is checked by the launch.
    const ms::kernel &any = kernel;
    check_throws(MS_STATUS_INVALID_ARGUMENT, "takes 1 buffers", [&] { stream.launch(any, {1, 1, 1}); });
    CHECK(stream.try_launch(any, {1, 1, 1}, 1.0f) == MS_STATUS_INVALID_ARGUMENT);
    check_throws(MS_STATUS_INVALID_ARGUMENT, "`ms_arg_write`", [&] { stream.launch(any, {1, 1, 1}, read(out)); });
    check_throws(MS_STATUS_INVALID_ARGUMENT, "", [&] { (void)out.slice(SIZE_MAX / 2, SIZE_MAX / 2); });
    check_throws(MS_STATUS_INVALID_ARGUMENT, "", [&] { (void)out.slice(std::size_t(1) << 62, std::size_t(1) << 62); });
    ms::recorder recorder(stream);
    CHECK(recorder.parameter<float>(4).size() == 4);
    check_throws(MS_STATUS_TOO_LARGE, "", [&] { (void)stream.empty<float>((std::size_t(1) << 62) + 1); });
    ms::kernel none;
    CHECK(ms::kernel_builder("none").text(MS_SOURCE_KIND_WGSL, "x").try_build(client, none) == MS_STATUS_UNSUPPORTED);
}

static void a_client_fails_or_waits_at_its_limit() {
    auto device = ms::device::open("cpu");
    auto options = ms::client_options();
    options.hard_limit = 1000;
    for (const ms_at_limit at_limit : {MS_AT_LIMIT_FAIL, MS_AT_LIMIT_WAIT}) {
        options.at_limit = at_limit;
        ms::client client(device, options);
        ms::stream stream(client);
        check_throws(MS_STATUS_TOO_LARGE, "`ms_client_options`", [&] { (void)stream.empty<char>(1001); });
        auto held = stream.empty<char>(600);
        const ms_status now = at_limit == MS_AT_LIMIT_WAIT ? MS_STATUS_BUSY : MS_STATUS_OUT_OF_MEMORY;
        check_throws(now, "`ms_buffer_destroy`", [&] { (void)stream.nowait().empty<char>(600); });
        auto late = stream.with_deadline(std::chrono::milliseconds(1));
        check_throws(now, "`ms_buffer_destroy`", [&] { (void)late.empty<char>(600); });
        held.reset();
        held = stream.empty<char>(1000);
    }
}

static std::atomic<int> live{0};

struct counted {
    counted() { live++; }
    counted(const counted &) { live++; }
    ~counted() { live--; }
};

static void kernels_recordings_and_callbacks() {
    {
        auto [device, driver] = ms::driver::open("cpu");
        ms::client client(device);
        ms::stream stream(client);
        auto axpy = ms::kernel_builder("axpy")
                        .reads<float>("x")
                        .updates<float>("y")
                        .scalar<float>("a")
                        .native([alive = counted()](const ms::cube &cube) {
                            const float *x = cube.all<float>(0).begin() + cube.share_start<float>(1);
                            for (float &y : cube.share<float>(1)) {
                                y += cube.scalar<float>(0) * *x++;
                            }
                        })
                        .build(client);
        CHECK(live == 1);
        auto x = stream.create(std::vector<float>(100, 1.0f)), y = stream.create(std::vector<float>(100, 0.5f));
        stream.launch(axpy, {3, 1, 1}, read(x), y, 2.0f);
        CHECK(stream.read(y.slice(99, 1)).get() == std::vector<float>{2.5f});

        ms::recorder recorder(stream);
        auto target = recorder.parameter<float>(100);
        auto a = recorder.scalar<float>();
        recorder.fill(target, 1.0f);
        recorder.launch(axpy, {3, 1, 1}, read(x), update(target), a);
        auto recording = recorder.finish();
        stream.replay(recording, ms::replay_args().bind(target, y).set(a, 3.0f));
        CHECK(stream.read(y).get() == std::vector<float>(100, 4.0f));

        std::atomic<int> called{0};
        auto answer = stream.read(y);
        answer.on_ready([&called, alive = counted()](ms_status status, const void *data, std::size_t bytes) {
            CHECK(status == MS_STATUS_OK && bytes == 400 && *static_cast<const float *>(data) == 4.0f);
            called++;
        });
        CHECK(answer.try_on_ready([alive = counted()](ms_status, const void *, std::size_t) {}) == MS_STATUS_TAKEN);
        auto sync = stream.sync();
        while (!sync.ready() || called == 0) {
            driver.pump(std::chrono::milliseconds(1));
        }
        CHECK(called == 1 && sync.wait_for(std::chrono::seconds(0)));
    }
    CHECK(live == 0); // the closures of the kernel and of the callbacks
}

static void requests_profiles_and_logs() {
    auto options = ms::device_options();
    options.log_submissions = 1 << 20;
    auto opened = ms::driver::open("cpu", options);
    const ms::device &device = opened.first;
    ms::client client(device);
    ms::stream stream(client);
    auto words = stream.create(std::vector<unsigned>(16, 0));
    auto token = ms::cancel_token::create();
    auto request = stream.with_cancel(token);
    {
        ms::cancel_guard kept(token);
        kept.disarm();
    }
    CHECK(!token.is_cancelled());
    request.fill(words, 1u);
    {
        ms::cancel_guard guard(token);
    }
    CHECK(token.is_cancelled() && token.cancel().accepted == 1 && request.tally().waiting == 1);
    check_throws(MS_STATUS_CANCELLED, "cancel", [&] { stream.read(words).get(); });
    check_throws(MS_STATUS_INVALID_ARGUMENT, "neither a token", [&] { stream.tally(); });
    stream.fill(words, 0u);

    auto copy_metadata = [](const ms::cube &cube) {
        const ms_launch_args &args = cube.args();
        for (std::size_t i = 0; i < args.metadata_count; i++) {
            cube.all<unsigned>(0)[i] = args.metadata[i];
        }
    };
    auto kernel = ms::kernel_builder("metadata").updates<unsigned>("words").native(copy_metadata).build(client);
    auto tensors = ms::metadata().input({2, 3}, {3, 1}, 6);
    auto profile = stream.start_profile(), of_client = client.start_profile(), of_device = device.start_profile();
    stream.launch(kernel, {1, 1, 1}, tensors, words);
    check_throws(MS_STATUS_INVALID_ARGUMENT, "not ended", [&] { profile.summary(); });
    profile.end();
    of_client.end();
    CHECK(profile.try_end() == MS_STATUS_TAKEN && !profile.ready());
    auto got = stream.read(words).get();
    CHECK(got[0] == 2 && got[1] == 6 && got[3] == 5 && got[8] == 1 && got[9] == 0);
    profile.wait();
    of_client.wait();
    CHECK(profile.ready() && profile.summary().tasks == 1 && of_client.summary().tasks == 1);
    CHECK(profile.entries()[0].name == "metadata" && profile.entries()[0].timed == 1);
    CHECK(profile.text().find("metadata") != std::string::npos);

    auto log = device.take_log();
    stream.fill(words, 9u);
    CHECK(stream.read(words).get()[15] == 9);
    log.append(device.take_log());
    CHECK(log.info().is_complete == 1 && log.info().last_part == 1);
    const auto file = log.encode();
    auto again = ms::submission_log::decode(file.data(), file.size());
    CHECK(again.info().entries == log.info().entries);
    int readbacks = 0, failed = 0;
    auto count = [&](ms_status status, const void *, std::size_t) { status == MS_STATUS_OK ? readbacks++ : failed++; };
    const auto digest = client.resubmit(again, {kernel.get()}, count);
    CHECK(readbacks == 2 && failed == 1 && client.resubmit(log, {kernel.get()}, count) == digest);
    check_throws(MS_STATUS_INVALID_ARGUMENT, "not a submission log", [] { ms::submission_log::decode("no", 2); });
    check_throws(MS_STATUS_UNSUPPORTED, "CUDA", [&] { device.cuda(); });
    check_throws(MS_STATUS_UNSUPPORTED, "", [&] { ms::vulkan_buffer shared(stream, words, 1); });
    check_throws(MS_STATUS_UNSUPPORTED, "", [&] { ms::vulkan_point point(stream, {ms::read(words)}); });
    // A task that is not added leaves its function to its owner.
    auto alive = counted();
    const int before = live;
    check_throws(MS_STATUS_UNSUPPORTED, "", [&] {
        ms::vulkan_record(stream, "task", {ms::read(words)}, [alive](const ms_vulkan_task &) {});
    });
    check_throws(MS_STATUS_UNSUPPORTED, "", [&] {
        ms::cuda_submit(stream, "task", {ms::read(words)}, [alive](const ms_cuda_task &) {});
    });
    check_throws(MS_STATUS_UNSUPPORTED, "", [&] { ms::vulkan_wait(stream, {ms::read(words)}, &alive, 1, alive); });
    CHECK(live == before);
}

int main() {
    owners_move();
    errors_are_exceptions_or_statuses();
    a_client_fails_or_waits_at_its_limit();
    kernels_recordings_and_callbacks();
    requests_profiles_and_logs();
    std::puts("the C++ header wraps the interface");
}
