/* main.c - the oracles as a command: `oracle NAME [SETUP-FILE] < input > output`. */
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

int main(int argc, char **argv) {
    static const char *const reasons[] = {"", "the input is no tape of this component", "out of memory", "no such oracle"};
    if (argc < 2 || argc > 3 || strcmp(argv[1], "--help") == 0) {
        fprintf(stderr, "usage: oracle NAME [SETUP-FILE] < input > output\nnames:\n%s\n", ds4_oracle_names());
        return argc == 2 ? 0 : 2;
    }
    size_t setup_length = 0, length = 0, out_length = 0;
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
    char *out = NULL;
    ds4_oracle *oracle = NULL;
    int rc = input == NULL || (argc == 3 && setup == NULL) ? ORACLE_NO_MEMORY : ds4_oracle_open(argv[1], setup, setup_length, &oracle);
    if (rc == ORACLE_OK) rc = ds4_oracle_run(oracle, input, length, &out, &out_length);
    if (rc == ORACLE_OK && out_length > 0 && fwrite(out, 1, out_length, stdout) != out_length) rc = ORACLE_NO_MEMORY;
    if (rc != ORACLE_OK) fprintf(stderr, "oracle %s: %s\n", argv[1], reasons[rc]);
    ds4_oracle_free(out);
    ds4_oracle_close(oracle);
    free(setup);
    free(input);
    return rc;
}
