/* agree.c - compares the texts of all ranks.  Each rank first sends a digest of its text.  If two digests differ,
 * the ranks exchange their texts to find the line that differs.
 *
 * This file knows the options of links, but no other option of a command. */
#include "replay/agree.h"

#include <string.h>
#include "sim/version.h"

/* A value of up to this many bytes is written out.  Of a longer value, its beginning and its digest are written. */
enum { VALUE_BYTES_MAX = 160 };
/* Limits in bytes of the text of one rank and of the texts of all ranks.  A longer text is cut before it is
 * exchanged. */
enum { TEXT_BYTES_MAX = 1 << 16, TEXTS_BYTES_MAX = 1 << 26 };

/* What a rank sends in the first exchange. */
struct agree_card {
    uint64_t size_bytes; /* length of the text, with its NUL */
    char digest[72];
};
_Static_assert(sizeof(struct agree_card) == 80, "crosses the bootstrap");

void agree_add(GString *text, const char *name, const char *value)
{
    g_autofree char *plain = value ? g_strescape(value, NULL) : g_strdup("(default)");
    const size_t size_bytes = strlen(plain);
    if (size_bytes <= VALUE_BYTES_MAX) {
        g_string_append_printf(text, "%s %s\n", name, plain);
        return;
    }
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, plain, -1);
    g_string_append_printf(text, "%s %.*s... (%zu characters, SHA-256 %.16s)\n", name, VALUE_BYTES_MAX / 4, plain,
                           size_bytes, digest);
}

void agree_add_number(GString *text, const char *name, uint64_t value)
{
    g_string_append_printf(text, "%s %" G_GUINT64_FORMAT "\n", name, value);
}

void agree_add_command(GString *text, const struct live_command *command)
{
    const struct live_options *live = &command->live;
    agree_add(text, "version", eptwin_version());
    agree_add(text, "fabric", live->fabric);
    agree_add(text, "provider", live->provider);
    agree_add(text, "signalling", command->signalling ? command->signalling : "write");
    agree_add(text, "gpu-memory", live->gpu_memory ? "true" : "false");
    agree_add_number(text, "sl", live->service_level);
    agree_add_number(text, "traffic-class", live->traffic_class);
    agree_add_number(text, "timeout", live->timeout_ms / 1000);
}

/* Sets *error to a message about the first line in which rank 0's text `first` differs from the text `other` of
 * `rank`. */
static void agree_refuse(const char *first, const char *other, uint32_t rank, GError **error)
{
    g_auto(GStrv) expected = g_strsplit(first, "\n", 0);
    g_auto(GStrv) found = g_strsplit(other, "\n", 0);
    uint32_t line = 0;
    while (expected[line] && found[line] && strcmp(expected[line], found[line]) == 0) line++;
    const char *mine = expected[line] ? expected[line] : "";
    g_autofree char *theirs = text_printable(found[line] ? found[line] : "", strlen(found[line] ? found[line] : ""));
    const char *value = strchr(mine, ' '), *other_value = strchr(theirs, ' ');
    error_input(error, "%.*s: expected the same on all ranks, found%s on rank 0 and%s on rank %u",
                (int)strcspn(mine, " "), mine, value ? value : " nothing",
                other_value ? other_value : " something else", rank);
}

/* Exchanges all texts, each padded to the length of the longest.  Sets *error to a message that says in which line
 * the text of `rank` differs from that of rank 0. */
static bool agree_compare(struct bootstrap *b, const GString *text, uint64_t size_bytes, uint32_t rank, GError **error)
{
    g_autofree char *mine = g_malloc0(size_bytes);
    g_autofree char *all = g_malloc0(size_bytes * b->rank_count);
    memcpy(mine, text->str, MIN(text->len, size_bytes));
    if (!bootstrap_allgather(b, mine, size_bytes, all, error)) return false;
    for (uint32_t r = 0; r < b->rank_count; r++) all[(r + 1) * size_bytes - 1] = '\0';
    agree_refuse(all, all + rank * size_bytes, rank, error);
    return false;
}

bool agree_run(struct bootstrap *b, const GString *text, GError **error)
{
    const uint64_t size_bytes_max = MIN(TEXT_BYTES_MAX, TEXTS_BYTES_MAX / b->rank_count);
    struct agree_card mine = { .size_bytes = text->len + 1 };
    g_autofree struct agree_card *all = g_new0(struct agree_card, b->rank_count);
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text->str, (gssize)text->len);
    uint64_t size_bytes = 0;
    uint32_t different = 0;
    g_strlcpy(mine.digest, digest, sizeof mine.digest);
    if (!bootstrap_allgather(b, &mine, sizeof mine, all, error)) return false;
    for (uint32_t r = 0; r < b->rank_count; r++) {
        size_bytes = MAX(size_bytes, MIN(all[r].size_bytes, size_bytes_max));
        if (!different && memcmp(all[r].digest, all[0].digest, sizeof all[r].digest) != 0) different = r;
    }
    return !different || agree_compare(b, text, MAX(size_bytes, 1), different, error);
}
