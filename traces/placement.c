/* placement.c - which experts go to which ranks; see placement.h.
 *
 * eplb:N:G works in three steps, like DeepSeek's expert-parallel load balancer.  Group-limited routing sends a token to
 * few groups, so keeping a group's experts on one node keeps traffic between nodes low.
 *
 *     groups  --pack-->  nodes      by load, equally many a node
 *     experts --replicate--> slots  within a node: each further slot goes to the expert with most load a replica
 *     slots   --pack-->  ranks      within a node: by load a replica, equally many a rank */
#include "traces/placement.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "sim/error.h"
#include "sim/text.h"
#include "traces/placement_json.h"

struct item {
    uint32_t id;
    double load;
};

/* Puts heavier items first.  Equal items are in the order of their numbers, so that the result is the same on every
 * machine. */
static int item_compare(const void *a, const void *b)
{
    const struct item *const left = a, *const right = b;
    if (left->load != right->load) return left->load > right->load ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* Packs items into packs of equally many items: the heaviest item first, each into the lightest pack with room.
 * pack_of[i] gets the pack of item i. */
static void items_pack(const double *loads, uint32_t count, uint32_t packs, uint32_t *pack_of)
{
    g_autofree struct item *items = g_new(struct item, count);
    g_autofree double *pack_load = g_new0(double, packs);
    g_autofree uint32_t *pack_count = g_new0(uint32_t, packs);
    for (uint32_t i = 0; i < count; i++) items[i] = (struct item){ i, loads[i] };
    qsort(items, count, sizeof *items, item_compare);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t p = 0; p < packs; p++)
            if (pack_count[p] < count / packs && (best == UINT32_MAX || pack_load[p] < pack_load[best])) best = p;
        pack_of[items[i].id] = best;
        pack_load[best] += items[i].load;
        pack_count[best]++;
    }
}

static void placement_alloc(struct placement *p, uint32_t experts, uint32_t ranks, uint32_t slots)
{
    *p = (struct placement){ .experts = experts, .ranks = ranks, .slots = slots };
    p->expert_of = g_new(uint32_t, slots);
    p->replicas_start = g_new0(uint32_t, experts + 1);
    p->replicas = g_new(uint32_t, slots);
}

/* Makes the list of each expert's slots from expert_of. */
static void placement_index(struct placement *p)
{
    for (uint32_t s = 0; s < p->slots; s++) p->replicas_start[p->expert_of[s] + 1]++;
    for (uint32_t e = 0; e < p->experts; e++) p->replicas_start[e + 1] += p->replicas_start[e];
    g_autofree uint32_t *used = g_new0(uint32_t, p->experts);
    for (uint32_t s = 0; s < p->slots; s++) {
        const uint32_t e = p->expert_of[s];
        p->replicas[p->replicas_start[e] + used[e]++] = s;
    }
}

void placement_clear(struct placement *p)
{
    g_free(p->replicas);
    g_free(p->replicas_start);
    g_free(p->expert_of);
    *p = (struct placement){ 0 };
}

/* Fills one node: replicates its experts into its slots, then packs the slots to its ranks. */
static void node_fill(struct placement *p, const uint64_t *load, const uint32_t *experts, uint32_t expert_count,
                      uint32_t rank_first, uint32_t rank_count)
{
    const uint32_t rank_slots = p->slots / p->ranks, slots = rank_slots * rank_count;
    g_autofree uint32_t *replicas = g_new(uint32_t, expert_count);
    g_autofree uint32_t *slot_expert = g_new(uint32_t, slots);
    g_autofree uint32_t *rank_of = g_new(uint32_t, slots);
    g_autofree uint32_t *filled = g_new0(uint32_t, rank_count);
    g_autofree double *slot_load = g_new(double, slots);
    assert(slots >= expert_count);
    for (uint32_t i = 0; i < expert_count; i++) {
        replicas[i] = 1;
        slot_expert[i] = i;
    }
    for (uint32_t s = expert_count; s < slots; s++) {
        uint32_t most = 0;
        for (uint32_t i = 1; i < expert_count; i++)
            if ((double)load[experts[i]] * replicas[most] > (double)load[experts[most]] * replicas[i]) most = i;
        slot_expert[s] = most;
        replicas[most]++;
    }
    for (uint32_t s = 0; s < slots; s++)
        slot_load[s] = (double)load[experts[slot_expert[s]]] / replicas[slot_expert[s]];
    items_pack(slot_load, slots, rank_count, rank_of);
    for (uint32_t s = 0; s < slots; s++) {
        const uint32_t rank = rank_of[s];
        p->expert_of[(size_t)(rank_first + rank) * rank_slots + filled[rank]++] = experts[slot_expert[s]];
    }
}

/* Packs groups to nodes, then fills each node.  For placements without groups, there is one group on one node. */
static void placement_balance(struct placement *p, const uint64_t *load, uint32_t groups, uint32_t nodes)
{
    const uint32_t group_size = p->experts / groups, node_ranks = p->ranks / nodes;
    g_autofree double *group_load = g_new0(double, groups);
    g_autofree uint32_t *node_of = g_new(uint32_t, groups);
    g_autofree uint32_t *experts = g_new(uint32_t, p->experts);
    for (uint32_t e = 0; e < p->experts; e++) group_load[e / group_size] += (double)load[e];
    items_pack(group_load, groups, nodes, node_of);
    for (uint32_t n = 0; n < nodes; n++) {
        uint32_t count = 0;
        for (uint32_t e = 0; e < p->experts; e++)
            if (node_of[e / group_size] == n) experts[count++] = e;
        node_fill(p, load, experts, count, n * node_ranks, node_ranks);
    }
}

static bool spec_error(GError **error, const char *expected, const char *found)
{
    return error_input(error, "placement: expected %s, found '%s'", expected, found);
}

/* Reads "eplb:N" or "eplb:N:G". */
static bool eplb_parse(const char *spec, const struct placement_input *in, uint32_t *redundant, uint32_t *groups,
                       GError **error)
{
    g_auto(GStrv) words = g_strsplit(spec, ":", -1);
    const uint32_t count = g_strv_length(words);
    char expected[96];
    guint64 n = 0, g = 1;
    bool good = count >= 2 && count <= 3 && strcmp(words[0], "eplb") == 0 && text_whole(words[1], 0, 1 << 20, &n) &&
                (count == 2 || text_whole(words[2], 1, in->experts, &g));
    if (!good) spec_error(error, "eplb:REDUNDANT or eplb:REDUNDANT:GROUPS", spec);
    if (good && (in->experts + n) % in->ranks) {
        g_snprintf(expected, sizeof expected, "redundant slots that make %u experts a multiple of %u ranks",
                   in->experts, in->ranks);
        good = spec_error(error, expected, spec);
    }
    if (good && in->experts % g) good = spec_error(error, "groups that divide the experts", spec);
    *redundant = (uint32_t)n;
    *groups = (uint32_t)g;
    return good;
}

static bool file_error(GError **error, const char *path, uint32_t line, const char *expected, const char *found)
{
    return error_input(error, "%s: line %u: expected %s, found %.40s", path, line, expected, found);
}

/* Reads the experts in a line into the array, without comments. */
static bool line_read(const char *path, uint32_t number, char *line, uint32_t experts, GArray *slots, GError **error)
{
    char expected[48];
    bool good = true;
    line[strcspn(line, "#")] = 0;
    g_auto(GStrv) words = g_strsplit_set(line, " \t\r,", -1);
    for (char **word = words; *word && good; word++) {
        guint64 expert;
        if (!**word) continue;
        g_snprintf(expected, sizeof expected, "an expert 0 to %u", experts - 1);
        good = g_ascii_string_to_unsigned(*word, 10, 0, experts - 1, &expert, NULL) ||
               file_error(error, path, number, expected, *word);
        const uint32_t slot = good ? (uint32_t)expert : 0;
        g_array_append_val(slots, slot);
    }
    return good;
}

/* The experts of the slots in a text that has one line for each rank.  Every rank must have equally many slots. */
static GArray *lines_read(const char *path, const char *text, const struct placement_input *in, GError **error)
{
    char expected[64], found[64];
    g_autoptr(GArray) slots = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    uint32_t ranks = 0, a_rank = 0;
    bool good = true;
    for (uint32_t l = 0; good && lines[l]; l++) {
        const guint before = slots->len;
        good = line_read(path, l + 1, lines[l], in->experts, slots, error);
        if (!good || slots->len == before) continue;
        a_rank = ranks ? a_rank : slots->len;
        g_snprintf(expected, sizeof expected, "%u experts on each of %u ranks", a_rank, in->ranks);
        g_snprintf(found, sizeof found, "%u on rank %u", slots->len - before, ranks);
        good = (slots->len - before == a_rank && ranks < in->ranks) || file_error(error, path, l + 1, expected, found);
        ranks++;
    }
    g_snprintf(expected, sizeof expected, "%u line%s of experts, one a rank", in->ranks, in->ranks == 1 ? "" : "s");
    g_snprintf(found, sizeof found, "%u", ranks);
    if (good && ranks != in->ranks) good = file_error(error, path, g_strv_length(lines), expected, found);
    return good ? g_steal_pointer(&slots) : NULL;
}

/* The experts of the slots in a placement file, rank after rank. */
static GArray *file_read(const char *path, const struct placement_input *in, GError **error)
{
    enum { FILE_BYTES_MAX = 64 << 20 };
    g_autofree char *text = NULL;
    gsize bytes = 0;
    g_autoptr(GError) cause = NULL;
    if (!g_file_get_contents(path, &text, &bytes, &cause)) {
        const char *const reason = strrchr(cause->message, ':'); /* GLib puts the file's name before the reason */
        return error_null(error, "%s: cannot read%s", path, reason ? reason : "");
    }
    if (bytes > FILE_BYTES_MAX) text[0] = 0;
    if (g_str_has_prefix(text, "\xef\xbb\xbf")) memset(text, ' ', 3); /* a byte-order mark */
    const char first = text[strspn(text, " \t\r\n")];
    if (first == '{' || first == '[') return placement_json_read(path, text, bytes, in, error);
    return lines_read(path, text, in, error);
}

static bool placement_from_file(const char *path, const struct placement_input *in, struct placement *out,
                                GError **error)
{
    g_autoptr(GArray) slots = file_read(path, in, error);
    if (!slots) return false;
    g_autofree bool *seen = g_new0(bool, in->experts);
    for (guint s = 0; s < slots->len; s++) seen[g_array_index(slots, uint32_t, s)] = true;
    uint32_t missing = 0;
    while (missing < in->experts && seen[missing]) missing++;
    if (missing < in->experts) {
        error_input(error, "%s: expected every expert 0 to %u at least once, found no expert %u", path, in->experts - 1,
                    missing);
    } else {
        placement_alloc(out, in->experts, in->ranks, slots->len);
        memcpy(out->expert_of, slots->data, slots->len * sizeof(uint32_t));
        placement_index(out);
    }
    return missing == in->experts;
}

bool placement_make(const char *spec, const struct placement_input *in, struct placement *out, GError **error)
{
    uint32_t redundant = 0, groups = 1;
    assert(in->ranks > 0 && in->experts > 0);
    if (g_str_has_prefix(spec, "file:")) return placement_from_file(spec + strlen("file:"), in, out, error);
    const bool identity = strcmp(spec, "identity") == 0;
    if (g_str_has_prefix(spec, "eplb")) {
        if (!eplb_parse(spec, in, &redundant, &groups, error)) return false;
    } else if (!identity && strcmp(spec, "greedy") != 0) {
        return spec_error(error, "identity, greedy, eplb:REDUNDANT[:GROUPS] or file:PATH", spec);
    } else if (in->experts % in->ranks) {
        return spec_error(error, "redundant slots, as the experts do not divide over the ranks", spec);
    }
    const uint32_t slots = in->experts + redundant;
    const bool whole_nodes = in->ranks_per_node && in->ranks % in->ranks_per_node == 0;
    uint32_t nodes = whole_nodes ? in->ranks / in->ranks_per_node : 1;
    if (groups % nodes) groups = nodes = 1;
    if (groups == 1) nodes = 1;
    placement_alloc(out, in->experts, in->ranks, slots);
    if (identity) {
        for (uint32_t s = 0; s < slots; s++) out->expert_of[s] = s;
    } else {
        placement_balance(out, in->load, nodes == 1 ? 1 : groups, nodes);
    }
    placement_index(out);
    return true;
}

void placement_apply(const struct placement *p, const struct routing *in, struct routing *out)
{
    assert(in->experts == p->experts && in->ranks == p->ranks);
    g_autofree uint32_t *tokens = g_new(uint32_t, in->ranks);
    g_autofree uint32_t *turn = g_new(uint32_t, p->experts);
    for (uint32_t r = 0; r < in->ranks; r++) tokens[r] = in->rank[r].tokens;
    routing_alloc(out, in->ranks, in->topk, p->slots, tokens, in->rank[0].weights != NULL);
    for (uint32_t r = 0; r < in->ranks; r++) {
        const size_t places = (size_t)tokens[r] * in->topk;
        /* each source starts at another replica, so that a few tokens of each source spread evenly, too */
        for (uint32_t e = 0; e < p->experts; e++) turn[e] = r;
        for (size_t i = 0; i < places; i++) {
            const int32_t expert = in->rank[r].experts[i];
            if (expert == ROUTING_NONE) continue;
            const uint32_t start = p->replicas_start[expert], count = p->replicas_start[expert + 1] - start;
            out->rank[r].experts[i] = (int32_t)p->replicas[start + turn[expert]++ % count];
        }
        if (out->rank[r].weights && places) memcpy(out->rank[r].weights, in->rank[r].weights, places * sizeof(float));
    }
}

void placement_load_add(const struct routing *routing, uint64_t *load)
{
    for (uint32_t r = 0; r < routing->ranks; r++)
        for (size_t i = 0; i < (size_t)routing->rank[r].tokens * routing->topk; i++)
            if (routing->rank[r].experts[i] != ROUTING_NONE) load[routing->rank[r].experts[i]]++;
}

bool routing_place(const struct routing *in, const struct routing_place_options *options, struct routing *out,
                   GError **error)
{
    g_autofree uint64_t *load = g_new0(uint64_t, in->experts);
    placement_load_add(in, load);
    const struct placement_input input = { in->experts, in->ranks, options->ranks_per_node, load, options->layer };
    struct placement placement;
    const bool good = placement_make(options->spec, &input, &placement, error);
    if (good) {
        placement_apply(&placement, in, out);
        placement_clear(&placement);
    }
    return good;
}

char *placement_text(const struct placement *p)
{
    GString *const text = g_string_new("# eptwin placement: a line a rank, the logical experts of its slots\n");
    const uint32_t rank_slots = p->slots / p->ranks;
    for (uint32_t s = 0; s < p->slots; s++)
        g_string_append_printf(text, "%u%s", p->expert_of[s], (s + 1) % rank_slots ? " " : "\n");
    return g_string_free(text, FALSE);
}
