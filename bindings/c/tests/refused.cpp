// Launches that must not compile: each of them is compiled alone, with `-DREFUSED=` its number, and all of them with 0.
#include <millstream.hpp>

namespace ms = millstream;

void launch(const ms::client &client, const ms::stream &stream, const ms::recorder &recorder) {
    const auto kernel = ms::kernel_builder("k").updates<float>("values").scalar<float>("factor").build(client);
    const auto floats = stream.empty<float>(4);
    const auto ints = stream.empty<int>(4);
#if REFUSED == 1
    stream.launch(kernel, {1, 1, 1}, ints, 2.0f);
#elif REFUSED == 2
    stream.launch(kernel, {1, 1, 1}, read(floats), 2.0f);
#elif REFUSED == 3
    stream.launch(kernel, {1, 1, 1}, floats, 2);
#elif REFUSED == 4
    stream.launch(kernel, {1, 1, 1}, floats);
#elif REFUSED == 5
    (void)stream.try_launch(kernel, {1, 1, 1}, update(ints), 2.0f);
#elif REFUSED == 6
    recorder.launch(kernel, {1, 1, 1}, ints, 2.0f);
#else
    stream.launch(kernel, {1, 1, 1}, floats, 2.0f);
    (void)stream.try_launch(kernel, {1, 1, 1}, update(floats), 2.0f);
    recorder.launch(kernel, {1, 1, 1}, floats, recorder.scalar<float>());
    (void)ints;
#endif
}
