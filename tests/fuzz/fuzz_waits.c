/* fuzz_waits.c - libFuzzer target of the message about waiting ranks.  Whatever texts and peers the ranks report, the
 * message must name a rank that exists and must not move the cursor. */
#include <stdlib.h>
#include <string.h>

#include "models/waits.h"
#include "replay/bootstrap/bootstrap_internal.h"

enum { RANKS_MAX = 8 };

static void words_read(const uint8_t *data, size_t size_bytes)
{
    g_autofree char *text = g_strndup((const char *)data, size_bytes);
    for (uint32_t ranks = 1; ranks < 70000; ranks *= 7) {
        const int32_t peer = waits_peer(text, ranks);
        if (peer != WAITS_NOBODY && (peer < 0 || (uint32_t)peer >= ranks)) abort();
    }
    if (waits_anybody(text) && !strstr(text, "any rank")) abort();
}

static void root_find(const uint8_t *data, size_t size_bytes)
{
    struct bootstrap_wait wait[RANKS_MAX] = { 0 };
    enum hang_answer answer[RANKS_MAX];
    const uint32_t ranks = 1 + data[0] % RANKS_MAX, first = data[1] % ranks;
    const uint8_t silent = data[2], stopped = data[3];
    for (uint32_t r = 0; r < ranks; r++)
        answer[r] = r == first || !(silent >> r & 1) ? HANG_ANSWERED : stopped >> r & 1 ? HANG_STOPPED : HANG_SILENT;
    memcpy(wait, data + 4, MIN(size_bytes - 4, sizeof wait));
    g_autofree char *text = bootstrap_hang_text(wait, answer, ranks, first);
    char *end;
    if (!g_str_has_prefix(text, "rank")) abort();
    if (strtoul(text + (text[4] == 's' ? 6 : 5), &end, 10) >= ranks) abort();
    if (!strstr(end, text[4] == 's' ? " hold up the run: " : " holds up the run: ")) abort();
    for (const char *c = text; *c; c++)
        if (g_ascii_iscntrl(*c)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    words_read(data, size_bytes);
    if (size_bytes >= 5) root_find(data, size_bytes);
    return 0;
}
