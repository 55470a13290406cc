/* which_command.c - eptwin which: ranks libraries' kernels, with their transports, for a cluster and a routing. */
#include <glib.h>
#include <string.h>

#include "models/predict/which.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/version.h"

static const char which_about[] =
    "Predicts a layer's dispatch and combine with every backend that the cluster supports, on the same routing,\n"
    "and ranks them.  Shows what bounds each and the SMs it takes, and at which batch sizes the order changes.\n"
    "\n"
    "  eptwin which --cluster h100-cx7 --num-ranks 16\n"
    "  eptwin which --cluster h100-cx7 --num-ranks 16 --num-tokens 4096 --by dispatch --at-tokens none\n"
    "  eptwin which --cluster h800-cx7 --trace routing.ept --layer 3 --at-ranks 8,16,32 --output which.csv";

static const char which_details[] =
    "A backend is a library's kernels and, between nodes, what posts to the NICs (eptwin cluster backends).\n"
    "--kernel and --backend limit the candidates.  Each backend uses its library's settings unless\n"
    "options change them.";

/* If the user names no batches, backends are compared at the case's batch times these factors, which are in 64ths. */
static const uint32_t ladder[] = { 1, 4, 16, 256 };
enum { LADDER_ONE = 64, LADDER_TOKENS_MAX = 4096, POINTS_MAX = 64, TOKENS_MAX = 1 << 20, RANKS_MAX = 65535 };
/* A change of the order is narrowed down until the batches on its two sides differ by at most a third. */
enum { NEAR_NUMERATOR = 4, NEAR_DENOMINATOR = 3 };

struct which_arguments {
    char *output, *format, *by, *at_tokens, *at_ranks;
    char **set;
    int jobs;
    struct ranges tokens, ranks;
};

static bool numbers_parse(const char *option, const char *text, uint32_t most, struct ranges *numbers, GError **error)
{
    if (!text || strcmp(text, "none") == 0) return true;
    bool good = ranges_parse(text, most + 1, POINTS_MAX, numbers);
    for (uint32_t i = 0; good && i < numbers->count; i++) good = numbers->number[i] > 0;
    if (good) return true;
    return error_input(
        error,
        "--%s: expected 1 to %d numbers from 1 to %u (N, A:B, A:B:STEP, A:B:xFACTOR or a list), or none, found "
        "'%s'",
        option, POINTS_MAX, most, text);
}

static bool by_parse(const char *text, enum which_time *by, GError **error)
{
    for (*by = 0; *by < WHICH_TIMES; (*by)++)
        if (!text || strcmp(text, which_time_name(*by)) == 0) return true;
    return error_input(error, "--by: expected layer, dispatch or combine, found '%s'", text);
}

static bool which_parse(struct which *w, struct which_arguments *a, int argc, char **argv, GError **error)
{
    GOptionEntry own[] = {
        { "by", 0, 0, G_OPTION_ARG_STRING, &a->by, "Time to rank by: layer (the default), dispatch or combine",
          "TIME" },
        { "at-tokens", 0, 0, G_OPTION_ARG_STRING, &a->at_tokens,
          "Also rank at these batch sizes (default: 1/64, 1/16, 1/4 and 4 times --num-tokens, and between two where "
          "the order changes); or none",
          "N,N,..." },
        { "at-ranks", 0, 0, G_OPTION_ARG_STRING, &a->at_ranks, "Also rank with these numbers of ranks", "N,N,..." },
        { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &a->set,
          "Override a key of the cluster file, as in --set nic.rate=50GB/s (may be repeated)", "SECTION.KEY=VALUE" },
        COMMAND_LINE_OUTPUT(&a->output, "Write the record here (- is standard output) instead of text"),
        COMMAND_LINE_FORMAT(&a->format, "Of the record: csv (default) or json"),
        COMMAND_LINE_JOBS(&a->jobs, "Threads (default: one per core)"),
        { 0 },
    };
    struct command_topic topics[CASE_TOPICS + 2] = { { "Options", own, false } };
    const struct command_line line = {
        .name = "which", .about = which_about, .details = which_details, .topics = topics
    };
    enum record_format format;
    case_topics(&w->base, topics + 1);
    if (!command_line_parse(&line, argc, argv, NULL, error)) return false;
    w->jobs = a->jobs > 0 ? (uint32_t)a->jobs : g_get_num_processors();
    if (!by_parse(a->by, &w->by, error)) return false;
    if (!numbers_parse("at-tokens", a->at_tokens, TOKENS_MAX, &a->tokens, error)) return false;
    if (!numbers_parse("at-ranks", a->at_ranks, RANKS_MAX, &a->ranks, error)) return false;
    if (a->format && !record_table_format_parse(a->format, &format, error)) return false;
    if (a->format && !a->output) return error_input(error, "--format: expected --output with it, found none");
    if (!w->base.cluster)
        return error_input(error, "--cluster: expected a file or a name that eptwin cluster list prints, found none");
    if (g_strcmp0(w->base.trace, "-") == 0)
        return error_input(error, "--trace: expected a file, because it is read for each batch, found standard input");
    if (a->tokens.count && (w->base.tokens_per_rank || w->base.traffic))
        return error_input(error, "--at-tokens: expected no --tokens-per-rank and no --traffic with it, found one");
    if (a->ranks.count && (w->base.tokens_per_rank || w->base.traffic))
        return error_input(error, "--at-ranks: expected no --tokens-per-rank and no --traffic with it, found one");
    return true;
}

/* ---- points ---- */

static bool tokens_can_vary(const struct which *w) { return !w->base.tokens_per_rank && !w->base.traffic; }

/* Adds batches if the user named none.  With a trace, only smaller batches than its own are possible. */
static void ladder_fill(const struct which *w, struct which_arguments *a)
{
    if (a->at_tokens || !tokens_can_vary(w)) return;
    a->tokens.number = g_new0(uint32_t, G_N_ELEMENTS(ladder)); /* ranges_free() may free it: g_free() is free() */
    for (size_t i = 0; i < G_N_ELEMENTS(ladder); i++) {
        const uint64_t tokens = (uint64_t)w->tokens * ladder[i] / LADDER_ONE;
        const bool more = tokens > w->tokens;
        if (tokens && !(more && (w->base.trace || tokens > LADDER_TOKENS_MAX)))
            a->tokens.number[a->tokens.count++] = (uint32_t)tokens;
    }
}

static bool point_have(const struct which *w, uint32_t ranks, uint32_t tokens)
{
    for (guint i = 0; i < w->points->len; i++) {
        const struct which_point *p = w->points->pdata[i];
        if (p->ranks == ranks && p->tokens == tokens) return true;
    }
    return false;
}

static bool point_ask(struct which *w, uint32_t ranks, uint32_t tokens, GError **error)
{
    if (point_have(w, ranks, tokens) || which_point_add(w, ranks, tokens, error)) return true;
    g_prefix_error(error, "%u ranks, %u tokens: ", ranks, tokens);
    return false;
}

/* The next larger batch that has been predicted.  NULL: there is none. */
static const struct which_point *point_above(const struct which *w, const struct which_point *from)
{
    const struct which_point *next = NULL;
    for (guint i = 0; i < w->points->len; i++) {
        const struct which_point *p = w->points->pdata[i];
        if (p->ranks == from->ranks && p->tokens > from->tokens && (!next || p->tokens < next->tokens)) next = p;
    }
    return next;
}

/* Finds a wide interval of batches in which the fastest backend changes, and sets *tokens to a batch in its middle. */
static bool turn_find(const struct which *w, uint32_t *tokens)
{
    for (guint i = 0; i < w->points->len; i++) {
        const struct which_point *from = w->points->pdata[i], *to = point_above(w, from);
        if (!to || from->ranks != w->ranks || which_first(w, from) == which_first(w, to)) continue;
        const uint64_t low = from->tokens, high = to->tokens;
        if (NEAR_DENOMINATOR * high <= NEAR_NUMERATOR * low || high - low < 2) continue;
        *tokens = (uint32_t)MAX(low + 1, 2 * low * high / (low + high)); /* the harmonic mean */
        return true;
    }
    return false;
}

static bool points_run(struct which *w, struct which_arguments *a, GError **error)
{
    ladder_fill(w, a);
    const uint32_t count = 1 + a->tokens.count + a->ranks.count;
    g_autofree uint32_t *ranks = g_new(uint32_t, count), *tokens = g_new(uint32_t, count);
    for (uint32_t i = 0; i < count; i++) {
        const bool by_ranks = i > a->tokens.count;
        ranks[i] = by_ranks ? a->ranks.number[i - 1 - a->tokens.count] : w->ranks;
        tokens[i] = !i || by_ranks ? w->tokens : a->tokens.number[i - 1];
    }
    which_estimate(w, ranks, tokens, count);
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) good = point_ask(w, ranks[i], tokens[i], error);
    for (uint32_t between; good && !a->at_tokens && w->points->len < POINTS_MAX && turn_find(w, &between);)
        good = which_point_add(w, w->ranks, between, error);
    return good;
}

/* ---- the command ---- */

static void header_record(const struct which *w, const struct which_arguments *a, struct record *record)
{
    record_set(record, "kind", "which");
    record_set(record, "version", "%s", eptwin_version());
    for (uint32_t i = 0; case_option_name(i); i++) {
        const char *name = case_option_name(i);
        g_autofree char *value = case_option_given(&w->base, name) ? case_option_text(&w->base, i) : NULL;
        g_autofree char *digest = value && case_option_names_file(i) ? case_file_digest(i, value) : NULL;
        g_autofree char *key = g_strdup_printf("%s-digest", name);
        if (value) record_set(record, name, "%s", value);
        if (digest) record_set(record, key, "%s", digest);
    }
    g_autofree char *set = a->set ? g_strjoinv(" ", a->set) : NULL;
    if (set) record_set(record, "set", "%s", set);
    record_set(record, "cluster", "%s", w->cluster->name);
    record_set(record, "cluster-digest", "%s", w->cluster->digest);
}

static bool which_write(const struct which *w, const struct which_arguments *a, GError **error)
{
    if (!a->output) {
        g_autoptr(GString) text = g_string_new(NULL);
        which_text_append(w, text);
        return whole_file_write("-", text->str, text->len, error);
    }
    enum record_format format = RECORD_CSV;
    g_autoptr(record) record = record_new();
    header_record(w, a, record);
    which_record(w, record);
    return (!a->format || record_table_format_parse(a->format, &format, error)) &&
           record_write(record, a->output, format, error);
}

static bool which_run(struct which *w, struct which_arguments *a, GError **error)
{
    if (a->output && !new_file_possible(a->output, error)) return false;
    if (!which_begin(w, error) || !points_run(w, a, error) || !which_write(w, a, error)) return false;
    const struct which_point *own = w->points->pdata[0];
    if (!own->good) error_input(error, "%s: none of %u backends can run", w->cluster->path, own->asked);
    return own->good > 0;
}

int command_which(int argc, char **argv)
{
    GError *error = NULL;
    struct which w = { 0 };
    struct which_arguments a = { 0 };
    g_autoptr(cluster) cluster = NULL;
    case_init(&w.base);
    bool good = which_parse(&w, &a, argc, argv, &error) &&
                (cluster = cluster_load_set(w.base.cluster, (const char *const *)a.set, &error)) != NULL;
    w.cluster = cluster;
    good = good && which_run(&w, &a, &error);
    const int status = good ? EXIT_OK : command_line_fail("which", error);
    which_clear(&w);
    ranges_free(&a.tokens);
    ranges_free(&a.ranks);
    return status;
}
