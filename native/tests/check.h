/* check.h - the little that a native test program needs: a check that says where it failed, and a summary. */
#ifndef DS4_TESTS_CHECK_H
#define DS4_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

__attribute__((unused)) static int check_failures;

/* Reports and counts; the test goes on, so that one run shows every failure. */
#define CHECK(condition, ...)                                                   \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "%s:%d: %s:", __FILE__, __LINE__, #condition);      \
            fprintf(stderr, " " __VA_ARGS__);                                   \
            fputc('\n', stderr);                                                \
            if (++check_failures >= 50) {                                       \
                fprintf(stderr, "too many failures\n");                         \
                exit(1);                                                        \
            }                                                                   \
        }                                                                       \
    } while (0)

/* For what the rest of the test cannot do without. */
#define REQUIRE(condition, ...)                                                 \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "%s:%d: %s:", __FILE__, __LINE__, #condition);      \
            fprintf(stderr, " " __VA_ARGS__);                                   \
            fputc('\n', stderr);                                                \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/* Names a test in the output, then runs it: RUN(a_step_of_no_rows_is_refused). */
#define RUN(test)                                                               \
    do {                                                                        \
        int before = check_failures;                                            \
        test();                                                                 \
        printf("%s %s\n", check_failures == before ? "ok  " : "FAIL", #test);   \
        fflush(stdout);                                                         \
    } while (0)

#define CHECK_DONE() return check_failures ? 1 : 0

#endif
