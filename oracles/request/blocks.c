/* blocks.c - the blocks of content: readable ones, results of tools, calls, thoughts. */
#include <string.h>

#include "oracles/request/blocks.h"

bool required_text(request *r, const field *object, const char *name, bytes *value) {
    const field f = member_of(r, object, name);
    text read;
    if (f.node == ABSENT) return deny(r, &f, "invalid_type");
    if (!read_text(r, &f, &read)) return false;
    *value = read.data;
    return true;
}

static bool type_is(const request *r, const field *object, const char *type) {
    return node_is(&r->body, find_member(&r->body, object->node, "type"), type);
}

static bool put_text_of(request *r, const field *block, const char *name, buffer *out) {
    text value;
    if (!text_of(r, block, name, &value)) return false;
    put_paragraph(out, value.data);
    return true;
}

static bool put_required(request *r, const field *block, const char *name, buffer *out) {
    bytes value;
    if (!required_text(r, block, name, &value)) return false;
    put_paragraph(out, value);
    return true;
}

/* ---- readable ---- */

typedef bool (*block_reader)(request *r, const field *block, buffer *out);

static bool put_inner(request *r, const field *object, block_reader put, buffer *out) {
    const field f = member_of(r, object, "content");
    if (f.node == ABSENT) return true;
    if (node_is_kind(&r->body, f.node, JSON_STRING)) return put_text_of(r, object, "content", out);
    if (!some_objects(r, &f)) return false;
    for (field block = first_of(r, &f); block.node != ABSENT; step(r, &block))
        if (!put(r, &block, out)) return false;
    return true;
}

static bool put_search_result(request *r, const field *block, buffer *out) {
    return put_text_of(r, block, "title", out) && put_text_of(r, block, "source", out) && put_inner(r, block, put_readable, out);
}

static bool put_document(request *r, const field *block, buffer *out) {
    const field type = member_of(r, block, "type");
    field source;
    if (!object_of(r, block, "source", &source) || !put_text_of(r, block, "title", out) || !put_text_of(r, block, "context", out)) return false;
    if (type_is(r, &source, "text")) return put_required(r, &source, "data", out);
    if (type_is(r, &source, "content")) return put_inner(r, &source, put_readable, out);
    return deny(r, &type, "invalid_value");
}

bool put_readable(request *r, const field *block, buffer *out) {
    const field type = member_of(r, block, "type");
    if (node_is(&r->body, type.node, "text")) return put_required(r, block, "text", out);
    if (node_is(&r->body, type.node, "search_result")) return put_search_result(r, block, out);
    if (node_is(&r->body, type.node, "document")) return put_document(r, block, out);
    return deny(r, &type, "invalid_value");
}

/* ---- system texts ---- */

static bytes without_attribution(bytes data) {
    while (begins_with(data, "x-anthropic-")) {
        const uint8_t *feed = memchr(data.data, '\n', data.length);
        if (feed == NULL) return bytes_from("");
        data = after(data, (size_t)(feed - data.data));
        while (data.length > 0 && data.data[0] == '\n') data = after(data, 1);
    }
    return data;
}

bool put_system_text(request *r, const field *f, buffer *out) {
    text whole;
    if (node_is_kind(&r->body, f->node, JSON_STRING)) {
        if (!read_text(r, f, &whole)) return false;
        put_paragraph(out, without_attribution(whole.data));
        return true;
    }
    if (!some_objects(r, f)) return false;
    for (field block = first_of(r, f); block.node != ABSENT; step(r, &block)) {
        const field type = member_of(r, &block, "type");
        bytes part;
        if (!node_is(&r->body, type.node, "text")) return deny(r, &type, "invalid_value");
        if (!required_text(r, &block, "text", &part)) return false;
        put_paragraph(out, without_attribution(part));
    }
    return true;
}

/* ---- results ---- */

enum { TYPE_SHOWN = 40, START_LOOKED_AT = 32 };

static bytes first_characters(bytes data, size_t most) {
    size_t seen = 0, i = 0;
    for (; i < data.length; i++)
        if ((data.data[i] & 0xC0) != 0x80 && seen++ == most) break;
    return (bytes){data.data, i};
}

/* A paragraph of three. */
static void put_sentence(buffer *out, const char *before, bytes middle, const char *behind) {
    put_paragraph(out, bytes_from(before));
    buffer_put(out, middle);
    buffer_text(out, behind);
}

static bool put_result_block(request *r, const field *block, buffer *out) {
    const field type = member_of(r, block, "type");
    text kind, name;
    if (node_is(&r->body, type.node, "text") || node_is(&r->body, type.node, "search_result")) return put_readable(r, block, out);
    if (node_is(&r->body, type.node, "document")) {
        field source;
        if (!object_of(r, block, "source", &source)) return false;
        if (type_is(r, &source, "text") || type_is(r, &source, "content")) return put_readable(r, block, out);
    }
    if (node_is(&r->body, type.node, "tool_reference")) {
        if (!text_of(r, block, "tool_name", &name)) return false;
        put_sentence(out, "The tool ", name.data, " can be called.");
        return true;
    }
    if (!node_is_kind(&r->body, type.node, JSON_STRING)) return deny(r, &type, "invalid_value");
    if (!read_text(r, &type, &kind)) return false;
    put_sentence(out, "[Unsupported ", first_characters(kind.data, TYPE_SHOWN), "]");
    return true;
}

/* Whether `error` stands within the first characters, in letters of either case. */
static bool says_error(bytes data) {
    static const char word[] = "error";
    const bytes start = first_characters(data, START_LOOKED_AT);
    for (size_t i = 0; i + 5 <= start.length; i++) {
        size_t n = 0;
        while (n < 5 && (start.data[i + n] | 0x20) == word[n]) n++; /* nothing but a letter becomes one by that bit */
        if (n == 5) return true;
    }
    return false;
}

static bool copy_result_into(request *r, const field *block, lines *messages, buffer *said) {
    bytes id;
    bool failed = false;
    if (!name_of(r, block, "tool_use_id", &id) || !put_inner(r, block, put_result_block, said) || !boolean_of(r, block, "is_error", &failed))
        return false;
    buffer marked = {0};
    if (failed && !says_error(bytes_in(said))) buffer_text(&marked, said->length > 0 ? "Error: " : "Error");
    buffer_put(&marked, bytes_in(said));
    put_key(&messages->data, "{", "role");
    json_write_string(bytes_from("tool"), &messages->data);
    put_pair(&messages->data, "tool_call_id", id);
    put_pair(&messages->data, "content", bytes_in(&marked));
    buffer_text(&messages->data, "}");
    line_end(messages);
    r->no_memory = r->no_memory || marked.failed;
    buffer_free(&marked);
    return true;
}

bool copy_result(request *r, const field *block, lines *messages) {
    buffer said = {0};
    const bool good = copy_result_into(r, block, messages, &said);
    r->no_memory = r->no_memory || said.failed;
    buffer_free(&said);
    return good;
}

/* ---- what an assistant's content has ---- */

bool copy_call(request *r, const field *block, buffer *out) {
    bytes name;
    field input;
    text id;
    buffer arguments = {0};
    if (!name_of(r, block, "name", &name) || !object_of(r, block, "input", &input)) return false;
    if (input.node == ABSENT) buffer_text(&arguments, "{}");
    else json_write(&r->body, input.node, &arguments);
    r->no_memory = r->no_memory || arguments.failed;
    /* Whatever is written of a value but its texts is ASCII. */
    const bool good = lone_surrogate(bytes_in(&arguments)) ? deny(r, &input, "invalid_value") : text_of(r, block, "id", &id);
    if (good) put_call(out, id.data, name, bytes_in(&arguments));
    buffer_free(&arguments);
    return good;
}

bool put_thought(request *r, const field *block, buffer *out) {
    static const char mark[] = "ds4-thinking:";
    const field sealed = member_of(r, block, "signature");
    text thinking, signature;
    if (!text_of(r, block, "thinking", &thinking) || !read_text(r, &sealed, &signature)) return false;
    if (filled(&thinking)) {
        buffer_put(out, thinking.data);
        return true;
    }
    if (!begins_with(signature.data, mark)) return true;
    return put_unsealed(out, after(signature.data, strlen(mark)), true) || deny(r, &sealed, "invalid_value");
}
