/* status.h - how native code reports an error: one line, a status and a message that names what was expected and found. */
#ifndef DS4_STATUS_H
#define DS4_STATUS_H

#include "native/bridge/ds4_bridge.h"

#include <stdarg.h>
#include <stdio.h>

/* Fills err (which may be NULL) and returns status, so that `return ds4_fail(...)` reads as one statement. */
__attribute__((format(printf, 3, 4), unused)) static inline int32_t ds4_fail(ds4_error *err, int32_t status,
                                                                            const char *format, ...)
{
    if (err) {
        va_list args;
        err->status = status;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

__attribute__((unused)) static inline int32_t ds4_ok(ds4_error *err)
{
    if (err) {
        err->status = DS4_OK;
        err->message[0] = '\0';
    }
    return DS4_OK;
}

#endif
