/* edges_read.c - reads a list of messages from text.
 *
 * A file often has a million lines.  Numbers are therefore read from a buffer without libc.  Messages go into an array,
 * which is sorted by source at the end. */
#include "traces/edges_make.h"

#include "sim/error.h"
#include "traces/stream.h"

enum { BUFFER_BYTES = 1 << 20, FIELD_SHOWN = 24 };

struct reader {
    const char *path;
    struct stream *stream;
    char *buffer;
    size_t used, at;
    uint64_t line; /* the line of the next character */
    bool failed;   /* whether *error is set */
    GError **error;
};

static int next_peek(struct reader *r)
{
    if (r->at == r->used && !r->failed) {
        r->at = 0;
        r->failed = !stream_read(r->stream, r->buffer, BUFFER_BYTES, &r->used, r->error);
        if (r->failed) r->used = 0;
    }
    return r->at < r->used ? (unsigned char)r->buffer[r->at] : -1;
}

static bool refuse(struct reader *r, const char *field, const char *expected, const char *found)
{
    if (!r->failed)
        error_input(r->error, "%s:%" G_GUINT64_FORMAT ": %s: expected %s, found %s", r->path, r->line, field, expected,
                    found);
    r->failed = true;
    return false;
}

static void blanks_skip(struct reader *r)
{
    while (next_peek(r) == ' ' || next_peek(r) == '\t' || next_peek(r) == '\r') r->at++;
    if (next_peek(r) != '#') return;
    while (next_peek(r) != '\n' && next_peek(r) != -1) r->at++;
}

/* Moves to the first character of the next line that is not empty.  False at the end of the file. */
static bool line_find(struct reader *r)
{
    for (;;) {
        blanks_skip(r);
        const int c = next_peek(r);
        if (c != '\n') return c != -1;
        r->at++;
        r->line++;
    }
}

/* Copies the text that stands in place of a number, for an error message. */
static void word_copy(struct reader *r, char *text)
{
    size_t length = 0;
    text[length++] = '\'';
    for (int c = next_peek(r); c > ' ' && c < 127 && length < FIELD_SHOWN; c = next_peek(r)) {
        text[length++] = (char)c;
        r->at++;
    }
    text[length++] = '\'';
    text[length] = '\0';
    if (length == 2)
        g_strlcpy(text, next_peek(r) == '\n' || next_peek(r) == -1 ? "the end of the line" : "no digit",
                  FIELD_SHOWN + 2);
}

static bool number_read(struct reader *r, const char *field, uint64_t least, uint64_t most, uint64_t *value)
{
    char expected[64], found[FIELD_SHOWN + 2];
    uint64_t n = 0;
    uint32_t digits = 0;
    blanks_skip(r);
    for (int c = next_peek(r); c >= '0' && c <= '9' && digits <= 12; c = next_peek(r), digits++) {
        n = 10 * n + (uint64_t)(c - '0');
        r->at++;
    }
    *value = n;
    const int after = next_peek(r);
    const bool ends = after == -1 || after == '\n' || after == ' ' || after == '\t' || after == '\r' || after == '#';
    if (digits && ends && n >= least && n <= most) return true;
    g_snprintf(expected, sizeof expected, "a whole number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, least,
               most);
    if (digits && ends) g_snprintf(found, sizeof found, "%" G_GUINT64_FORMAT, n);
    else word_copy(r, found);
    return refuse(r, field, expected, found);
}

static bool line_end(struct reader *r)
{
    char found[FIELD_SHOWN + 2];
    blanks_skip(r);
    if (next_peek(r) == '\n' || next_peek(r) == -1) return true;
    word_copy(r, found);
    return refuse(r, "line", "its end", found);
}

struct message {
    uint16_t source, target;
    uint32_t size_bytes;
};

static bool message_read(struct reader *r, uint32_t ranks, struct message *m)
{
    uint64_t source, target, size_bytes;
    if (!number_read(r, "source", 0, ranks - 1, &source) || !number_read(r, "destination", 0, ranks - 1, &target) ||
        !number_read(r, "bytes", 0, EDGE_BYTES_MAX, &size_bytes) || !line_end(r))
        return false;
    *m = (struct message){ (uint16_t)source, (uint16_t)target, (uint32_t)size_bytes };
    return true;
}

/* Puts messages into *e, sorted by source.  Messages of one source stay in their order. */
static void messages_deal(const struct message *message, uint32_t count, uint32_t ranks, struct edges *e)
{
    edges_alloc(e, ranks, count);
    for (uint32_t i = 0; i < count; i++) e->first[message[i].source + 1]++;
    for (uint32_t s = 0; s < ranks; s++) e->first[s + 1] += e->first[s];
    g_autofree uint32_t *place = g_memdup2(e->first, (ranks + 1) * sizeof *e->first);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = place[message[i].source]++;
        e->target[at] = message[i].target;
        e->size_bytes[at] = message[i].size_bytes;
    }
    edges_finish(e);
}

static bool messages_read(struct reader *r, struct edges *e)
{
    uint64_t ranks, count;
    char expected[48], found[32];
    const char *mark = "\xef\xbb\xbf"; /* a byte-order mark */
    for (; *mark && next_peek(r) == (unsigned char)*mark; mark++) r->at++;
    if (!line_find(r)) return refuse(r, "endpoints", "a number of endpoints and of messages", "the end of the file");
    if (!number_read(r, "endpoints", 1, EDGES_RANKS_MAX, &ranks) || !number_read(r, "messages", 0, EDGES_MAX, &count) ||
        !line_end(r))
        return false;
    g_autoptr(GArray) messages = g_array_new(FALSE, FALSE, sizeof(struct message));
    struct message m;
    while (messages->len <= count && line_find(r) && message_read(r, (uint32_t)ranks, &m))
        g_array_append_val(messages, m);
    if (!r->failed && messages->len != count) {
        g_snprintf(expected, sizeof expected, "%" G_GUINT64_FORMAT " line%s of messages", count, count == 1 ? "" : "s");
        g_snprintf(found, sizeof found, messages->len > count ? "more" : "%u", messages->len);
        refuse(r, "messages", expected, found);
    }
    const struct message *first = (const void *)messages->data;
    if (!r->failed) messages_deal(first, messages->len, (uint32_t)ranks, e);
    return !r->failed;
}

bool edges_read(const char *path, struct edges *e, GError **error)
{
    *e = (struct edges){ 0 };
    struct reader r = { .path = path, .line = 1, .error = error };
    r.stream = stream_open(path, error);
    if (!r.stream) return false;
    r.buffer = g_malloc(BUFFER_BYTES);
    const bool good = messages_read(&r, e);
    g_free(r.buffer);
    stream_close(r.stream);
    return good;
}
