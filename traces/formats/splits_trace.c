/* splits_trace.c - PyTorch's all-to-all split sizes, one line a rank.
 *
 * A matrix of split sizes has no experts and no tokens, only the count from each source to each destination.  A count
 * is read as that many tokens with one expert each, the first (and only) expert of the destination.  So the same bytes
 * move between the same ranks, and nothing is invented. */
#include <string.h>
#include "traces/table.h"

enum { SPLITS_TEXT_MAX = 256 << 20, SPLITS_RANKS_MAX = 16384, SPLITS_TOKENS_MAX = 1 << 26 };

struct splits_reader {
    struct trace *trace;
    struct stream *stream;
    struct table *table;
    uint32_t token_bytes, line;
    uint32_t ranks, step, source; /* ranks: the number of columns of the first line */
    uint64_t tokens;
};

static bool splits_error(const struct splits_reader *r, GError **error, const char *field, const char *expected,
                         const char *found)
{
    return error_input(error, "%s: line %u: %s: expected %s, found '%.40s'", r->trace->path, r->line, field, expected,
                       found);
}

/* Adds one split: the tokens from this line's rank to destination. */
static bool split_add(struct splits_reader *r, uint32_t destination, const char *word, GError **error)
{
    guint64 bytes;
    char expected[64];
    if (!g_ascii_string_to_unsigned(word, 10, 0, G_MAXINT64, &bytes, NULL))
        return splits_error(r, error, "split size", "a number", word);
    g_snprintf(expected, sizeof expected, "a multiple of %u bytes a token", r->token_bytes);
    if (bytes % r->token_bytes) return splits_error(r, error, "split size", expected, word);
    const uint64_t tokens = bytes / r->token_bytes;
    if (tokens > SPLITS_TOKENS_MAX || (r->tokens += tokens) > SPLITS_TOKENS_MAX)
        return splits_error(r, error, "split size", "at most 2^26 tokens in all", word);
    /* A few digits can ask for much memory.  The limit is the one for decompressed data (stream.h). */
    if (!stream_check_growth(r->stream, r->tokens * sizeof(int32_t), NULL))
        return splits_error(r, error, "split size", "at most 250 tokens a byte of the file", word);
    struct table_rows *const rows = table_rows(r->table, r->step, 0, r->source);
    if (!rows) return splits_error(r, error, "line", TABLE_FULL, "one more");
    for (uint64_t t = 0; t < tokens; t++) *table_row_add(r->table, rows, NULL) = (int32_t)destination;
    return true;
}

/* Reads one line: the splits of one rank, a column for each destination.  A step has a line for each rank. */
static bool splits_line(struct splits_reader *r, char *line, GError **error)
{
    g_auto(GStrv) words = g_strsplit_set(line, ", \t\r[]", -1);
    uint32_t columns = 0;
    bool good = true;
    for (char **word = words; good && *word; word++) {
        if (**word == 0) continue;
        if (columns == SPLITS_RANKS_MAX) good = splits_error(r, error, "columns", "at most 16384", *word);
        else good = split_add(r, columns++, *word, error);
    }
    if (!good || columns == 0) return good;
    r->ranks = r->ranks ? r->ranks : columns;
    if (columns != r->ranks) {
        char expected[32], found[32];
        g_snprintf(expected, sizeof expected, "%u", r->ranks);
        g_snprintf(found, sizeof found, "%u", columns);
        return splits_error(r, error, "columns", expected, found);
    }
    r->source++;
    if (r->source == r->ranks) {
        r->source = 0;
        r->step++;
    }
    return true;
}

static bool splits_parse(struct splits_reader *r, char *text, GError **error)
{
    bool good = true;
    for (char *line = text, *end; good && line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        r->line++;
        if (*line != '#') good = splits_line(r, line, error);
    }
    if (good && (r->source || !r->step))
        good = splits_error(r, error, "lines", "as many lines as columns a step", "the end of the file");
    return good;
}

bool splits_trace_open(struct trace *trace, struct stream *stream, uint32_t token_bytes,
                       const struct trace_options *options, GError **error)
{
    enum { CHUNK_BYTES = 1 << 18 };
    struct splits_reader reader = { .trace = trace, .stream = stream, .token_bytes = token_bytes };
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *chunk = g_malloc(CHUNK_BYTES);
    size_t got = 0;
    bool good;
    trace->info.format = "splits";
    do {
        good = stream_read(stream, chunk, CHUNK_BYTES, &got, error);
        g_string_append_len(text, chunk, (gssize)got);
        if (good && text->len > SPLITS_TEXT_MAX) good = splits_error(&reader, error, "text", "at most 256 MiB", "more");
    } while (good && got == CHUNK_BYTES);
    reader.table = table_new(1);
    good = good && splits_parse(&reader, text->str, error);
    stream_close(stream);
    if (good) {
        /* There is one expert a rank, because expert d must be on rank d.  Another number from the user is refused. */
        const struct table_claims claims = {
            .steps = reader.step, .layers = 1, .ranks = reader.ranks, .experts = reader.ranks
        };
        if (!options->experts || options->experts == reader.ranks)
            return table_serve(reader.table, &claims, trace, error);
        good = splits_error(&reader, error, "experts", "one a rank", "another number");
    }
    table_free(reader.table);
    return false;
}
