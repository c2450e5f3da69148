// Threads share a device: each has its own client and stream, and all add to one buffer, whose tasks the runtime orders.
//
//     c++ -std=c++17 threads.cpp $(pkg-config --cflags --libs millstream) -pthread -o threads && ./threads
#include <cstdio>
#include <millstream.hpp>
#include <thread>
#include <vector>

namespace ms = millstream;

constexpr int THREADS = 8;
constexpr int ROUNDS = 100;

int main() {
    try {
        auto device = ms::device::open("cpu");
        ms::client client(device);
        ms::stream stream(client);
        auto add = ms::kernel_builder("add")
                       .updates<std::uint32_t>("sum")
                       .scalar<std::uint32_t>("amount")
                       .native([](const ms::cube &cube) {
                           for (auto &value : cube.share<std::uint32_t>(0)) {
                               value += cube.scalar<std::uint32_t>(0);
                           }
                       })
                       .build(client);
        auto sum = stream.create(std::vector<std::uint32_t>(1024, 0));

        std::vector<std::thread> threads;
        std::vector<int> mistakes(THREADS, 0);
        for (std::uint32_t number = 0; number < THREADS; number++) {
            threads.emplace_back([&, number] {
                ms::client own_client(device);
                ms::stream own_stream(own_client);
                // A buffer of this thread alone: its tasks run beside those of other threads.
                auto own = own_stream.create(std::vector<std::uint32_t>(256, number));
                for (int round = 0; round < ROUNDS; round++) {
                    own_stream.launch(add, {4, 1, 1}, own, std::uint32_t{1});
                    // The buffer of all: these tasks run one after the other, without a lock here.
                    own_stream.launch(add, {4, 1, 1}, sum, std::uint32_t{1});
                }
                for (std::uint32_t value : own_stream.read(own).get()) {
                    mistakes[number] += value != number + ROUNDS;
                }
            });
        }
        for (auto &thread : threads) {
            thread.join();
        }
        int wrong = 0;
        for (int count : mistakes) {
            wrong += count;
        }
        // After the launches of all threads, in the order of the calls.
        for (std::uint32_t value : stream.read(sum).get()) {
            wrong += value != THREADS * ROUNDS;
        }
        std::printf("%d threads added %d times each: %s\n", THREADS, ROUNDS, wrong ? "WRONG" : "right");
        return wrong ? 1 : 0;
    } catch (const ms::error &error) {
        std::fprintf(stderr, "%s: %s\n", ms_status_name(error.code()), error.what());
        return 1;
    }
}
