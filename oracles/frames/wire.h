/* wire.h - the frames of DS4D as tables.
 *
 *   header: 0 magic "DS4D" (u32), 4 type (u32), 8 body bytes (u32); then the body. All big-endian.
 *
 * A body is fixed fields and what follows them without gaps. The fields listed here are those that stand on the first
 * line of a frame's tape; counts and byte counts are where the codec names them.
 */
#ifndef DS4_ORACLE_WIRE_H
#define DS4_ORACLE_WIRE_H

#include "oracles/common/tape.h"

enum { HEADER = 12, FIELDS_MOST = 11, TELEMETRY_FIELDS = 10, HOP_FIELDS = 4, RETURN_FIELDS = 2 };
enum { TELEMETRY_BYTES = 40, HOP_BYTES = 20, RETURN_BYTES = 12, NAME_MOST = 127, HOST_MOST = 1024, FLAGS_KNOWN = 15 };
enum kind { /* the type less one */
    HELLO,
    FAILURE,
    WORK,
    RESULT,
    SNAPSHOT_SAVE,
    SNAPSHOT_BEGIN,
    SNAPSHOT_CHUNK,
    SNAPSHOT_DONE,
    SNAPSHOT_LOAD,
    KINDS
};

typedef struct field {
    const char *name;
    uint8_t offset;
    bool wide; /* 64 bits, the high half first */
} field;

typedef struct layout {
    const char *name;
    uint32_t least, most; /* bytes of a body; the least is the fixed fields */
    field fields[FIELDS_MOST + 1]; /* ended by no name */
} layout;

extern const layout wire_layouts[KINDS];

/* Fields of the first line that a verdict looks at, and where the counts lie in a body. */
enum { WORK_FLAGS = 52, WORK_BITS = 64, RESULT_STATUS = 16, RESULT_KIND = 20, RESULT_BITS = 36 };
enum { HELLO_NAME_BYTES = 36 };
enum { WORK_TOKENS = 40, WORK_TOKEN_BYTES = 56, WORK_ACTIVATION_BYTES = 60, WORK_HOPS = 68, WORK_ROUTE_BYTES = 76 };
enum { RESULT_RECORDS = 24, RESULT_RECORD_BYTES = 28, RESULT_PAYLOAD_BYTES = 32 };
enum { SNAPSHOT_TOKENS = 28, SNAPSHOT_TOKEN_BYTES = 52, SNAPSHOT_MESSAGE_BYTES = 56 };
enum { CHUNK_BYTES = 8, DONE_MESSAGE_BYTES = 12 };

/* hop: 0 host length, 4 port, 8 layer start, 12 layer end, 16 flags, then the host
 * return address: 0 kind, 4 host length, 8 port, then the host
 * telemetry: ten u32 */

typedef struct verdict {
    const char *code, *subject; /* code NULL: none */
} verdict;

uint64_t wire_get(const uint8_t *at, int width);
uint8_t *wire_put(uint8_t *at, int width, uint64_t value); /* returns what is behind it */
uint32_t wire_width(uint64_t bits);      /* bytes of an activation; 0: no such width */

bool wire_word_first(enum kind kind);    /* the free bytes (name, message, chunk) stand on the first line */

/* The two ways; both leave the output alone when the verdict is a fault. */
verdict wire_decode(bytes frame, tape *out);
int wire_encode(reader r, size_t length, tape *out, verdict *v); /* ORACLE_OK, ORACLE_BAD_TAPE or ORACLE_NO_MEMORY */

/* Words of the tape, common to all commands. */
bool wire_line(reader *r, reader *line);
bool wire_uint(reader *line, uint64_t *value);

#endif
