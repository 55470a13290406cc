/* json_stream.c - reads a JSON document value by value; see json_stream.h. */
#include "reports/import/json_stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <string.h>
#include "sim/error.h"

enum { BLOCK_BYTES = 1 << 16 };

struct json_stream {
    char *path;
    struct archive *archive;
    bool empty; /* a file without a byte, of which the archive has no data */
    uint8_t *block;
    size_t at, end;
    uint64_t before; /* how many bytes of the document come before the block */
    GString *kept;
};

bool json_stream_refuse(const struct json_stream *s, const char *expected, const char *found, GError **error)
{
    if (error && *error) return false; /* *error already says why */
    return error_input(error, "%s: offset %" G_GUINT64_FORMAT ": expected %s, found %s", s->path, s->before + s->at,
                       expected, found);
}

struct json_stream *json_stream_open(const char *path, GError **error)
{
    struct json_stream *s = g_new0(struct json_stream, 1);
    struct archive_entry *entry;
    const bool standard = strcmp(path, "-") == 0;
    s->path = g_strdup(standard ? "standard input" : path);
    s->kept = g_string_new(NULL);
    s->block = g_malloc(BLOCK_BYTES);
    s->archive = archive_read_new();
    g_assert(s->archive);
    archive_read_support_filter_gzip(s->archive);
    archive_read_support_filter_zstd(s->archive);
    archive_read_support_format_raw(s->archive);
    archive_read_support_format_empty(s->archive);
    const bool opened = archive_read_open_filename(s->archive, standard ? NULL : path, BLOCK_BYTES) == ARCHIVE_OK;
    const int header = opened ? archive_read_next_header(s->archive, &entry) : ARCHIVE_OK;
    s->empty = header == ARCHIVE_EOF;
    if (opened && header <= ARCHIVE_EOF && archive_errno(s->archive) == 0) return s;
    const char *cause = archive_error_string(s->archive);
    const int number = archive_errno(s->archive); /* of the system, or below 0 of libarchive */
    if (!opened && number > 0) error_input(error, "%s: cannot open: %s", s->path, g_strerror(number));
    else error_input(error, "%s: cannot read: %s", s->path, cause ? cause : "damaged");
    json_stream_close(s);
    return NULL;
}

void json_stream_close(struct json_stream *s)
{
    if (!s) return;
    archive_read_free(s->archive);
    g_string_free(s->kept, TRUE);
    g_free(s->block);
    g_free(s->path);
    g_free(s);
}

/* Loads the next block.  False at the end of the document, or with *error if loading fails. */
static bool block_load(struct json_stream *s, GError **error)
{
    s->before += s->end;
    s->at = s->end = 0;
    const la_ssize_t got = s->empty ? 0 : archive_read_data(s->archive, s->block, BLOCK_BYTES);
    if (got < 0) {
        const char *cause = archive_error_string(s->archive);
        return json_stream_refuse(s, "data", cause ? cause : "damage", error);
    }
    s->end = (size_t)got;
    const uint64_t packed = (uint64_t)archive_filter_bytes(s->archive, -1);
    if (s->before > JSON_STREAM_FREE && s->before / JSON_STREAM_RATIO_MAX > packed)
        return json_stream_refuse(s, "at most 1000 times the packed bytes", "more", error);
    return got > 0;
}

int json_stream_peek(struct json_stream *s, GError **error)
{
    for (;; s->at++) {
        if (s->at == s->end && !block_load(s, error)) return -1;
        const uint8_t byte = s->block[s->at];
        if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t') return byte;
    }
}

bool json_stream_take(struct json_stream *s, char byte, GError **error)
{
    const char expected[] = { '\'', byte, '\'', 0 };
    const int found = json_stream_peek(s, error);
    const char other[] = { '\'', (char)(found < ' ' || found > '~' ? '?' : found), '\'', 0 };
    if (found < 0) return json_stream_refuse(s, expected, "the end of the file (truncated?)", error);
    if (found != byte) return json_stream_refuse(s, expected, other, error);
    s->at++;
    return true;
}

/* The state of a scan over a value. */
struct scan {
    uint32_t depth;
    bool text, escape, begun, ended;
};

/* Scans one byte.  A byte that follows a scalar ends it, but belongs to what comes next.  *stays then tells the caller
 * not to take the byte. */
static void scan_byte(struct scan *scan, uint8_t byte, bool *stays)
{
    *stays = false;
    if (scan->text) {
        if (scan->escape) scan->escape = false;
        else if (byte == '\\') scan->escape = true;
        else if (byte == '"') {
            scan->text = false;
            scan->ended = scan->depth == 0;
        }
        return;
    }
    const bool closes = byte == '}' || byte == ']';
    if (scan->depth == 0 && scan->begun && (closes || byte == ',' || byte == ':' || byte <= ' ')) {
        *stays = scan->ended = true;
        return;
    }
    scan->begun = true;
    scan->text = byte == '"';
    scan->depth += byte == '{' || byte == '[';
    if (closes && scan->depth) scan->ended = --scan->depth == 0;
}

/* Returns the place of the next byte that changes the scan. Skips the letters of a string and, within brackets, all
 * bytes but quotes and brackets. */
static size_t bytes_skip(const uint8_t *block, size_t at, size_t end, const struct scan *scan)
{
    if (scan->text && !scan->escape)
        while (at < end && block[at] != '"' && block[at] != '\\') at++;
    else if (scan->depth && !scan->text)
        while (at < end && block[at] != '"' && (block[at] | 0x20) != '{' && (block[at] | 0x20) != '}') at++;
    return at;
}

bool json_stream_value(struct json_stream *s, bool keep, const char **text, size_t *size, GError **error)
{
    struct scan scan = { 0 };
    if (json_stream_peek(s, error) < 0)
        return json_stream_refuse(s, "a value", "the end of the file (truncated?)", error);
    if (strchr("}],:", s->block[s->at])) return json_stream_refuse(s, "a value", "none", error);
    g_string_truncate(s->kept, 0);
    while (!scan.ended) {
        if (s->at == s->end && !block_load(s, error)) {
            if (scan.depth == 0 && scan.begun && !scan.text && !(error && *error)) break; /* a scalar ends here, too */
            return json_stream_refuse(s, "the rest of a value", "the end of the file (truncated?)", error);
        }
        const size_t from = s->at;
        bool stays = false;
        while (s->at < s->end && !scan.ended) {
            s->at = bytes_skip(s->block, s->at, s->end, &scan);
            if (s->at == s->end) break;
            scan_byte(&scan, s->block[s->at], &stays);
            if (!stays) s->at++;
        }
        if (keep) g_string_append_len(s->kept, (const char *)s->block + from, (gssize)(s->at - from));
        if (s->kept->len > JSON_STREAM_VALUE_MAX)
            return json_stream_refuse(s, "a value of at most 8 MiB", "more", error);
    }
    if (keep) *text = s->kept->str;
    if (keep) *size = s->kept->len;
    return true;
}
