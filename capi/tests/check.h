// Checks of the test programs: a failed one prints the place and the last error, and ends the program.
#ifndef CHECK_H
#define CHECK_H

#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: `%s` is false; last error: %s\n", __FILE__, __LINE__, #condition,                  \
                    ms_last_error());                                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// The call answers this status.
#define CHECK_STATUS(expected, call)                                                                                   \
    do {                                                                                                               \
        const ms_status status_ = (call);                                                                              \
        if (status_ != (expected)) {                                                                                   \
            fprintf(stderr, "%s:%d: `%s` answered %s, expected %s; last error: %s\n", __FILE__, __LINE__, #call,       \
                    ms_status_name(status_), ms_status_name(expected), ms_last_error());                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK_OK(call) CHECK_STATUS(MS_STATUS_OK, call)
#define CHECK_ARGUMENT(call) CHECK_STATUS(MS_STATUS_INVALID_ARGUMENT, call)
#define CHECK_HANDLE(call) CHECK_STATUS(MS_STATUS_INVALID_HANDLE, call)

// The call answers this status, and gives no handle.
#define CHECK_GIVES_NONE(expected, out, call)                                                                          \
    do {                                                                                                               \
        (out) = (void *)&(out);                                                                                        \
        CHECK_STATUS(expected, call);                                                                                  \
        CHECK((out) == NULL);                                                                                          \
    } while (0)

#endif
