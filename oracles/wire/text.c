/* text.c - the pieces of JSON that surfaces share. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/json.h"
#include "oracles/common/utf8.h"
#include "oracles/wire/wire.h"

bytes bytes_of(const buffer *b) { return (bytes){b->data, b->length}; }

bytes literal(const char *text) { return (bytes){(const uint8_t *)text, strlen(text)}; }

void put_format(buffer *out, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= sizeof text) {
        out->failed = true;
        return;
    }
    buffer_text(out, text);
}

void put_one_line(buffer *out, bytes text) {
    size_t plain = 0; /* what begins here stands as it is */
    for (size_t i = 0; i < text.length; i++) {
        const bytes rest = {text.data + i, text.length - i};
        const char *escape = NULL;
        size_t n = 3;
        if (rest.length >= 2 && memcmp(rest.data, "\xC2\x85", 2) == 0) escape = "\\u0085", n = 2;
        else if (rest.length >= 3 && memcmp(rest.data, "\xE2\x80\xA8", 3) == 0) escape = "\\u2028";
        else if (rest.length >= 3 && memcmp(rest.data, "\xE2\x80\xA9", 3) == 0) escape = "\\u2029";
        if (escape == NULL) continue;
        buffer_put(out, (bytes){text.data + plain, i - plain});
        buffer_text(out, escape);
        plain = i + n;
        i = plain - 1;
    }
    if (plain < text.length) buffer_put(out, (bytes){text.data + plain, text.length - plain});
}

void put_string(buffer *out, bytes text) {
    buffer written = {0};
    json_write_string(text, &written);
    put_one_line(out, bytes_of(&written));
    if (written.failed) out->failed = true;
    buffer_free(&written);
}

void put_named(buffer *out, const char *name, bytes text) {
    put_format(out, ",\"%s\":", name);
    put_string(out, text);
}

void put_double(buffer *out, double value) {
    json_node node = {.kind = JSON_DOUBLE, .number = value};
    const json number = {.nodes = &node, .count = 1, .capacity = 1};
    json_write(&number, 0, out);
}

size_t characters(bytes text) {
    size_t n = 0;
    for (size_t i = 0; i < text.length; i++) n += (text.data[i] & 0xC0) != 0x80;
    return n;
}

/* Bytes of the longest beginning of a character that stands here, at least 1. */
static size_t maximal_subpart(bytes s) {
    const uint8_t lead = s.data[0];
    const size_t whole = lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    size_t n = 1;
    while (n < whole && n < s.length) {
        uint8_t low = 0x80, high = 0xBF;
        if (n == 1 && lead == 0xE0) low = 0xA0;
        if (n == 1 && lead == 0xED) high = 0x9F;
        if (n == 1 && lead == 0xF0) low = 0x90;
        if (n == 1 && lead == 0xF4) high = 0x8F;
        if (s.data[n] < low || s.data[n] > high) break;
        n++;
    }
    return n;
}

void put_lossy(buffer *out, bytes data) {
    uint32_t code;
    while (data.length > 0) {
        size_t n = utf8_next(data.data, data.length, &code);
        if (n > 0) {
            buffer_put(out, (bytes){data.data, n});
        } else {
            n = maximal_subpart(data);
            buffer_text(out, "\xEF\xBF\xBD");
        }
        data.data += n;
        data.length -= n;
    }
}

void put_base64(buffer *out, bytes data, bool for_urls) {
    static const char common[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t i = 0; i < data.length; i += 3) {
        const size_t n = data.length - i < 3 ? data.length - i : 3;
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++) group = group << 8 | (k < n ? data.data[i + k] : 0);
        char four[5] = "====";
        for (size_t k = 0; k <= n; k++) {
            const uint32_t six = group >> (18 - 6 * k) & 63;
            four[k] = six < 62 ? common[six] : six == 62 ? (for_urls ? '-' : '+') : for_urls ? '_' : '/';
        }
        buffer_text(out, four);
    }
}

const entry *entry_after(const entry *token) { return token + 1 + token->alternatives; }

static void put_entry_head(buffer *out, const entry *e) {
    buffer text = {0};
    put_lossy(&text, e->data);
    if (text.failed) out->failed = true;
    buffer_text(out, "{\"token\":");
    put_string(out, bytes_of(&text));
    buffer_text(out, ",\"logprob\":");
    put_double(out, e->logprob);
    buffer_text(out, ",\"bytes\":[");
    for (size_t i = 0; i < e->data.length; i++) put_format(out, i == 0 ? "%u" : ",%u", (unsigned)e->data.data[i]);
    buffer_text(out, "]");
    buffer_free(&text);
}

void put_chat_entries(buffer *out, const entry *tokens, size_t count) {
    buffer_text(out, "[");
    for (size_t i = 0; i < count; i++, tokens = entry_after(tokens)) {
        if (i > 0) buffer_text(out, ",");
        put_entry_head(out, tokens);
        buffer_text(out, ",\"top_logprobs\":[");
        for (size_t k = 1; k <= tokens->alternatives; k++) {
            if (k > 1) buffer_text(out, ",");
            put_entry_head(out, tokens + k);
            buffer_text(out, "}");
        }
        buffer_text(out, "]}");
    }
    buffer_text(out, "]");
}

/* ---- errors: everything from U+007F on escaped ---- */

static void put_ascii(buffer *out, bytes text) {
    buffer_text(out, "\"");
    uint32_t code;
    for (size_t at = 0, n; at < text.length; at += n) {
        n = utf8_next(text.data + at, text.length - at, &code);
        if (n == 0) { /* cannot be: the tape's texts are well-formed */
            out->failed = true;
            return;
        }
        if (code < 0x7F) {
            json_write_characters((bytes){text.data + at, n}, out);
        } else if (code < 0x10000) {
            put_format(out, "\\u%04x", (unsigned)code);
        } else {
            put_format(out, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((code - 0x10000) >> 10)), (unsigned)(0xDC00 + (code & 0x3FF)));
        }
    }
    buffer_text(out, "\"");
}

static void put_ascii_or_null(buffer *out, optional o) {
    if (o.there) {
        put_ascii(out, o.text);
    } else {
        buffer_text(out, "null");
    }
}

void put_openai_error(buffer *out, const event *fail) {
    buffer_text(out, "{\"error\": {\"message\": ");
    put_ascii(out, fail->text);
    buffer_text(out, ", \"type\": ");
    put_ascii(out, fail->id);
    buffer_text(out, ", \"param\": ");
    put_ascii_or_null(out, fail->param);
    buffer_text(out, ", \"code\": ");
    put_ascii_or_null(out, fail->code);
    buffer_text(out, "}}");
}

static const char *anthropic_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 408: return "timeout_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

void put_anthropic_error(buffer *out, const event *fail, bytes request) {
    put_format(out, "{\"type\": \"error\", \"error\": {\"type\": \"%s\", \"message\": ", anthropic_type(fail->status));
    put_ascii(out, fail->text);
    if (fail->code.there) {
        buffer_text(out, ", \"details\": {\"error_code\": ");
        put_ascii(out, fail->code.text);
        buffer_text(out, "}");
    }
    buffer_text(out, "}, \"request_id\": ");
    put_ascii(out, request);
    buffer_text(out, "}");
}

/* ---- timings ---- */

static void put_rounded(buffer *out, double value, int digits) {
    char text[512]; /* the largest double has 309 digits in front of its point */
    snprintf(text, sizeof text, "%.*f", digits, value);
    put_double(out, strtod(text, NULL));
}

static void put_rate(buffer *out, int64_t amount, double from, double to) {
    if (to > from) {
        put_rounded(out, (double)amount / (to - from), 2);
    } else {
        buffer_text(out, "null");
    }
}

void put_timings(buffer *out, const event *const *finishes, size_t count, size_t n) {
    double arrived = finishes[0]->arrived, first = finishes[0]->first, last = finishes[0]->last;
    int64_t computed = 0, cached = 0, decoded = 0;
    for (size_t i = 0; i < count; i++) {
        const event *f = finishes[i];
        if (f->arrived < arrived) arrived = f->arrived;
        if (f->first < first) first = f->first;
        if (f->last > last) last = f->last;
        decoded += f->completion - 1;
        if (i % n != 0) continue;
        computed += f->prompt - f->cached;
        cached += f->cached;
    }
    buffer_text(out, ",\"timings\":{\"ttft_ms\":");
    put_rounded(out, 1000.0 * (first - arrived), 3);
    put_format(out, ",\"prefill_tokens\":%lld,\"prefill_cached_tokens\":%lld,\"prefill_tok_s\":", (long long)computed,
               (long long)cached);
    put_rate(out, computed, arrived, first);
    buffer_text(out, ",\"decode_tok_s\":");
    put_rate(out, decoded, first, last);
    buffer_text(out, "}");
}
