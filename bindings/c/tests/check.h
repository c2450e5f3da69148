// Checks of the test programs: a failed one prints the place and the last error, and ends the program.
#ifndef CHECK_H
#define CHECK_H

#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: `%s` is false; last error: %s\n", __FILE__, __LINE__, #condition,                  \
                    ms_last_error());                                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// The text of an error names no call of Rust. Compilers may write what they like.
static inline void check_text(ms_status status, const char *file, int line) {
    static const char *const rust[] = {"::", "try_take", ".await", "&handle"};
    if (status == MS_STATUS_OK || status == MS_STATUS_PENDING || status == MS_STATUS_COMPILE) {
        return;
    }
    for (size_t i = 0; i < sizeof rust / sizeof *rust; i++) {
        if (strstr(ms_last_error(), rust[i]) != NULL) {
            fprintf(stderr, "%s:%d: the error names a call of Rust: %s\n", file, line, ms_last_error());
            exit(1);
        }
    }
}

// The call answers this status.
#define CHECK_STATUS(expected, call)                                                                                   \
    do {                                                                                                               \
        const ms_status status_ = (call);                                                                              \
        if (status_ != (expected)) {                                                                                   \
            fprintf(stderr, "%s:%d: `%s` answered %s, expected %s; last error: %s\n", __FILE__, __LINE__, #call,       \
                    ms_status_name(status_), ms_status_name(expected), ms_last_error());                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
        check_text(status_, __FILE__, __LINE__);                                                                       \
    } while (0)

// The text of the last error has this part.
#define CHECK_TEXT(part) CHECK(strstr(ms_last_error(), part) != NULL)

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
