/* fuzz.c - any bytes into any oracle: no crash, no leak, a well-formed tape or "this is no tape".
 *
 * The environment says what is fuzzed, so that one program serves all oracles:
 *   ORACLE=name          this one; without it the first byte of the input chooses
 *   ORACLE_SETUP=file    the setup that every input shares; without it, an oracle that wants one gets the input as its setup
 *
 * With -fsanitize=fuzzer the fuzzer brings main. With -DFUZZ_STANDALONE (AFL++, gcc, a crash to look at) main runs the
 * files it is given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"

static uint8_t *setup;
static size_t setup_length;

static void die(const char *why) {
    fprintf(stderr, "fuzz: %s\n", why);
    abort();
}

static uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) die("cannot read a file");
    const long size = ftell(file);
    uint8_t *data = malloc((size_t)size + 1);
    rewind(file);
    if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) die("cannot read a file");
    fclose(file);
    *length = (size_t)size;
    return data;
}

static const oracle_kind *chosen(const uint8_t **data, size_t *length) {
    size_t count = 0;
    const char *name = getenv("ORACLE");
    while (oracle_kinds[count] != NULL) count++;
    if (name == NULL) {
        if (count == 0 || *length == 0) return NULL;
        const uint8_t choice = **data;
        *data += 1;
        *length -= 1;
        return oracle_kinds[choice % count];
    }
    for (size_t i = 0; i < count; i++)
        if (strcmp(oracle_kinds[i]->name, name) == 0) return oracle_kinds[i];
    die("ORACLE names no oracle");
    return NULL;
}

static bool well_written(bytes word) {
    size_t n;
    uint8_t *plain = word_copy(word, &n);
    if (plain == NULL) return false;
    tape again = {0};
    tape_bytes(&again, plain, n);
    const bool same = again.length == word.length && memcmp(again.data, word.data, word.length) == 0;
    tape_free(&again);
    free(plain);
    return same;
}

/* Whole lines of words with one space between them, and every word is written in the one way there is. A text that may
 * be absent is `=` and its word, where an empty one is "=%-". */
static void check_tape(const char *text, size_t length) {
    reader r = reader_over((const uint8_t *)text, length), line;
    while (reader_line(&r, &line)) {
        bytes word;
        const uint8_t *end = line.end;
        if (line.at != end && end[-1] == ' ') die("a line of the output ends in a space");
        while (reader_word(&line, &word)) {
            const bool optional = word.data[0] == '=' && word.length > 1;
            const bytes behind = {word.data + optional, word.length - optional};
            if (!well_written(word) && !(optional && well_written(behind))) die("a word of the output is not written in the one way there is");
        }
        if (line.at != end) die("a line of the output has an empty word");
    }
    if (r.at != r.end) die("the output does not end in a newline");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
    const oracle_kind *kind = chosen(&data, &length);
    const bool shared = getenv("ORACLE_SETUP") != NULL;
    if (kind == NULL) return 0;
    if (shared && setup == NULL) setup = read_file(getenv("ORACLE_SETUP"), &setup_length);

    ds4_oracle *oracle = NULL;
    const bool as_setup = kind->open != NULL && !shared;
    const int opened = ds4_oracle_open(kind->name, as_setup ? data : setup, as_setup ? length : setup_length, &oracle);
    if (opened == ORACLE_NO_MEMORY) die("memory was refused for a small setup");
    if (opened != ORACLE_OK) {
        if (!as_setup) die("the shared setup was refused");
        return 0;
    }
    char *out[2] = {NULL, NULL};
    size_t n[2] = {0, 0};
    int rc[2];
    for (int i = 0; i < 2; i++) rc[i] = ds4_oracle_run(oracle, as_setup ? NULL : data, as_setup ? 0 : length, &out[i], &n[i]);
    if (rc[0] != rc[1] || n[0] != n[1] || (n[0] > 0 && memcmp(out[0], out[1], n[0]) != 0)) die("two runs differ");
    if (rc[0] == ORACLE_NO_MEMORY) die("memory was refused for a small input");
    if (rc[0] != ORACLE_OK && n[0] != 0) die("an error came with an output");
    if (rc[0] == ORACLE_OK) check_tape(out[0], n[0]);
    for (int i = 0; i < 2; i++) ds4_oracle_free(out[i]);
    ds4_oracle_close(oracle);
    return 0;
}

#ifdef FUZZ_STANDALONE
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        size_t length;
        uint8_t *data = read_file(argv[i], &length);
        LLVMFuzzerTestOneInput(data, length);
        free(data);
    }
    free(setup);
    return 0;
}
#endif
