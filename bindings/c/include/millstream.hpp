// millstream for C++17: move-only owners of the handles of millstream.h, whose comments apply here too.
//
// Errors: a function throws `millstream::error`; its twin `try_..` answers an `ms_status` instead, does not throw, and
// gives its result by its last argument. Destructors never throw.
//
// An owner that was moved from, or default-constructed, is empty: calls with it answer `MS_STATUS_INVALID_HANDLE`.
// `get()` is the handle, for functions of millstream.h that have no form here.
//
//     auto device = millstream::device::open("cpu");
//     millstream::client client(device);
//     millstream::stream stream(client);
//     auto twice = millstream::kernel_builder("twice").updates<float>("values").native([](const auto &cube) {
//         for (float &value : cube.template share<float>(0)) value *= 2;
//     }).build(client);
//     auto values = stream.create<float>({1, 2, 3});
//     stream.launch(twice, {1, 1, 1}, values);
//     std::vector<float> result = stream.read(values).get();
#ifndef MILLSTREAM_HPP
#define MILLSTREAM_HPP

#include "millstream.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace millstream {

// Why a call failed. `code()` tells what to do, `what()` what happened.
class error : public std::runtime_error {
  public:
    error(ms_status code, const char *text) : std::runtime_error(text), code_(code) {}
    ms_status code() const noexcept { return code_; }

  private:
    ms_status code_;
};

// Throws if a call failed. For functions of millstream.h that have no form here.
inline void check(ms_status status) {
    if (status != MS_STATUS_OK) {
        throw error(status, ms_last_error());
    }
}

// The owner of a handle.
template <typename Handle, ms_status (*Destroy)(Handle *)> class owner {
  public:
    owner() noexcept = default;
    explicit owner(Handle *handle) noexcept : handle_(handle) {}
    owner(owner &&other) noexcept : handle_(other.release()) {}
    owner &operator=(owner &&other) noexcept {
        owner taken(std::move(other));
        std::swap(handle_, taken.handle_);
        return *this;
    }
    ~owner() { reset(); }

    Handle *get() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_ != nullptr; }
    // Gives the handle to the caller, who destroys it.
    Handle *release() noexcept { return std::exchange(handle_, nullptr); }
    // Destroys the handle.
    void reset() noexcept { (void)Destroy(release()); }
    // Destroys the handle, and is where a function writes another.
    Handle **out() noexcept {
        reset();
        return &handle_;
    }

  private:
    Handle *handle_ = nullptr;
};

namespace detail {
// The bytes of `count` elements, or more than any memory has if they overflow.
template <typename T> constexpr std::size_t bytes_of(std::size_t count) {
    return count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
}

template <typename T> constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <typename T> constexpr ms_type type_of() {
    static_assert(is_number<T> && sizeof(T) <= 8, "an element is a number of at most 8 bytes");
    if (std::is_floating_point_v<T>) {
        return sizeof(T) == 8 ? MS_TYPE_F64 : MS_TYPE_F32;
    }
    switch (sizeof(T)) {
    case 8: return std::is_signed_v<T> ? MS_TYPE_I64 : MS_TYPE_U64;
    case 4: return std::is_signed_v<T> ? MS_TYPE_I32 : MS_TYPE_U32;
    case 2: return std::is_signed_v<T> ? MS_TYPE_I16 : MS_TYPE_U16;
    default: return std::is_signed_v<T> ? MS_TYPE_I8 : MS_TYPE_U8;
    }
}

// Zeros; of a struct of the C interface with its size set.
template <typename T> T zeroed() {
    T value;
    std::memset(&value, 0, sizeof value);
    if constexpr (std::is_class_v<T>) {
        value.size = static_cast<std::uint32_t>(sizeof value);
    }
    return value;
}

// The object that a function makes, by its last argument.
template <typename Owner, typename F, typename... Args> Owner made(F function, Args... args) {
    Owner object;
    check(function(args..., object.out()));
    return object;
}

// What a function reports by its last argument: a struct, a number or a pointer.
template <typename... Parameters, typename... Args> auto reported(ms_status (*function)(Parameters...), Args... args) {
    auto value = zeroed<std::remove_pointer_t<std::tuple_element_t<sizeof...(Args), std::tuple<Parameters...>>>>();
    check(function(args..., &value));
    return value;
}

template <typename T> ms_value value_of(T value) {
    ms_value result{};
    std::memcpy(&result, &value, sizeof value);
    return result;
}

// The bytes that a function copies, whatever their number.
template <typename Bytes, typename Handle, typename F> Bytes copied(const Handle *handle, F function) {
    for (std::size_t needed = 192;;) {
        Bytes bytes(needed + 64, 0); // they may be more than the last time
        const ms_status status = function(handle, bytes.data(), bytes.size(), &needed);
        if (status != MS_STATUS_TOO_SMALL) {
            check(status);
            bytes.resize(needed);
            return bytes;
        }
    }
}
// The text that a function copies, without its NUL.
template <typename Handle, typename F> std::string text_of(const Handle *handle, F function) {
    std::string text = copied<std::string>(handle, function);
    text.pop_back();
    return text;
}

// Passes a value to `call(T *)`, which owns it if it succeeds.
template <typename T, typename F> ms_status give(T value, F call) {
    auto owned = std::make_unique<T>(std::move(value));
    const ms_status status = call(owned.get());
    if (status == MS_STATUS_OK) {
        (void)owned.release();
    }
    return status;
}
template <typename T> void drop(void *user) noexcept { delete static_cast<T *>(user); }

// Whether an answer has arrived, by the status of the call that asked.
inline bool arrived(ms_status status) {
    if (status == MS_STATUS_PENDING || status == MS_STATUS_TIMED_OUT) {
        return false;
    }
    check(status);
    return true;
}

inline std::uint64_t nanoseconds(std::chrono::nanoseconds time) {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

// How to adopt what an engine has created.
constexpr auto adopt_of(const ms_vulkan_device &) { return ms_device_adopt_vulkan; }
constexpr auto adopt_of(const ms_cuda_context &) { return ms_device_adopt_cuda; }
} // namespace detail

// Options of a device, to be changed and passed to `device::open`.
inline ms_device_options device_options() { return detail::zeroed<ms_device_options>(); }
// Options of a client.
inline ms_client_options client_options() { return detail::zeroed<ms_client_options>(); }

// A pending answer without a value.
class pending : public owner<ms_pending, ms_pending_destroy> {
  public:
    using owner::owner;

    void wait() const { check(try_wait()); }
    [[nodiscard]] ms_status try_wait(std::uint64_t timeout_ns = MS_FOREVER) const noexcept {
        return ms_pending_wait(get(), timeout_ns);
    }
    // Blocks until the answer has arrived, or the timeout has elapsed: then false.
    bool wait_for(std::chrono::nanoseconds timeout) const { return detail::arrived(try_wait(detail::nanoseconds(timeout))); }
    bool ready() const { return detail::arrived(try_poll()); }
    [[nodiscard]] ms_status try_poll() const noexcept { return ms_pending_poll(get()); }

    // Calls `function(ms_status, const void *data, size_t bytes)` with the answer, once, on any thread. An exception of
    // the function ends the program.
    template <typename F> void on_ready(F function) const { check(try_on_ready(std::move(function))); }
    template <typename F> [[nodiscard]] ms_status try_on_ready(F function) const {
        auto call = [](ms_status status, const void *data, std::size_t bytes, void *user) noexcept {
            std::unique_ptr<F> function(static_cast<F *>(user));
            (*function)(status, data, bytes);
        };
        return detail::give(std::move(function), [&](F *user) { return ms_pending_on_ready(get(), call, user); });
    }
};

// A pending readback of elements of T.
template <typename T> class readback : public pending {
  public:
    using pending::pending;

    // Blocks until the elements have arrived, and copies them.
    std::vector<T> get() const {
        wait();
        const T *elements = nullptr;
        std::size_t count = 0;
        check(try_view(elements, count));
        return std::vector<T>(elements, elements + count);
    }
    // The elements, without a copy, once they have arrived; valid as long as this owner is.
    [[nodiscard]] ms_status try_view(const T *&elements, std::size_t &count) const noexcept {
        const void *data = nullptr;
        std::size_t bytes = 0;
        const ms_status status = ms_pending_data(pending::get(), &data, &bytes);
        elements = static_cast<const T *>(data);
        count = bytes / sizeof(T);
        return status;
    }
};

// Measures tasks between its start and its end. Destroying an open one ends it.
class profile : public owner<ms_profile, ms_profile_destroy> {
  public:
    using owner::owner;

    // All tasks of one name. Times are in nanoseconds.
    struct entry {
        std::string name;
        std::uint64_t tasks, timed, total_ns, min_ns, max_ns;
    };

    void end() const { check(try_end()); }
    [[nodiscard]] ms_status try_end() const noexcept { return ms_profile_end(get()); }
    void wait() const { check(try_wait()); }
    [[nodiscard]] ms_status try_wait(std::uint64_t timeout_ns = MS_FOREVER) const noexcept {
        return ms_profile_wait(get(), timeout_ns);
    }
    bool ready() const { return detail::arrived(ms_profile_poll(get())); }
    ms_profile_summary summary() const { return detail::reported(ms_profile_get_summary, get()); }
    // The tasks by name, the longest total first.
    std::vector<entry> entries() const {
        std::vector<entry> all(static_cast<std::size_t>(summary().entries));
        for (std::size_t index = 0; index < all.size(); index++) {
            const ms_profile_entry one = detail::reported(ms_profile_get_entry, get(), index);
            all[index] = {one.name, one.tasks, one.timed, one.total_ns, one.min_ns, one.max_ns};
        }
        return all;
    }
    std::string text() const { return detail::text_of(get(), ms_profile_get_text); }
};

// What a device has accepted, to be saved and run again.
class submission_log : public owner<ms_submission_log, ms_submission_log_destroy> {
  public:
    using owner::owner;

    // The log in its file format.
    std::vector<unsigned char> encode() const {
        return detail::copied<std::vector<unsigned char>>(get(), ms_submission_log_encode);
    }
    static submission_log decode(const void *data, std::size_t bytes) {
        return detail::made<submission_log>(ms_submission_log_decode, data, bytes);
    }
    ms_submission_log_info info() const { return detail::reported(ms_submission_log_get_info, get()); }
    void append(const submission_log &next) const { check(ms_submission_log_append(get(), next.get())); }
    void accept_cut() const { check(ms_submission_log_accept_cut(get())); }
};

// Withdraws tasks that have not begun.
class cancel_token : public owner<ms_cancel_token, ms_cancel_token_destroy> {
  public:
    using owner::owner;
    static cancel_token create() { return detail::made<cancel_token>(ms_cancel_token_create); }

    ms_tally cancel() const { return detail::reported(ms_cancel_token_cancel, get()); }
    [[nodiscard]] ms_status try_cancel() const noexcept { return ms_cancel_token_cancel(get(), nullptr); }
    bool is_cancelled() const { return detail::reported(ms_cancel_token_is_cancelled, get()); }
    ms_tally tally() const { return detail::reported(ms_cancel_token_get_tally, get()); }
};

// Cancels a token at the end of its scope, also by an exception, unless it is disarmed. The token outlives it.
class cancel_guard {
  public:
    explicit cancel_guard(const cancel_token &token) noexcept : token_(&token) {}
    cancel_guard(const cancel_guard &) = delete;
    cancel_guard &operator=(const cancel_guard &) = delete;
    ~cancel_guard() {
        if (token_ != nullptr) {
            (void)token_->try_cancel();
        }
    }
    void disarm() noexcept { token_ = nullptr; }

  private:
    const cancel_token *token_;
};

// A device.
class device : public owner<ms_device, ms_device_destroy> {
  public:
    using owner::owner;

    static device open(const char *backend, const ms_device_options &options = device_options()) {
        return detail::made<device>(ms_device_open, backend, &options);
    }
    [[nodiscard]] static ms_status try_open(const char *backend, const ms_device_options &options,
                                            device &out) noexcept {
        return ms_device_open(backend, &options, out.out());
    }

    void close(std::chrono::nanoseconds timeout) const {
        check(ms_device_close(get(), detail::nanoseconds(timeout), nullptr));
    }
    ms_health health() const { return detail::reported(ms_device_get_health, get()); }
    ms_device_properties properties() const { return detail::reported(ms_device_get_properties, get()); }
    ms_memory_usage memory() const { return detail::reported(ms_device_get_memory, get()); }
    std::string name() const { return detail::text_of(get(), ms_device_get_name); }
    std::string metrics() const { return detail::text_of(get(), ms_device_get_metrics); }
    pending sync() const { return detail::made<pending>(ms_device_sync, get()); }
    profile start_profile() const { return detail::made<profile>(ms_device_start_profile, get()); }
    submission_log take_log() const { return detail::made<submission_log>(ms_device_take_log, get()); }
    ms_cuda_handles cuda() const { return detail::reported(ms_device_get_cuda, get()); }
    void *cuda_stream(std::size_t queue) const { return detail::reported(ms_device_get_cuda_stream, get(), queue); }

    // Opens a device on what an engine has created: an `ms_vulkan_device` or an `ms_cuda_context`.
    template <typename Adopted>
    static device adopt(const Adopted &adopted, const ms_device_options &options = device_options()) {
        device opened;
        check(detail::adopt_of(adopted)(&adopted, &options, opened.out(), nullptr));
        return opened;
    }
};

// Runs a driven device.
class driver : public owner<ms_driver, ms_driver_destroy> {
  public:
    using owner::owner;

    template <typename Adopted>
    static std::pair<device, driver> adopt(const Adopted &adopted,
                                           const ms_device_options &options = device_options()) {
        std::pair<device, driver> opened;
        check(detail::adopt_of(adopted)(&adopted, &options, opened.first.out(), opened.second.out()));
        return opened;
    }
    static std::pair<device, driver> open(const char *backend, const ms_device_options &options = device_options()) {
        std::pair<device, driver> opened;
        check(ms_device_open_driven(backend, &options, opened.first.out(), opened.second.out()));
        return opened;
    }

    // Runs the device on this thread. True if there may be more to do.
    bool pump(std::chrono::nanoseconds budget) const {
        return detail::reported(ms_pump, get(), detail::nanoseconds(budget));
    }
    [[nodiscard]] ms_status try_pump(std::chrono::nanoseconds budget, bool &more) const noexcept {
        return ms_pump(get(), detail::nanoseconds(budget), &more);
    }
};

// A client of a device.
class client : public owner<ms_client, ms_client_destroy> {
  public:
    using owner::owner;
    explicit client(const device &of, const ms_client_options &options = client_options()) {
        check(ms_client_create(of.get(), &options, out()));
    }
    pending sync() const { return detail::made<pending>(ms_client_sync, get()); }
    profile start_profile() const { return detail::made<profile>(ms_client_start_profile, get(), nullptr, 0); }
    // Runs the tasks of a log again. Each readback goes to `function(ms_status, const void *data, size_t bytes)`, on this
    // thread; its exceptions end the program. Throws, and submits nothing, if the log has more than `tasks_max` tasks (0 is
    // the default, 2^30). Returns the digest of the readbacks.
    template <typename F>
    std::uint64_t resubmit(const submission_log &log, const std::vector<const ms_kernel *> &kernels,
                           F function, std::uint64_t tasks_max = 0) const {
        auto call = [](ms_status status, const void *data, std::size_t bytes, void *user) noexcept {
            (*static_cast<F *>(user))(status, data, bytes);
        };
        std::uint64_t digest = 0;
        check(ms_resubmit(get(), log.get(), kernels.data(), kernels.size(), tasks_max, call, &function, &digest));
        return digest;
    }
};

// A buffer of elements of T, which is trivially copyable. Kernels take numbers only.
template <typename T> class buffer : public owner<ms_buffer, ms_buffer_destroy> {
    static_assert(std::is_trivially_copyable_v<T>, "an element is bytes");

  public:
    using owner::owner;

    // The number of elements.
    std::size_t size() const { return detail::reported(ms_buffer_get_bytes, get()) / sizeof(T); }
    // A part of the buffer, in elements. Both share memory.
    buffer slice(std::size_t start, std::size_t count) const {
        return detail::made<buffer>(ms_buffer_slice, get(), detail::bytes_of<T>(start), detail::bytes_of<T>(count));
    }
};

// A buffer as an argument, with its type.
template <typename T, ms_access Access> struct bound : ms_argument {
    explicit bound(const ms_argument &argument) : ms_argument(argument) {}
};

// Arguments of launches: numbers are scalars, a buffer alone is read and written.
template <typename T> auto read(const buffer<T> &buffer) { return bound<T, MS_ACCESS_READ>(ms_arg_read(buffer.get())); }
template <typename T> auto write(const buffer<T> &buffer) { return bound<T, MS_ACCESS_WRITE>(ms_arg_write(buffer.get())); }
template <typename T> auto update(const buffer<T> &buffer) { return bound<T, MS_ACCESS_UPDATE>(ms_arg_update(buffer.get())); }
inline ms_argument argument(const ms_argument &argument) { return argument; }
template <typename T> ms_argument argument(const buffer<T> &buffer) { return update(buffer); }
template <typename T> std::enable_if_t<detail::is_number<T>, ms_argument> argument(T scalar) {
    return {sizeof(ms_argument), detail::type_of<T>(), detail::value_of(scalar)};
}

// A part of a buffer in a running kernel.
template <typename T> struct span {
    T *first;
    std::size_t count;
    T *begin() const noexcept { return first; }
    T *end() const noexcept { return first + count; }
    std::size_t size() const noexcept { return count; }
    T &operator[](std::size_t index) const noexcept { return first[index]; }
};

// What a kernel in C++ receives: one cube of a launch.
class cube {
  public:
    explicit cube(const ms_launch_args &args) noexcept : args_(&args) {}
    const ms_launch_args &args() const noexcept { return *args_; }
    // This cube's share of a buffer, of which no other cube has a part.
    template <typename T> span<T> share(std::size_t binding) const {
        const ms_span &all = at(binding);
        return {reinterpret_cast<T *>(static_cast<char *>(all.data) + all.share_start), all.share_bytes / sizeof(T)};
    }
    // The index in the buffer of the first element of this cube's share.
    template <typename T> std::size_t share_start(std::size_t binding) const {
        return at(binding).share_start / sizeof(T);
    }
    // All of a buffer.
    template <typename T> span<T> all(std::size_t binding) const {
        return {static_cast<T *>(at(binding).data), at(binding).bytes / sizeof(T)};
    }
    template <typename T> T scalar(std::size_t index) const {
        if (index >= args_->scalar_count) {
            throw std::out_of_range("the kernel declares no such scalar");
        }
        T value;
        std::memcpy(&value, &args_->scalars[index], sizeof value);
        return value;
    }

  private:
    const ms_span &at(std::size_t binding) const {
        if (binding >= args_->binding_count) {
            throw std::out_of_range("the kernel declares no such buffer");
        }
        return args_->bindings[binding];
    }
    const ms_launch_args *args_;
};

// A kernel.
class kernel : public owner<ms_kernel, ms_kernel_destroy> {
  public:
    using owner::owner;
};

// The number of a scalar parameter of a recording.
struct parameter {
    std::uint64_t number = 0;
    std::uint32_t type = 0;
};
inline ms_argument argument(const parameter &parameter) { return ms_arg_parameter(parameter.number); }

namespace detail {

// A binding or a scalar of a kernel.
struct declared {
    std::string name;
    std::uint32_t access, type;
};

// A kernel as its builder declares it.
struct kernel_parts {
    using function = std::function<void(const cube &)>;

    std::string name;
    std::vector<declared> bindings, scalars;
    std::vector<function> functions;
    std::vector<std::pair<std::uint32_t, std::string>> texts;
    std::array<std::uint32_t, 3> threads = {0, 0, 0};

    ms_status make(const ms_client *client, ms_kernel **out) const {
        std::vector<ms_binding_desc> binding_descs;
        for (const declared &one : bindings) {
            binding_descs.push_back({sizeof(ms_binding_desc), one.access, one.type, 0, one.name.c_str()});
        }
        std::vector<ms_scalar_desc> scalar_descs;
        for (const declared &one : scalars) {
            scalar_descs.push_back({sizeof(ms_scalar_desc), one.type, one.name.c_str()});
        }
        std::vector<std::unique_ptr<function>> owned;
        std::vector<ms_source> sources;
        for (const function &native : functions) {
            owned.push_back(std::make_unique<function>(native));
            void *user = owned.back().get();
            sources.push_back({sizeof(ms_source), MS_SOURCE_KIND_NATIVE, nullptr, 0, call, user, drop<function>});
        }
        for (const auto &[kind, text] : texts) {
            sources.push_back({sizeof(ms_source), kind, text.data(), text.size(), nullptr, nullptr, nullptr});
        }
        const ms_kernel_desc desc = {sizeof(ms_kernel_desc), 0, name.c_str(), binding_descs.data(), binding_descs.size(),
                                     scalar_descs.data(), scalar_descs.size(), sources.data(), sources.size(),
                                     {threads[0], threads[1], threads[2]}, 0, 0, 0};
        const ms_status status = ms_kernel_create(client, &desc, out);
        for (auto &function : owned) {
            if (status == MS_STATUS_OK) {
                (void)function.release(); // the kernel owns it
            }
        }
        return status;
    }
    static void call(const ms_launch_args *args, void *user) noexcept {
        try {
            (*static_cast<function *>(user))(cube(*args));
        } catch (const std::exception &thrown) {
            (void)ms_launch_fail(args, thrown.what());
        } catch (...) {
            (void)ms_launch_fail(args, "the kernel threw what is no std::exception");
        }
    }
};

// What a kernel declares: a buffer of T with an access, or a scalar of T.
template <typename T, ms_access Access> struct binding_of {};
template <typename T> struct scalar_of {};

// Whether an argument fits a declaration. One of C's, which has no type, is checked by the launch, as is the type of a
// parameter of a recording.
template <typename Declared, typename Argument> struct fits : std::false_type {};
template <typename T, ms_access Access> struct fits<binding_of<T, Access>, bound<T, Access>> : std::true_type {};
template <typename T> struct fits<binding_of<T, MS_ACCESS_UPDATE>, buffer<T>> : std::true_type {};
template <typename T, ms_access Access> struct fits<binding_of<T, Access>, ms_argument> : std::true_type {};
template <typename T> struct fits<scalar_of<T>, ms_argument> : std::true_type {};
template <typename T> struct fits<scalar_of<T>, parameter> : std::true_type {};
template <typename T, typename Number>
constexpr bool is_same_number = is_number<Number> && sizeof(T) == sizeof(Number) &&
                                std::is_floating_point_v<T> == std::is_floating_point_v<Number> &&
                                std::is_signed_v<T> == std::is_signed_v<Number>;
template <typename T, typename Number>
struct fits<scalar_of<T>, Number> : std::bool_constant<is_same_number<T, Number>> {};

template <typename Declared, typename Given> struct all_fit;
template <typename... Declared, typename... Given>
struct all_fit<std::tuple<Declared...>, std::tuple<Given...>> : std::conjunction<fits<Declared, Given>...> {};

} // namespace detail

// A kernel whose launches are checked when they are compiled: the number of its arguments, the elements and accesses of
// its buffers, and the types of its scalars. Move it to a `kernel` to have launches checked when they run.
template <typename... Declared> class typed_kernel : public kernel {
  public:
    using kernel::kernel;
};

namespace detail {

template <typename Kernel, typename... Given> struct accepts : std::true_type {};
template <typename... Declared, typename... Given>
struct accepts<typed_kernel<Declared...>, Given...>
    : std::conjunction<std::bool_constant<sizeof...(Declared) == sizeof...(Given)>,
                       all_fit<std::tuple<Declared...>, std::tuple<Given...>>> {};

} // namespace detail

// Whether a kernel takes arguments of these types, such as `buffer<float>` and `float`, as far as that is known when a
// program is compiled.
template <typename Kernel, typename... Arguments>
constexpr bool accepts = detail::accepts<Kernel, Arguments...>::value;

namespace detail {
// The arguments of a launch, and one more, since an array has at least one element.
template <typename Kernel, typename... Arguments>
std::array<ms_argument, sizeof...(Arguments) + 1> packed(const Arguments &...arguments) {
    static_assert(millstream::accepts<Kernel, Arguments...>, "the arguments are those that the kernel declares");
    return {argument(arguments)..., ms_argument{}};
}
} // namespace detail

// Declares a kernel: its buffers, then its scalars, in the order of its launches, and its sources. Each declaration
// returns another builder, whose type has it.
template <typename... Declared> class kernel_builder {
  public:
    explicit kernel_builder(std::string name) { parts_.name = std::move(name); }

    template <typename T> [[nodiscard]] auto reads(std::string name) const { return binding<T, MS_ACCESS_READ>(name); }
    template <typename T> [[nodiscard]] auto writes(std::string name) const { return binding<T, MS_ACCESS_WRITE>(name); }
    template <typename T> [[nodiscard]] auto updates(std::string name) const {
        return binding<T, MS_ACCESS_UPDATE>(std::move(name));
    }
    template <typename T> [[nodiscard]] auto scalar(std::string name) const {
        kernel_builder<Declared..., detail::scalar_of<T>> more(parts_);
        more.parts_.scalars.push_back({std::move(name), MS_ACCESS_READ, detail::type_of<T>()});
        return more;
    }
    // A function `void(const millstream::cube &)` for the processor. It is called on several threads at once. An
    // exception makes the launch fail with its text.
    kernel_builder &native(std::function<void(const cube &)> function) {
        parts_.functions.push_back(std::move(function));
        return *this;
    }
    // A text of one of the kinds CUDA C, PTX and WGSL.
    kernel_builder &text(ms_source_kind kind, std::string text) {
        parts_.texts.push_back({kind, std::move(text)});
        return *this;
    }
    kernel_builder &threads(std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1) {
        parts_.threads = {x, y, z};
        return *this;
    }

    // Makes the kernel. May be called again, for another device.
    typed_kernel<Declared...> build(const client &client) const {
        typed_kernel<Declared...> built;
        check(try_build(client, built));
        return built;
    }
    [[nodiscard]] ms_status try_build(const client &client, kernel &out) const {
        return parts_.make(client.get(), out.out());
    }

  private:
    template <typename...> friend class kernel_builder;
    explicit kernel_builder(detail::kernel_parts parts) : parts_(std::move(parts)) {}

    template <typename T, ms_access Access> auto binding(std::string name) const {
        kernel_builder<Declared..., detail::binding_of<T, Access>> more(parts_);
        more.parts_.bindings.push_back({std::move(name), Access, detail::type_of<T>()});
        return more;
    }

    detail::kernel_parts parts_;
};
kernel_builder(std::string) -> kernel_builder<>;

// The metadata of a launch: shapes and strides of tensors, in elements.
class metadata {
  public:
    using axes = std::vector<std::uint64_t>;
    metadata &input(axes shape, axes strides, std::uint64_t buffer_len) {
        return add(MS_TENSOR_GROUP_INPUT, std::move(shape), std::move(strides), buffer_len);
    }
    metadata &output(axes shape, axes strides, std::uint64_t buffer_len) {
        return add(MS_TENSOR_GROUP_OUTPUT, std::move(shape), std::move(strides), buffer_len);
    }
    metadata &tensor_map(axes shape, axes strides, std::uint64_t buffer_len) {
        return add(MS_TENSOR_GROUP_TENSOR_MAP, std::move(shape), std::move(strides), buffer_len);
    }
    // The tensors for the functions of millstream.h; valid as long as this object is, and not changed.
    std::vector<ms_tensor> tensors() const {
        std::vector<ms_tensor> all;
        for (const auto &[group, shape, strides, buffer_len] : tensors_) {
            all.push_back({sizeof(ms_tensor), group, shape.data(), strides.data(), shape.size(), buffer_len});
        }
        return all;
    }

  private:
    struct tensor {
        std::uint32_t group;
        axes shape, strides;
        std::uint64_t buffer_len;
    };
    metadata &add(std::uint32_t group, axes shape, axes strides, std::uint64_t buffer_len) {
        if (shape.size() != strides.size()) {
            throw std::invalid_argument("a tensor has as many strides as lengths");
        }
        tensors_.push_back({group, std::move(shape), std::move(strides), buffer_len});
        return *this;
    }
    std::vector<tensor> tensors_;
};

// Tasks that were checked once.
class recording : public owner<ms_recording, ms_recording_destroy> {
  public:
    using owner::owner;
};

// The arguments of a replay.
class replay_args {
  public:
    // Uses `by` in place of a parameter.
    template <typename T> replay_args &bind(const buffer<T> &parameter, const buffer<T> &by) {
        rebinds.push_back({sizeof(ms_rebind), 0, parameter.get(), by.get()});
        return *this;
    }
    template <typename T> replay_args &set(const parameter &scalar, T value) {
        scalars.push_back({sizeof(ms_rescalar), detail::type_of<T>(), scalar.number, detail::value_of(value)});
        return *this;
    }
    std::vector<ms_rebind> rebinds;
    std::vector<ms_rescalar> scalars;
};

// What streams and recorders have in common: launches, fills and copies, by these functions of millstream.h.
template <typename Handle, ms_status (*Destroy)(Handle *), auto Launch, auto LaunchWithMetadata, auto Fill, auto Copy>
class task_owner : public owner<Handle, Destroy> {
  public:
    using owner<Handle, Destroy>::owner;

    // Runs a kernel: `stream.launch(kernel, {16, 1, 1}, read(x), write(y), 2.0f)`.
    template <typename Kernel, typename... Arguments>
    void launch(const Kernel &kernel, ms_cubes cubes, const Arguments &...arguments) const {
        check(try_launch(kernel, cubes, arguments...));
    }
    template <typename Kernel, typename... Arguments>
    [[nodiscard]] ms_status try_launch(const Kernel &kernel, ms_cubes cubes,
                                       const Arguments &...arguments) const noexcept {
        const auto all = detail::packed<Kernel>(arguments...);
        return Launch(this->get(), kernel.get(), cubes, all.data(), sizeof...(arguments));
    }
    template <typename Kernel, typename... Arguments>
    void launch(const Kernel &kernel, ms_cubes cubes, const metadata &metadata, const Arguments &...arguments) const {
        const auto all = detail::packed<Kernel>(arguments...);
        const std::vector<ms_tensor> tensors = metadata.tensors();
        check(LaunchWithMetadata(this->get(), kernel.get(), cubes, all.data(), sizeof...(arguments), tensors.data(),
                                 tensors.size()));
    }
    template <typename T> void fill(const buffer<T> &buffer, T value) const { check(try_fill(buffer, value)); }
    template <typename T> [[nodiscard]] ms_status try_fill(const buffer<T> &buffer, T value) const noexcept {
        return Fill(this->get(), buffer.get(), &value, sizeof value);
    }
    template <typename T> void copy(const buffer<T> &from, const buffer<T> &to) const { check(try_copy(from, to)); }
    template <typename T> [[nodiscard]] ms_status try_copy(const buffer<T> &from, const buffer<T> &to) const noexcept {
        return Copy(this->get(), from.get(), to.get());
    }
};

// An order of tasks.
class stream
    : public task_owner<ms_stream, ms_stream_destroy, ms_launch, ms_launch_with_metadata, ms_fill, ms_copy> {
  public:
    using task_owner::task_owner;
    explicit stream(const client &of) { check(ms_stream_create(of.get(), out())); }

    // The same stream, whose calls answer `MS_STATUS_BUSY` instead of blocking.
    stream nowait() const { return detail::made<stream>(ms_stream_nowait, get()); }
    stream with_deadline(std::chrono::nanoseconds timeout) const {
        return detail::made<stream>(ms_stream_with_deadline, get(), detail::nanoseconds(timeout));
    }

    stream with_cancel(const cancel_token &token) const {
        return detail::made<stream>(ms_stream_with_cancel, get(), token.get());
    }
    ms_tally tally() const { return detail::reported(ms_stream_get_tally, get()); }
    profile start_profile() const { return detail::made<profile>(ms_stream_start_profile, get()); }

    template <typename T> buffer<T> empty(std::size_t count) const {
        return detail::made<buffer<T>>(ms_buffer_create, get(), detail::bytes_of<T>(count));
    }
    template <typename T> buffer<T> create(const T *elements, std::size_t count) const {
        return detail::made<buffer<T>>(ms_buffer_create_from, get(), elements, detail::bytes_of<T>(count));
    }
    template <typename T> buffer<T> create(const std::vector<T> &elements) const {
        return create(elements.data(), elements.size());
    }
    template <typename T> buffer<T> create(std::initializer_list<T> elements) const {
        return create(elements.begin(), elements.size());
    }
    template <typename T>
    [[nodiscard]] ms_status try_create(const T *elements, std::size_t count, buffer<T> &out) const noexcept {
        return ms_buffer_create_from(get(), elements, detail::bytes_of<T>(count), out.out());
    }

    template <typename T> void write(const buffer<T> &buffer, const std::vector<T> &elements) const {
        check(try_write(buffer, elements.data(), elements.size()));
    }
    template <typename T>
    [[nodiscard]] ms_status try_write(const buffer<T> &buffer, const T *elements, std::size_t count) const noexcept {
        return ms_write(get(), buffer.get(), elements, detail::bytes_of<T>(count));
    }
    template <typename T> readback<T> read(const buffer<T> &buffer) const {
        return detail::made<readback<T>>(ms_read, get(), buffer.get());
    }
    template <typename T> [[nodiscard]] ms_status try_read(const buffer<T> &buffer, readback<T> &out) const noexcept {
        return ms_read(get(), buffer.get(), out.out());
    }

    void replay(const recording &recording, const replay_args &args = replay_args()) const {
        check(try_replay(recording, args));
    }
    [[nodiscard]] ms_status try_replay(const recording &recording, const replay_args &args) const noexcept {
        return ms_replay(get(), recording.get(), args.rebinds.data(), args.rebinds.size(), args.scalars.data(),
                         args.scalars.size());
    }
    void flush() const { check(ms_stream_flush(get())); }
    pending sync() const { return detail::made<pending>(ms_sync, get()); }
};

// Records tasks.
class recorder : public task_owner<ms_recorder, ms_recorder_destroy, ms_recorder_launch,
                                   ms_recorder_launch_with_metadata, ms_recorder_fill, ms_recorder_copy> {
  public:
    using task_owner::task_owner;
    explicit recorder(const stream &of) { check(ms_recorder_create(of.get(), out())); }

    template <typename T> buffer<T> parameter(std::size_t count) const {
        return detail::made<buffer<T>>(ms_recorder_parameter, get(), detail::bytes_of<T>(count));
    }
    template <typename T> millstream::parameter scalar() const {
        const std::uint32_t type = detail::type_of<T>();
        return {detail::reported(ms_recorder_scalar, get(), type), type};
    }
    recording finish() const { return detail::made<recording>(ms_recorder_finish, get()); }
};

// A `VkBuffer` on the memory of a buffer, for an engine on Vulkan.
class vulkan_buffer : public owner<ms_vulkan_buffer, ms_vulkan_buffer_destroy> {
  public:
    using owner::owner;
    // `usage` are `VkBufferUsageFlags`. Blocks until the stream's tasks before it were issued.
    template <typename T> vulkan_buffer(const stream &stream, const buffer<T> &of, std::uint32_t usage) {
        check(ms_vulkan_buffer_create(stream.get(), of.get(), usage, out()));
    }
    ms_vulkan_memory memory() const { return detail::reported(ms_vulkan_buffer_get_memory, get()); }
};

// A point of a queue, for which submissions of an engine on Vulkan wait.
class vulkan_point : public owner<ms_vulkan_point, ms_vulkan_point_destroy> {
  public:
    using owner::owner;
    // After the stream's tasks so far, and all earlier tasks on the buffers. Blocks until they are submitted.
    vulkan_point(const stream &stream, const std::vector<ms_argument> &buffers) {
        check(ms_vulkan_point_create(stream.get(), buffers.data(), buffers.size(), out()));
    }
    // The `VkSemaphore` and the value that it reaches.
    std::pair<void *, std::uint64_t> get_semaphore() const {
        std::pair<void *, std::uint64_t> found{nullptr, 0};
        check(ms_vulkan_point_get(get(), &found.first, &found.second));
        return found;
    }
};

// Orders what an engine on Vulkan signals before later tasks on the buffers. `held` is destroyed once the semaphore is not
// needed any more: pass what owns it.
template <typename T>
void vulkan_wait(const stream &stream, const std::vector<ms_argument> &buffers, void *semaphore, std::uint64_t value,
                 T held) {
    check(detail::give(std::move(held), [&](T *user) {
        return ms_vulkan_wait(stream.get(), buffers.data(), buffers.size(), semaphore, value, detail::drop<T>, user);
    }));
}

namespace detail {
// Adds a task that calls `function(task)`. An exception makes the task fail.
template <typename Task, typename F, typename Submit>
void submit(Submit add, const stream &stream, const char *name, const std::vector<ms_argument> &buffers, F function) {
    auto call = [](const Task *task, void *user) noexcept -> std::int32_t {
        try {
            (*static_cast<F *>(user))(*task);
            return 0;
        } catch (...) {
            return 1;
        }
    };
    check(give(std::move(function), [&](F *user) {
        return add(stream.get(), name, buffers.data(), buffers.size(), call, drop<F>, user);
    }));
}
} // namespace detail

// Adds a task whose commands `function(const ms_vulkan_task &)` records.
template <typename F>
void vulkan_record(const stream &stream, const char *name, const std::vector<ms_argument> &buffers, F function) {
    detail::submit<ms_vulkan_task>(ms_vulkan_record, stream, name, buffers, std::move(function));
}
// Adds a task whose work `function(const ms_cuda_task &)` submits.
template <typename F>
void cuda_submit(const stream &stream, const char *name, const std::vector<ms_argument> &buffers, F function) {
    detail::submit<ms_cuda_task>(ms_cuda_submit, stream, name, buffers, std::move(function));
}

} // namespace millstream

#endif
