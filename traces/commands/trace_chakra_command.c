/* trace_chakra_command.c - `eptwin trace chakra`: the messages of a trace's dispatch and combine, as Chakra execution
 * traces (one file a rank) for other simulators.
 *
 * Chakra's schema (mlcommons/chakra, et_def.proto) has no all-to-all with uneven sizes.  So for each pair of ranks, the
 * source gets a send node and the destination a receive node, with their bytes:
 *
 *     file:  length, GlobalMetadata { version }; length, Node; length, Node; ...          (lengths are varints)
 *     node:  id, name, type (5 send, 6 receive, 1 metadata), data_deps,
 *            attr { comm_src, comm_dst, comm_size, comm_tag }
 *
 * A metadata node ends each phase.  It waits for the phase's nodes, and the nodes of the next phase wait for it.
 * Times, kernels, chunks and routes are left to the simulator. */
#include <string.h>
#include "sim/new_file.h"
#include "traces/commands/trace_command.h"
#include "traces/routing_statistics.h"

enum { RANKS_MAX = 1024, BYTES_MAX = 1 << 30 };
enum node_type { NODE_METADATA = 1, NODE_SEND = 5, NODE_RECEIVE = 6 };

static const struct command_help chakra_help = {
    "chakra",
    "INPUT PREFIX",
    "Writes the traffic of dispatch and combine as Chakra execution traces, PREFIX.0.et and so on, one file per\n"
    "rank: a send and a receive node for each pair of ranks with tokens (each token once per rank).  Chakra has\n"
    "no all-to-all with uneven sizes.  The traces contain no times.",
    "Examples:\n"
    "  eptwin trace chakra decode_ep64.ept decode --dispatch-bytes 7168 --combine-bytes 14336\n"
    "  eptwin trace chakra prefill.ept prefill --dispatch-bytes 7392 --combine-bytes 14336 --steps 0 --layers 0:4",
};

/* A rank's file under construction. */
struct chakra_rank {
    GByteArray *bytes;
    uint64_t next, barrier; /* next: id of the next node; barrier: id of the node that ended the last phase, or 0 */
    GArray *phase;          /* uint64_t: ids of this phase's nodes */
};

static void varint_append(GByteArray *out, uint64_t value)
{
    do {
        const uint8_t byte = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        g_byte_array_append(out, &byte, 1);
    } while (value >>= 7);
}

static void number_append(GByteArray *out, uint32_t field, uint64_t value)
{
    varint_append(out, field << 3);
    varint_append(out, value);
}

static void bytes_append(GByteArray *out, uint32_t field, const void *bytes, size_t size)
{
    varint_append(out, field << 3 | 2);
    varint_append(out, size);
    g_byte_array_append(out, bytes, (guint)size);
}

/* Appends an attribute.  kind is the field number of AttributeProto's value: 7 int32_val, 9 int64_val, 27 bool_val. */
static void attribute_append(GByteArray *node, const char *name, uint32_t kind, uint64_t value)
{
    g_autoptr(GByteArray) attribute = g_byte_array_new();
    bytes_append(attribute, 1, name, strlen(name));
    number_append(attribute, kind, value);
    bytes_append(node, 10, attribute->data, attribute->len);
}

static void node_end(struct chakra_rank *rank, const GByteArray *node)
{
    varint_append(rank->bytes, node->len);
    g_byte_array_append(rank->bytes, node->data, node->len);
}

static GByteArray *node_begin(struct chakra_rank *rank, const char *name, enum node_type type)
{
    GByteArray *const node = g_byte_array_new();
    number_append(node, 1, ++rank->next);
    bytes_append(node, 2, name, strlen(name));
    number_append(node, 3, type);
    return node;
}

/* Appends a send or receive node.  Both nodes of a message have the tag of their phase. */
static void message_append(struct chakra_rank *rank, const char *name, enum node_type type, const uint32_t ends[2],
                           uint64_t bytes, uint32_t tag)
{
    g_autoptr(GByteArray) node = node_begin(rank, name, type);
    if (rank->barrier) {
        g_autoptr(GByteArray) list = g_byte_array_new();
        varint_append(list, rank->barrier);
        bytes_append(node, 5, list->data, list->len);
    }
    attribute_append(node, "is_cpu_op", 27, 0);
    attribute_append(node, "comm_src", 7, ends[0]);
    attribute_append(node, "comm_dst", 7, ends[1]);
    attribute_append(node, "comm_size", 9, bytes);
    attribute_append(node, "comm_tag", 7, tag);
    g_array_append_val(rank->phase, rank->next);
    node_end(rank, node);
}

/* Adds the node that ends a rank's phase, if the rank has nodes in that phase. */
static void phase_end(struct chakra_rank *rank, const char *name)
{
    if (!rank->phase->len) return;
    g_autoptr(GByteArray) node = node_begin(rank, name, NODE_METADATA), list = g_byte_array_new();
    for (guint i = 0; i < rank->phase->len; i++) varint_append(list, g_array_index(rank->phase, uint64_t, i));
    bytes_append(node, 5, list->data, list->len);
    attribute_append(node, "is_cpu_op", 27, 0);
    node_end(rank, node);
    rank->barrier = rank->next;
    g_array_set_size(rank->phase, 0);
}

/* Appends a phase to the files of all ranks.  If `back`, the messages go from destinations to sources, as combine's
 * do. */
static void phase_append(struct chakra_rank *rank, const struct routing_statistics *s, uint64_t token_bytes, bool back,
                         uint32_t tag, const char *name)
{
    for (uint32_t source = 0; source < s->ranks; source++)
        for (uint32_t target = 0; target < s->ranks; target++) {
            const uint64_t bytes = s->links[(size_t)source * s->ranks + target] * token_bytes;
            const uint32_t ends[2] = { back ? target : source, back ? source : target };
            if (source == target || !bytes) continue;
            message_append(&rank[ends[0]], name, NODE_SEND, ends, bytes, tag);
            message_append(&rank[ends[1]], name, NODE_RECEIVE, ends, bytes, tag);
        }
    for (uint32_t r = 0; r < s->ranks; r++) phase_end(&rank[r], name);
}

struct chakra {
    struct trace *trace;
    struct ranges steps, layers;
    gint64 dispatch_bytes, combine_bytes;
    struct chakra_rank *rank; /* [ranks] */
};

static bool chakra_make(struct chakra *c, GError **error)
{
    const struct trace_info *const info = trace_info(c->trace);
    uint64_t made = 0;
    for (uint32_t i = 0; i < c->steps.count * c->layers.count; i++) {
        const uint32_t step = c->steps.number[i / c->layers.count], layer = c->layers.number[i % c->layers.count];
        g_auto(routing) routing = { 0 };
        struct routing_statistics s;
        if (!trace_read(c->trace, step, layer, 0, &routing, error)) return false;
        routing_statistics_init(&s, info->ranks, routing.experts, info->topk, 0);
        routing_statistics_add(&s, &routing);
        g_autofree char *dispatch = g_strdup_printf("dispatch_step%u_layer%u", step, layer);
        g_autofree char *combine = g_strdup_printf("combine_step%u_layer%u", step, layer);
        phase_append(c->rank, &s, (uint64_t)c->dispatch_bytes, false, 2 * i, dispatch);
        phase_append(c->rank, &s, (uint64_t)c->combine_bytes, true, 2 * i + 1, combine);
        routing_statistics_clear(&s);
        made = 0;
        for (uint32_t r = 0; r < info->ranks; r++) made += c->rank[r].bytes->len;
        if (made <= BYTES_MAX) continue;
        return error_input(error,
                           "--steps, --layers: expected at most 1 GiB of nodes, found more from step %u, layer %u on",
                           step, layer);
    }
    return true;
}

/* Writes the files of all ranks.  If one cannot be written, no file appears. */
static bool chakra_write(const struct chakra *c, const char *prefix, GError **error)
{
    const uint32_t ranks = trace_info(c->trace)->ranks;
    g_autofree struct new_file **file = g_new0(struct new_file *, ranks);
    bool good = true;
    for (uint32_t r = 0; good && r < ranks; r++) {
        g_autofree char *path = g_strdup_printf("%s.%u.et", prefix, r);
        file[r] = new_file_open(path, error);
        good = file[r] && new_file_write(file[r], c->rank[r].bytes->data, c->rank[r].bytes->len, error);
    }
    if (good) return new_files_commit(file, ranks, error);
    for (uint32_t r = 0; r < ranks; r++) new_file_discard(file[r]);
    return false;
}

static bool chakra_run(struct chakra *c, char *const texts[2], const char *prefix, GError **error)
{
    const struct trace_info *const info = trace_info(c->trace);
    if (strcmp(prefix, "-") == 0) return error_input(error, "PREFIX: expected the beginning of names, found '-'");
    if (c->dispatch_bytes < 1 || c->combine_bytes < 1 || c->dispatch_bytes > 1 << 24 || c->combine_bytes > 1 << 24)
        return error_input(
            error,
            "--dispatch-bytes, --combine-bytes: expected the bytes of a token, 1 to 16777216, found %" G_GINT64_FORMAT
            " and %" G_GINT64_FORMAT,
            c->dispatch_bytes, c->combine_bytes);
    if (info->ranks > RANKS_MAX)
        return error_input(error, "ranks: expected at most %d, found %u", RANKS_MAX, info->ranks);
    if (!command_range_parse("steps", texts[0], info->steps, &c->steps, error) ||
        !command_range_parse("layers", texts[1], info->layers, &c->layers, error))
        return false;
    c->rank = g_new0(struct chakra_rank, info->ranks);
    for (uint32_t r = 0; r < info->ranks; r++) {
        static const uint8_t metadata[] = { 7, 1 << 3 | 2, 5, '0', '.', '0', '.', '4' };
        c->rank[r] =
            (struct chakra_rank){ .bytes = g_byte_array_new(), .phase = g_array_new(FALSE, FALSE, sizeof(uint64_t)) };
        g_byte_array_append(c->rank[r].bytes, metadata, sizeof metadata);
    }
    const bool good = chakra_make(c, error) && chakra_write(c, prefix, error);
    for (uint32_t r = 0; r < info->ranks; r++) {
        g_byte_array_unref(c->rank[r].bytes);
        g_array_unref(c->rank[r].phase);
    }
    g_free(c->rank);
    return good;
}

int trace_command_chakra(int argc, char **argv)
{
    struct command_input input = { 0 };
    struct chakra c = { .dispatch_bytes = 7168, .combine_bytes = 14336 };
    char *texts[2] = { NULL };
    GOptionEntry entries[] = {
        { "dispatch-bytes", 0, 0, G_OPTION_ARG_INT64, &c.dispatch_bytes, "bytes per token in dispatch (default 7168)",
          "N" },
        { "combine-bytes", 0, 0, G_OPTION_ARG_INT64, &c.combine_bytes, "bytes per token in combine (default 14336)",
          "N" },
        { "steps", 0, 0, G_OPTION_ARG_STRING, &texts[0], "steps (default all): " RANGES_GRAMMAR, "STEPS" },
        { "layers", 0, 0, G_OPTION_ARG_STRING, &texts[1], "layers, likewise", "LAYERS" },
        COMMAND_INPUT_ENTRIES(input),
        G_OPTION_ENTRY_NULL,
    };
    GError *error = NULL;
    if (command_parse(&chakra_help, entries, NULL, &argc, &argv, 2, 2, &error))
        c.trace = command_open(argv[1], &input, &error);
    if (c.trace) (void)chakra_run(&c, texts, argv[2], &error);
    trace_close(c.trace);
    ranges_free(&c.steps);
    ranges_free(&c.layers);
    return error ? command_refuse(&chakra_help, error) : EXIT_OK;
}
