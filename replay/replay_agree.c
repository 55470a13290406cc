/* replay_agree.c - before anything runs, the ranks compare what they are about to run: the program, every
 * option, and the routing itself.  A run of ranks that differ would not hang, it would measure nonsense. */
#include "replay/replay.h"

#include <string.h>
#include "sim/version.h"

enum { AGREE_BYTES = 6144 };

/* Options that may differ between hosts because they only name files. */
static bool option_is_path(const char *name)
{
    static const char *const paths[] = { "cluster", "trace", "trace-weights", NULL };
    return g_strv_contains(paths, name);
}

/* Lines "name value": what all ranks must have alike. */
static char *identity_text(const struct replay_plan *plan)
{
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "version %s\n", eptwin_version());
    const struct live_command *command = plan->command;
    for (uint32_t i = 0; case_option_name(i); i++) {
        if (option_is_path(case_option_name(i))) continue;
        g_autofree char *value = case_option_text(plan->case_options, i);
        g_string_append_printf(text, "%s %s\n", case_option_name(i), value ? value : "(default)");
    }
    g_string_append_printf(text, "fabric %s\nsignalling %d\nwarmup %u\nrepeat %u\nitems %u\n", command->live.fabric,
                           (int)command->live.signalling, plan->warmup, plan->repeat, plan->item_count);
    g_string_append_printf(text, "timeline %s\ntimeline-spans %u\n", plan->timeline ? "wanted" : "none",
                           plan->timeline_spans);
    g_string_append_printf(text, "sms %u\n", plan->item[0].job->num_sms);
    GChecksum *checksum = g_checksum_new(G_CHECKSUM_SHA256);
    for (uint32_t i = 0; i < plan->item_count; i++) {
        g_autofree char *digest = case_load_digest(plan->case_options, &plan->item[i].load);
        g_checksum_update(checksum, (const guchar *)digest, -1);
    }
    g_string_append_printf(text, "routing %s\n", g_checksum_get_string(checksum));
    g_checksum_free(checksum);
    return g_string_free(text, FALSE);
}

/* The first line in which the two differ becomes the error. */
static void identity_refuse(const char *first, const char *other, uint32_t rank, GError **error)
{
    g_auto(GStrv) expected = g_strsplit(first, "\n", 0);
    g_auto(GStrv) found = g_strsplit(other, "\n", 0);
    for (uint32_t i = 0; expected[i] && found[i]; i++) {
        if (strcmp(expected[i], found[i]) == 0) continue;
        g_autofree char *other_line = bootstrap_peer_text(found[i], strlen(found[i]));
        const char *value = strchr(expected[i], ' '), *other_value = strchr(other_line, ' ');
        g_set_error(error, LIVE_ERROR, LIVE_BAD_INPUT,
                    "%.*s: expected the same on all ranks, found%s on rank 0 and%s on rank %u",
                    (int)strcspn(expected[i], " "), expected[i], value ? value : "", other_value ? other_value : "",
                    rank);
        break;
    }
}

bool replay_agree(const struct replay_plan *plan, struct bootstrap *b, GError **error)
{
    g_autofree char *text = identity_text(plan);
    char mine[AGREE_BYTES] = "";
    g_strlcpy(mine, text, sizeof mine);
    char(*all)[AGREE_BYTES] = g_malloc0((gsize)AGREE_BYTES * b->rank_count);
    bool fine = bootstrap_allgather(b, mine, sizeof mine, all, error);
    for (uint32_t rank = 1; fine && rank < b->rank_count; rank++) {
        all[rank][AGREE_BYTES - 1] = '\0';
        if (strcmp(all[0], all[rank]) == 0) continue;
        identity_refuse(all[0], all[rank], rank, error);
        fine = false;
    }
    g_free(all);
    return fine;
}
