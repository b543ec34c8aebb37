#include "oracles/frames/wire.h"

#define SNAPSHOT_FIELDS \
    { {"model_id", 0, false}, {"session", 4, true}, {"request", 12, true}, {"token_hash", 20, true}, {"layer_start", 32, false}, \
      {"layer_end", 36, false}, {"payload_bytes", 40, true}, {"status", 48, false} }

const layout wire_layouts[KINDS] = {
    [HELLO] = {"hello", 40, 167,
               {{"model_id", 0, false}, {"quant_bits", 4, false}, {"layer_start", 8, false}, {"layer_end", 12, false},
                {"has_output", 16, false}, {"has_hidden", 20, false}, {"ctx", 24, false}, {"layers", 28, false}, {"port", 32, false}}},
    [FAILURE] = {"failure", 0, 65536, {{NULL, 0, false}}},
    [WORK] = {"work", 80, 1073741824,
              {{"model_id", 0, false}, {"session", 4, true}, {"request", 12, true}, {"prefix_hash", 20, true},
               {"result_hash", 28, true}, {"pos0", 36, false}, {"layer_start", 44, false}, {"layer_end", 48, false},
               {"flags", WORK_FLAGS, false}, {"activation_bits", WORK_BITS, false}, {"route_index", 72, false}}},
    [RESULT] = {"result", 40, 1073741824,
                {{"request", 0, true}, {"result_hash", 8, true}, {"status", RESULT_STATUS, false}, {"kind", RESULT_KIND, false},
                 {"payload_bits", RESULT_BITS, false}}},
    [SNAPSHOT_SAVE] = {"snapshot-save", 40, 40,
                       {{"model_id", 0, false}, {"session", 4, true}, {"request", 12, true}, {"token_hash", 20, true},
                        {"token_count", 28, false}, {"layer_start", 32, false}, {"layer_end", 36, false}}},
    [SNAPSHOT_BEGIN] = {"snapshot-begin", 60, 134217728, SNAPSHOT_FIELDS},
    [SNAPSHOT_CHUNK] = {"snapshot-chunk", 12, 8388620, {{"request", 0, true}}},
    [SNAPSHOT_DONE] = {"snapshot-done", 16, 65552, {{"request", 0, true}, {"status", 8, false}}},
    [SNAPSHOT_LOAD] = {"snapshot-load", 60, 134217728, SNAPSHOT_FIELDS},
};

uint64_t wire_get(const uint8_t *at, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; i++) value = value << 8 | at[i];
    return value;
}

uint8_t *wire_put(uint8_t *at, int width, uint64_t value) {
    for (int i = 0; i < width; i++) at[i] = (uint8_t)(value >> 8 * (width - 1 - i));
    return at + width;
}

uint32_t wire_width(uint64_t bits) {
    return bits == 8 ? 1 : bits == 16 ? 2 : bits == 32 || bits == 0 ? 4 : 0;
}

bool wire_word_first(enum kind kind) {
    return kind == HELLO || kind == FAILURE || kind == SNAPSHOT_CHUNK || kind == SNAPSHOT_DONE;
}

bool wire_line(reader *r, reader *line) {
    return reader_line(r, line) && line->at != line->end && line->end[-1] != ' ';
}

bool wire_uint(reader *line, uint64_t *value) {
    bytes word;
    if (!reader_word(line, &word)) return false;
    while (word.length > 1 && word.data[0] == '0') word = (bytes){word.data + 1, word.length - 1};
    return word_uint(word, value);
}
