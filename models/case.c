/* case.c - the table of options of a case and what it serves: command lines, CSV columns, record headers.
 *
 * Knows names, types, ranges and defaults.  Knows no routing and no world; case_routing.c turns a case into
 * what the protocol takes. */
#include "models/case.h"

#include <stddef.h>
#include <string.h>
#include "sim/nearest.h"

enum field_type { FIELD_COUNT, FIELD_SEED, FIELD_FLAG, FIELD_CHOICE, FIELD_TEXT };

struct field {
    const char     *name;
    enum field_type type;
    size_t          offset;
    uint32_t        least, most;        /* what a user may say (FIELD_COUNT) */
    uint32_t        initial;            /* before anybody says anything; 0 may be below least: decided later */
    const char     *choices;            /* "a|b|c", the first is the default unless initial_text says so */
    const char     *argument;           /* in --help */
    const char     *help;
};

#define AT(member) offsetof(struct case_options, member)
#define COUNT(name, member, least, most, initial, help) \
    { name, FIELD_COUNT, AT(member), least, most, initial, NULL, "N", help }
#define FLAG(name, member, help) { name, FIELD_FLAG, AT(member), 0, 0, 0, NULL, NULL, help }
#define TEXT(name, member, argument, help) { name, FIELD_TEXT, AT(member), 0, 0, 0, NULL, argument, help }
#define CHOICE(name, member, choices, help) { name, FIELD_CHOICE, AT(member), 0, 0, 0, choices, "NAME", help }

static const struct field field_table[] = {
    CHOICE("kernel", kernel, "ll|normal|v2",
           "Kernel family: ll (low latency, the default), normal (high throughput) or v2"),
    COUNT("num-tokens", num_tokens, 1, 1 << 20, 0,
          "Tokens of each rank (default 128 for ll, else 4096; of a trace: at most this many)"),
    TEXT("tokens-per-rank", tokens_per_rank, "N|N|...", "Tokens of each rank where they differ"),
    COUNT("hidden", hidden, 1, 1 << 20, 7168, "Values in a token (default 7168)"),
    COUNT("num-topk", num_topk, 1, 256, 0, "Experts that a token goes to (default 8, or the trace's)"),
    COUNT("num-experts", num_experts, 1, 1 << 20, 0,
          "Experts of all ranks (default 288 for ll, else 256, or the trace's)"),
    COUNT("num-topk-groups", num_topk_groups, 0, 65535, 0,
          "Nodes that the experts of a token lie on (default: at most 4)"),
    COUNT("num-ranks", num_ranks, 1, 65535, 0, "GPUs (default 8, or the trace's; of a trace: the first N)"),
    COUNT("ranks-per-node", ranks_per_node, 1, 65535, 0,
          "GPUs that reach each other by NVLink (default: the cluster's; replay: all ranks of a host)"),
    CHOICE("dtype", dtype, "fp8|bf16", "Format of dispatched tokens: fp8 (the default) or bf16"),
    FLAG("disable-nvlink", disable_nvlink, "Low latency: peers of the same node are reached by RDMA too"),
    FLAG("hook", hook, "Low latency: send and receive as kernels of their own"),
    FLAG("zero-copy", zero_copy, "Low latency combine: rows already lie in the send buffer"),
    TEXT("mask-timeout", mask_timeout, "TIME",
         "Low latency: mask ranks that keep others waiting longer than this (as 100us; default: wait for ever)"),
    TEXT("fail", fail, "RANK@CALL|...",
         "Low latency: these ranks fail when they first come to dispatch, combine or clean (needs --mask-timeout)"),
    FLAG("cached", cached, "Normal, v2: dispatch with a cached handle (normal: no top-k, as the public tuning loop)"),
    FLAG("cpu-sync", cpu_sync, "V2: the host waits for the counts before it launches dispatch's second kernel"),
    FLAG("overlap", overlap, "V2: choose as few SMs as the links need, not 64 at least"),
    FLAG("weights", weights, "Normal combine: carry the top-k weights"),
    FLAG("round-scale", round_scale, "FP8 scales are powers of two"),
    FLAG("ue8m0", ue8m0, "FP8 scales are stored as exponents (needs --round-scale)"),
    FLAG("worst-tokens", worst_tokens, "Normal: outputs sized at the worst case, no wait of the host"),
    COUNT("num-sms", num_sms, 1, 4096, 0, "SMs that the kernels use (default 24; ll: all of the GPU)"),
    COUNT("num-bias", num_bias, 0, 2, 0, "Normal combine: bias tensors, 0 to 2"),
    COUNT("expert-alignment", expert_alignment, 1, 65536, 1, "Normal: counts of experts are multiples of this"),
    COUNT("nvl-chunk", nvl_chunk, 0, 65536, 0, "Dispatch: tokens in an NVLink chunk (0: as recommended)"),
    COUNT("rdma-chunk", rdma_chunk, 0, 65536, 0, "Dispatch: tokens in an RDMA chunk (0: as recommended)"),
    COUNT("nvl-buffer", nvl_buffer, 0, 65536, 0, "Dispatch: slots of an NVLink ring (0: as recommended)"),
    COUNT("rdma-buffer", rdma_buffer, 0, 65536, 0, "Dispatch: slots of an RDMA ring (0: as recommended)"),
    COUNT("combine-nvl-chunk", combine_nvl_chunk, 0, 65536, 0, "The same of combine"),
    COUNT("combine-rdma-chunk", combine_rdma_chunk, 0, 65536, 0, "The same of combine"),
    COUNT("combine-nvl-buffer", combine_nvl_buffer, 0, 65536, 0, "The same of combine"),
    COUNT("combine-rdma-buffer", combine_rdma_buffer, 0, 65536, 0, "The same of combine"),
    { "seed", FIELD_SEED, AT(seed), 0, 0, 0, NULL, "N", "Seed of all that is drawn (default 0)" },
    CHOICE("data", data, "pattern|constant|random",
           "What tokens hold: pattern (default of ll), constant (default of the others) or random"),
    TEXT("routing", routing, "NAME[:VALUE]", "How routing is drawn: uniform (the default), zipf:S, hot-rank:P, ..."),
    COUNT("masked", masked, 0, 1 << 24, 0,
          "Drawn routing: that many places of each rank go to no expert (public low-latency test: 10)"),
    TEXT("cluster", cluster, "FILE", "The cluster to predict for"),
    CHOICE("launch", launch, "barrier|stream",
           "Simulated ranks launch a kernel: together (barrier, the default), or when their last one ended (stream)"),
    TEXT("arrival", arrival, "SPEC",
         "How late simulated ranks launch: uniform:20us, exp:5us, 0us|3us|... or file:PATH (a time a line)"),
    TEXT("slow", slow, "RANK:2x|...", "Simulated ranks whose GPUs take that many times as long"),
    TEXT("trace", trace, "FILE", "Routing from a captured trace"),
    TEXT("trace-weights", trace_weights, "FILE", "Gate weights of the trace, where they are a file of their own"),
    COUNT("step", step, 0, UINT32_MAX - 1, 0, "Step of the trace (default 0)"),
    COUNT("layer", layer, 0, UINT32_MAX - 1, 0, "Layer of the trace (default 0)"),
    TEXT("traffic", traffic, "N|N;N|N",
         "Draw routing with exactly this many tokens from each source (;) to each rank, or to each expert (|)"),
    TEXT("placement", placement, "SPEC", "Place experts: file:PATH, greedy or eplb:REDUNDANT[:GROUPS]"),
};

enum { FIELDS = sizeof field_table / sizeof field_table[0] };

static uint32_t *field_u32(const struct case_options *c, const struct field *f)
{
    return (uint32_t *)(void *)((char *)c + f->offset);
}

static uint64_t *field_u64(const struct case_options *c, const struct field *f)
{
    return (uint64_t *)(void *)((char *)c + f->offset);
}

static bool *field_flag(const struct case_options *c, const struct field *f)
{
    return (bool *)(void *)((char *)c + f->offset);
}

static char **field_text(const struct case_options *c, const struct field *f)
{
    return (char **)(void *)((char *)c + f->offset);
}

static bool field_is_text(const struct field *f) { return f->type == FIELD_TEXT || f->type == FIELD_CHOICE; }

void case_init(struct case_options *c)
{
    *c = (struct case_options){ 0 };
    for (uint32_t i = 0; i < FIELDS; i++)
        if (field_table[i].type == FIELD_COUNT) *field_u32(c, &field_table[i]) = field_table[i].initial;
}

void case_clear(struct case_options *c)
{
    for (uint32_t i = 0; i < FIELDS; i++)
        if (field_is_text(&field_table[i])) g_free(*field_text(c, &field_table[i]));
    *c = (struct case_options){ 0 };
}

void case_copy(struct case_options *to, const struct case_options *from)
{
    *to = *from;
    for (uint32_t i = 0; i < FIELDS; i++) {
        const struct field *f = &field_table[i];
        if (field_is_text(f)) *field_text(to, f) = g_strdup(*field_text(from, f));
    }
}

/* Whether a and b are the same but for '-' and '_', which scripts and spreadsheets write as they like. */
static bool name_matches(const char *a, const char *b)
{
    for (;;) {
        while (*a == '-' || *a == '_') a++;
        while (*b == '-' || *b == '_') b++;
        if (*a != *b) return false;
        if (*a == '\0') return true;
        a++;
        b++;
    }
}

/* By its name, or without "num-": "tokens", "ranks", "topk" are what tables of measurements call them. */
static const struct field *field_find(const char *name)
{
    for (uint32_t i = 0; i < FIELDS; i++) {
        const char *own = field_table[i].name;
        if (name_matches(own, name) || (g_str_has_prefix(own, "num-") && name_matches(own + 4, name)))
            return &field_table[i];
    }
    return NULL;
}

bool case_has(const char *name) { return field_find(name) != NULL; }

const char *case_option_find(const char *name)
{
    const struct field *f = field_find(name);
    return f ? f->name : NULL;
}

const char *case_option_nearest(const char *name)
{
    const char *names[2 * FIELDS + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < FIELDS; i++) {
        names[count++] = field_table[i].name;
        if (g_str_has_prefix(field_table[i].name, "num-")) names[count++] = field_table[i].name + 4;
    }
    names[count] = NULL;
    g_autofree char *dashed = g_strdelimit(g_strdup(name), "_", '-');
    return nearest_find(dashed, names);
}

const char *case_option_name(uint32_t index) { return index < FIELDS ? field_table[index].name : NULL; }

char *case_option_text(const struct case_options *c, uint32_t index)
{
    const struct field *f = &field_table[index];
    switch (f->type) {
    case FIELD_COUNT: return g_strdup_printf("%u", *field_u32(c, f));
    case FIELD_SEED:  return g_strdup_printf("%" G_GUINT64_FORMAT, *field_u64(c, f));
    case FIELD_FLAG:  return g_strdup(*field_flag(c, f) ? "true" : "false");
    default:          return g_strdup(*field_text(c, f));
    }
}

static bool value_refuse(const struct field *f, const char *expected, const char *text, GError **error)
{
    g_set_error(error, CASE_ERROR, CASE_ERROR_VALUE, "%s: expected %s, found '%s'", f->name, expected, text);
    return false;
}

static bool count_set(struct case_options *c, const struct field *f, const char *text, GError **error)
{
    guint64 value;
    if (g_ascii_string_to_unsigned(text, 10, f->least, f->most, &value, NULL)) {
        *field_u32(c, f) = (uint32_t)value;
        return true;
    }
    char *expected = g_strdup_printf("a whole number from %u to %u", f->least, f->most);
    value_refuse(f, expected, text, error);
    g_free(expected);
    return false;
}

static bool flag_set(struct case_options *c, const struct field *f, const char *text, GError **error)
{
    static const char *const words[] = { "false", "true", "0", "1", "no", "yes" };
    for (uint32_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (g_ascii_strcasecmp(text, words[i]) == 0) {
            *field_flag(c, f) = i % 2;
            return true;
        }
    return value_refuse(f, "true or false", text, error);
}

static bool choice_set(struct case_options *c, const struct field *f, const char *text, GError **error)
{
    char **choice = g_strsplit(f->choices, "|", 0);
    const bool known = g_strv_contains((const char *const *)choice, text);
    if (known) {
        g_free(*field_text(c, f));
        *field_text(c, f) = g_strdup(text);
    } else {
        char *list = g_strjoinv(", ", choice);
        char *expected = g_strconcat("one of ", list, NULL);
        value_refuse(f, expected, text, error);
        g_free(expected);
        g_free(list);
    }
    g_strfreev(choice);
    return known;
}

static bool field_set(struct case_options *c, const struct field *f, const char *text, GError **error)
{
    guint64 seed;
    switch (f->type) {
    case FIELD_COUNT:  return count_set(c, f, text, error);
    case FIELD_FLAG:   return flag_set(c, f, text, error);
    case FIELD_CHOICE: return choice_set(c, f, text, error);
    case FIELD_SEED:
        if (!g_ascii_string_to_unsigned(text, 10, 0, G_MAXUINT64, &seed, NULL))
            return value_refuse(f, "a whole number of 64 bits", text, error);
        *field_u64(c, f) = seed;
        return true;
    case FIELD_TEXT:
        if (*text == '\0') return value_refuse(f, f->argument, text, error);
        g_free(*field_text(c, f));
        *field_text(c, f) = g_strdup(text);
        return true;
    }
    g_assert_not_reached();
}

bool case_set(struct case_options *c, const char *name, const char *text, GError **error)
{
    const struct field *f = field_find(name);
    if (f) return field_set(c, f, text, error);
    g_set_error(error, CASE_ERROR, CASE_ERROR_NAME, "%s: there is no such option of a case", name);
    return false;
}

/* GLib hands callbacks of a context's main entries no data of the caller: whose case they fill stands here. */
static struct case_options *entries_case;

static gboolean entry_set(const gchar *option, const gchar *value, gpointer unused, GError **error)
{
    (void)unused;
    if (case_set(entries_case, option, value ? value : "true", error)) return TRUE;
    g_prefix_error(error, "--");
    return FALSE;
}

GOptionEntry *case_entries(struct case_options *c)
{
    static GOptionEntry entry[FIELDS + 1];
    union { GOptionArgFunc call; gpointer data; } callback = { .call = entry_set };
    entries_case = c;
    for (uint32_t i = 0; i < FIELDS; i++) {
        const struct field *f = &field_table[i];
        entry[i] = (GOptionEntry){
            .long_name = f->name,
            /* FILENAME: as bytes, for texts may name files, whose names have no encoding. */
            .flags = f->type == FIELD_FLAG ? G_OPTION_FLAG_NO_ARG : G_OPTION_FLAG_FILENAME,
            .arg = G_OPTION_ARG_CALLBACK,
            .arg_data = callback.data,
            .description = f->help,
            .arg_description = f->argument,
        };
    }
    entry[FIELDS] = (GOptionEntry){ 0 };
    return entry;
}

/* How many parts text has that separator divides. */
static uint32_t parts_count(const char *text, char separator)
{
    uint32_t count = 1;
    for (; *text; text++) count += *text == separator;
    return count;
}

static void text_default(char **text, const char *value)
{
    if (!*text) *text = g_strdup(value);
}

/* As the public tests (288 = 256 and 32 redundant ones for low latency), where the ranks divide it. */
static uint32_t experts_default(bool low_latency, uint32_t ranks)
{
    if (low_latency && 288 % ranks == 0) return 288;
    return (256 + ranks - 1) / ranks * ranks;
}

enum { RANKS_PER_NODE_DEFAULT = 8 };

void case_resolve(struct case_options *c)
{
    text_default(&c->kernel, "ll");
    text_default(&c->dtype, "fp8");
    const bool low_latency = strcmp(c->kernel, "ll") == 0;
    text_default(&c->data, low_latency ? "pattern" : "constant");
    if (c->ranks_per_node == 0) c->ranks_per_node = RANKS_PER_NODE_DEFAULT;
    if (c->trace) return;
    if (c->num_ranks == 0 && c->traffic) c->num_ranks = parts_count(c->traffic, ';');
    if (c->num_ranks == 0 && c->tokens_per_rank) c->num_ranks = parts_count(c->tokens_per_rank, '|');
    if (c->num_ranks == 0) c->num_ranks = 8;
    if (c->num_tokens == 0) c->num_tokens = low_latency ? 128 : 4096;
    if (c->num_experts == 0) c->num_experts = experts_default(low_latency, c->num_ranks);
    if (c->num_topk == 0) c->num_topk = 8;
    const uint32_t nodes = c->num_ranks / c->ranks_per_node;
    if (c->num_topk_groups == 0 && !low_latency && nodes > 1) c->num_topk_groups = MIN(nodes, 4);
    if (!c->traffic) text_default(&c->routing, "uniform");
}

char *case_ranks_text(const uint8_t *set, uint32_t ranks)
{
    GString *text = g_string_new(NULL);
    for (uint32_t r = 0; r < ranks; r++)
        if (set[r]) g_string_append_printf(text, "%s%u", text->len ? "|" : "", r);
    return g_string_free(text->len ? text : g_string_append(text, "none"), FALSE);
}

void case_record(const struct case_options *c, struct record *record)
{
    struct case_options resolved;
    case_copy(&resolved, c);
    case_resolve(&resolved);
    for (uint32_t i = 0; i < FIELDS; i++) {
        char *text = case_option_text(&resolved, i);
        if (text) record_set(record, field_table[i].name, "%s", text);
        g_free(text);
    }
    case_clear(&resolved);
}
