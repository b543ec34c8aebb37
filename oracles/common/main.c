/* main.c - the oracles as a command.
 *
 *   oracle NAME [SETUP-FILE] < input > output
 *   oracle --batch NAME [SETUP-FILE]    many inputs: each is u32 LE length and bytes; each answer u32 status, u32 length, bytes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"

static uint8_t *read_all(FILE *file, size_t *length) {
    size_t capacity = 1 << 16, n = 0;
    uint8_t *data = malloc(capacity);
    while (data != NULL) {
        n += fread(data + n, 1, capacity - n, file);
        if (n < capacity) break;
        uint8_t *more = realloc(data, capacity *= 2);
        if (more == NULL) free(data);
        data = more;
    }
    *length = n;
    return data;
}

static const char *const reasons[] = {"", "the input is no tape of this component", "out of memory", "no such oracle"};

static void put_u32(uint8_t *to, uint32_t v) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t get_u32(const uint8_t *from) {
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static int answer(const ds4_oracle *oracle, const uint8_t *input, size_t length) {
    char *out = NULL;
    size_t out_length = 0;
    int rc = ds4_oracle_run(oracle, input, length, &out, &out_length);
    if (rc == ORACLE_OK && out_length > 0 && fwrite(out, 1, out_length, stdout) != out_length) rc = ORACLE_NO_MEMORY;
    ds4_oracle_free(out);
    return rc;
}

/* Each input in memory of its own, so that a sanitizer sees a read past its end. */
static int batch(const ds4_oracle *oracle, const uint8_t *inputs, size_t left) {
    while (left >= 4) {
        const uint32_t length = get_u32(inputs);
        inputs += 4;
        left -= 4;
        if (length > left) return ORACLE_BAD_TAPE;
        uint8_t *input = malloc(length > 0 ? length : 1);
        char *out = NULL;
        size_t out_length = 0;
        uint8_t head[8];
        if (input == NULL) return ORACLE_NO_MEMORY;
        if (length > 0) memcpy(input, inputs, length);
        const int rc = ds4_oracle_run(oracle, input, length, &out, &out_length);
        put_u32(head, (uint32_t)rc);
        put_u32(head + 4, (uint32_t)out_length);
        fwrite(head, 1, sizeof head, stdout);
        if (out_length > 0) fwrite(out, 1, out_length, stdout);
        ds4_oracle_free(out);
        free(input);
        inputs += length;
        left -= length;
    }
    return left == 0 ? ORACLE_OK : ORACLE_BAD_TAPE;
}

int main(int argc, char **argv) {
    const int many = argc > 1 && strcmp(argv[1], "--batch") == 0;
    argc -= many;
    argv += many;
    if (argc < 2 || argc > 3 || argv[1][0] == '-') {
        fprintf(stderr, "usage: oracle [--batch] NAME [SETUP-FILE] < input > output\nnames:\n%s\n", ds4_oracle_names());
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    size_t setup_length = 0, length = 0;
    uint8_t *setup = NULL;
    if (argc == 3) {
        FILE *file = fopen(argv[2], "rb");
        if (file == NULL) {
            perror(argv[2]);
            return 2;
        }
        setup = read_all(file, &setup_length);
        fclose(file);
    }
    uint8_t *input = read_all(stdin, &length);
    ds4_oracle *oracle = NULL;
    int rc = input == NULL || (argc == 3 && setup == NULL) ? ORACLE_NO_MEMORY : ds4_oracle_open(argv[1], setup, setup_length, &oracle);
    if (rc == ORACLE_OK) rc = many ? batch(oracle, input, length) : answer(oracle, input, length);
    if (rc == ORACLE_OK && fflush(stdout) != 0) rc = ORACLE_NO_MEMORY;
    if (rc != ORACLE_OK) fprintf(stderr, "oracle %s: %s\n", argv[1], reasons[rc]);
    ds4_oracle_close(oracle);
    free(setup);
    free(input);
    return rc;
}
