/* test_case.c - does one table of options mean the same on command lines, in CSV columns and in records?
 *
 * Aim: names, ranges and defaults of models/case.c; the routing and the protocol options that follow from a case;
 * messages about wrong values.  Method: every option is set and read back through the table.  Then each source of
 * routing is asked for a routing that is known. */
#include "models/case.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include "reports/compare.h"
#include "tests/support_trace.h"
#include "tests/unit.h"

/* Sets options.  `values` has values and names in turn, and ends with NULL. */
static void all_set(struct case_options *c, const char *name, va_list values)
{
    for (; name; name = va_arg(values, const char *))
        CU_ASSERT_FATAL(case_set(c, name, va_arg(values, const char *), NULL));
}

static void set_all(struct case_options *c, const char *name, ...)
{
    va_list values;
    va_start(values, name);
    all_set(c, name, values);
    va_end(values);
}

/* Makes a case with these options. */
static struct case_options case_with(const char *name, ...)
{
    struct case_options c;
    va_list values;
    case_init(&c);
    va_start(values, name);
    all_set(&c, name, values);
    va_end(values);
    return c;
}

static bool set_fails(const char *name, const char *text, const char *message)
{
    struct case_options c = case_with(NULL);
    g_autoptr(GError) error = NULL;
    return !case_set(&c, name, text, &error) && error_is(&error, message);
}

/* Every option takes a value of its kind and gives it back as text. */
TEST("every option reads back")
{
    static const char *const values[] = { "3",     "true", "0",       "ll",        "bf16", "random", "stream",
                                          "ring",  "host", "copy",    "some text", "7",    "1",      "hybrid-ep",
                                          "ibgda", "2.28", "2026-04", "cold",      "5us",  "1@clean" };
    struct case_options c = case_with(NULL);
    uint32_t count = 0;
    for (uint32_t i = 0; case_option_name(i); i++, count++) {
        const char *taken = NULL;
        for (uint32_t v = 0; v < G_N_ELEMENTS(values) && !taken; v++)
            if (case_set(&c, case_option_name(i), values[v], NULL)) taken = values[v];
        CU_ASSERT_PTR_NOT_NULL_FATAL(taken);
        char *text = case_option_text(&c, i);
        CU_ASSERT_STRING_EQUAL(text, taken);
        g_free(text);
        CU_ASSERT(case_has(case_option_name(i)));
    }
    CU_ASSERT(count >= 35);
    CU_ASSERT_PTR_NULL(case_option_name(count));
}

/* Options whose change leaves a case the same.  They say where and how the work ran, or which bytes it moved, but not
 * how much work there was. */
static bool makes_no_case(const char *name)
{
    static const char *const names[] = { "cluster", "data",  "launch", "arrival", "slow",
                                         "backend", "loops", "fault",  NULL };
    return g_strv_contains(names, name);
}

/* Sets the option to a valid value other than the one in `c`. */
static void set_other(struct case_options *c, uint32_t option)
{
    static const char *const values[] = { "3",       "true",   "5",         "normal", "ll",   "bf16",
                                          "random",  "stream", "ring",      "host",   "copy", "some text",
                                          "7",       "1",      "hybrid-ep", "ibgda",  "v2",   "2.28",
                                          "2026-04", "cold",   "5us",       "1@clean" };
    g_autofree char *before = case_option_text(c, option);
    for (uint32_t v = 0; v < G_N_ELEMENTS(values); v++) {
        if (g_strcmp0(before, values[v]) != 0 && case_set(c, case_option_name(option), values[v], NULL)) return;
    }
    CU_FAIL_FATAL("no other value for an option");
}

static struct record *record_of(const struct case_options *c)
{
    struct record *record = record_new();
    case_record(c, record);
    return record;
}

/* Whether a change of this option makes the records' cases different, and the message names the difference. */
static bool told_apart(const struct case_options *c, uint32_t option)
{
    struct case_options other = *c;
    set_other(&other, option);
    g_autoptr(record) a = record_of(c);
    g_autoptr(record) b = record_of(&other);
    g_autofree char *difference = compare_case_difference(a, b);
    g_autofree char *said = g_strconcat(case_option_name(option), ": ", NULL);
    return difference && strstr(difference, said) != NULL;
}

/* One table drives records and their comparison, so that no option can be forgotten. */
TEST("each option makes a case")
{
    static const char *const kernels[] = { "ll", "normal", "v2", "alltoallv", "allgather", "p2p" };
    for (size_t k = 0; k < G_N_ELEMENTS(kernels); k++) {
        struct case_options c = case_with("kernel", kernels[k], NULL);
        for (uint32_t i = 0; case_option_name(i); i++) {
            const bool applies = case_option_applies(i, kernels[k]);
            const bool apart = told_apart(&c, i), expected = applies && !makes_no_case(case_option_name(i));
            if (apart != expected) printf("\n      %s of %s\n", case_option_name(i), kernels[k]);
            CU_ASSERT_EQUAL(apart, expected);
        }
    }
}

/* Options that say how to draw do not count in the case of a trace, because nothing is drawn. */
TEST("cases of a trace")
{
    static const char *const drawn[] = { "seed", "masked-places", "num-topk-groups", NULL };
    struct case_options c = case_with("trace", "t.ept", NULL);
    for (uint32_t i = 0; case_option_name(i); i++) {
        const char *name = case_option_name(i);
        const bool expected = case_option_applies(i, "ll") && !makes_no_case(name) && !g_strv_contains(drawn, name);
        CU_ASSERT_EQUAL(told_apart(&c, i), expected);
    }
}

/* An option that the user leaves open is recorded with the value that was chosen.  Setting it to that value makes the
 * same case. */
TEST("resolved values are recorded")
{
    struct case_options open = case_with("kernel", "normal", "num-ranks", "8", NULL);
    struct case_options said =
        case_with("kernel", "normal", "num-ranks", "8", "num-tokens", "4096", "num-topk", "8", "num-experts", "256",
                  "ranks-per-node", "8", "dtype", "fp8", "routing", "uniform", "nvl-chunk", "6", "nvl-buffer", "256",
                  "combine-nvl-chunk", "4", "combine-nvl-buffer", "256", NULL);
    g_autoptr(record) a = record_of(&open);
    g_autoptr(record) b = record_of(&said);
    CU_ASSERT_STRING_EQUAL(record_get(a, "nvl-chunk"), "6");
    CU_ASSERT_STRING_EQUAL(record_get(a, "combine-rdma-buffer"), "132"); /* a multiple of combine-rdma-chunk */
    g_autofree char *difference = compare_case_difference(a, b);
    CU_ASSERT_PTR_NULL(difference);
}

TEST("files beside a table")
{
    g_autofree char *folder = g_dir_make_tmp("test_case.XXXXXX", NULL);
    g_autofree char *file = g_build_filename(folder, "f", NULL);
    CU_ASSERT_TRUE_FATAL(g_file_set_contents(file, "", 0, NULL));
    struct case_options c = case_with("trace", "vllm:f", "trace-weights", "f@0,1", "placement", "file:f", "cluster",
                                      "f", "routing", "f", NULL);
    case_files_resolve(&c, folder);
    g_autofree char *trace = g_strconcat("vllm:", file, NULL), *weights = g_strconcat(file, "@0,1", NULL);
    g_autofree char *placement = g_strconcat("file:", file, NULL);
    CU_ASSERT_STRING_EQUAL(c.trace, trace);
    CU_ASSERT_STRING_EQUAL(c.trace_weights, weights);
    CU_ASSERT_STRING_EQUAL(c.placement, placement);
    CU_ASSERT_STRING_EQUAL(c.cluster, file);
    CU_ASSERT_STRING_EQUAL(c.routing, "f"); /* "f" stays, because `routing` names no file here */
    set_all(&c, "trace", "none", "placement", "greedy", "cluster", "h200", NULL);
    case_files_resolve(&c, folder);
    CU_ASSERT(!strcmp(c.trace, "none") && !strcmp(c.placement, "greedy") && !strcmp(c.cluster, "h200"));
    unlink(file);
    rmdir(folder);
}

TEST("names with and without dashes")
{
    struct case_options c = case_with(NULL);
    CU_ASSERT(case_set(&c, "--num-tokens", "11", NULL) && c.num_tokens == 11);
    CU_ASSERT(case_set(&c, "num_tokens", "12", NULL) && c.num_tokens == 12);
    CU_ASSERT(case_set(&c, "numtokens", "13", NULL) && c.num_tokens == 13);
    CU_ASSERT(case_set(&c, "tokens", "14", NULL) && c.num_tokens == 14);
    CU_ASSERT(case_set(&c, "ranks", "3", NULL) && c.num_ranks == 3);
    CU_ASSERT(case_set(&c, "ranks_per_node", "5", NULL) && c.ranks_per_node == 5 && c.num_ranks == 3);
    CU_ASSERT(!case_has("num-token"));
    CU_ASSERT(!case_has("numtokensx"));
    CU_ASSERT(!case_has("phase"));
    CU_ASSERT(set_fails("num-token", "1", "num-token: there is no such option of a case"));
}

TEST("nodes")
{
    struct case_options c = case_with(NULL);
    CU_ASSERT_EQUAL(c.ranks_per_node, 0);
    case_node_settle(&c, 72); /* takes the number of GPUs that a node of the cluster has */
    CU_ASSERT_EQUAL(c.ranks_per_node, 72);
    case_node_settle(&c, 4); /* does not replace a number that an earlier call or the user has set */
    CU_ASSERT_EQUAL(c.ranks_per_node, 72);
    c = case_with("num-ranks", "24", NULL);
    case_node_settle(&c, 0); /* no GPUs: one node of all ranks */
    CU_ASSERT_EQUAL(c.ranks_per_node, 24);
    c = case_with("trace", "traces/samples/decode_ep64.ept", NULL);
    case_node_settle(&c, 0);
    CU_ASSERT_EQUAL(c.ranks_per_node, 64);
    c = case_with("trace", "no/such/trace", NULL);
    case_node_settle(&c, 0);
    CU_ASSERT_EQUAL(c.ranks_per_node, 0); /* the trace's error is reported when the trace is read */
    c = case_resolved(&c);
    CU_ASSERT_EQUAL(c.ranks_per_node, 8);
}

TEST("bad values are told")
{
    CU_ASSERT(set_fails("hidden", "-7168", "hidden: expected a whole number from 1 to 1048576, found '-7168'"));
    CU_ASSERT(set_fails("hidden", "7168.0", "hidden: expected a whole number from 1 to 1048576, found '7168.0'"));
    CU_ASSERT(set_fails("num-processes", "0", "num-processes: expected a whole number from 1 to 65535, found '0'"));
    CU_ASSERT(set_fails("num-ranks", "65536", "num-ranks: expected a whole number from 1 to 65535, found '65536'"));
    CU_ASSERT(set_fails("num-ranks", "", "num-ranks: expected a whole number from 1 to 65535, found ''"));
    CU_ASSERT(set_fails("num-topk", "8 ", "num-topk: expected a whole number from 1 to 256, found '8 '"));
    CU_ASSERT(set_fails("cached", "maybe", "cached: expected true or false, found 'maybe'"));
    CU_ASSERT(set_fails("dtype", "fp16", "dtype: expected one of fp8, bf16, found 'fp16'"));
    CU_ASSERT(set_fails("kernel", "normal|v2",
                        "kernel: expected one of ll, normal, v2, one-sided, two-sided, mori, mori-ll, mega-moe, "
                        "pplx, nccl-ll, nccl-ht, hybrid-ep, alltoallv, allgather, reducescatter, allreduce, ag-rs, "
                        "p2p, found 'normal|v2'"));
    CU_ASSERT(set_fails("seed", "-1", "seed: expected a whole number of 64 bits, found '-1'"));
    CU_ASSERT(set_fails("trace", "", "trace: expected FILE, found ''"));
    CU_ASSERT(set_fails("seed", "18446744073709551616",
                        "seed: expected a whole number of 64 bits, found '18446744073709551616'"));
}

static bool entries_parse(struct case_options *c, const char *line, GError **error)
{
    g_auto(GStrv) arguments = g_strsplit(line, " ", 0);
    struct command_topic topics[CASE_TOPICS + 1] = { 0 };
    const struct command_line command = { .name = "test", .about = "", .topics = topics };
    case_topics(c, topics);
    return command_line_parse(&command, (int)g_strv_length(arguments), arguments, NULL, error);
}

TEST("command line")
{
    struct case_options c = case_with(NULL);
    const char *line = "test --kernel normal --num-tokens=512 --cached --traffic 1|2;3|4 --num-tokens 513";
    CU_ASSERT(entries_parse(&c, line, NULL));
    CU_ASSERT_STRING_EQUAL(c.kernel, "normal");
    CU_ASSERT_EQUAL(c.num_tokens, 513);
    CU_ASSERT(c.cached);
    CU_ASSERT_STRING_EQUAL(c.traffic, "1|2;3|4");
    g_autoptr(GError) error = NULL;
    CU_ASSERT(!entries_parse(&c, "test --num-sms none", &error));
    CU_ASSERT(error_is(&error, "--num-sms: expected a whole number from 1 to 4096, found 'none'"));
}

TEST("defaults by kernel and source")
{
    struct case_options c = case_with(NULL);
    c = case_resolved(&c);
    CU_ASSERT_STRING_EQUAL(c.kernel, "ll");
    CU_ASSERT(c.num_tokens == 128 && c.hidden == 7168 && c.num_topk == 8 && c.num_experts == 288);
    CU_ASSERT(c.num_ranks == 8 && c.num_topk_groups == 0);
    CU_ASSERT_STRING_EQUAL(c.data, "pattern");
    c = case_with("kernel", "normal", "num-ranks", "64", NULL);
    c = case_resolved(&c);
    CU_ASSERT(c.num_tokens == 4096 && c.num_experts == 256 && c.num_topk_groups == 4);
    CU_ASSERT_STRING_EQUAL(c.data, "constant");
    c = case_with("num-processes", "4", NULL); /* makes one node of 4 ranks */
    CU_ASSERT(c.num_ranks == 4 && c.ranks_per_node == 4);
    set_all(&c, "num-ranks", "16", "num-processes", "8", NULL); /* makes two nodes */
    CU_ASSERT(c.num_ranks == 16 && c.ranks_per_node == 8);
    c = case_with("num-ranks", "64", NULL);
    c = case_resolved(&c);
    CU_ASSERT_EQUAL(c.num_experts, 256); /* not 288, which do not divide over 64 ranks */
    c = case_with("traffic", "5|5;5|5", "kernel", "normal", NULL);
    c = case_resolved(&c);
    CU_ASSERT(c.num_ranks == 2 && c.num_topk_groups == 0);
    CU_ASSERT_PTR_NULL(c.routing);
    c = case_with("trace", "t.npy", NULL);
    c = case_resolved(&c); /* leaves the sizes open, because the trace decides them */
    CU_ASSERT(c.num_ranks == 0 && c.num_tokens == 0 && c.num_topk == 0 && c.num_experts == 0);
}

static uint32_t experts_valid(const struct routing *routing, uint32_t rank)
{
    uint32_t valid = 0;
    for (uint32_t i = 0; i < routing->rank[rank].tokens * routing->topk; i++)
        valid += routing->rank[rank].experts[i] >= 0 && (uint32_t)routing->rank[rank].experts[i] < routing->experts;
    return valid;
}

/* Kernels whose library posts in another way than the cluster's own post in that way, unless the user says who posts.
 */
TEST("who posts by default")
{
    static const struct {
        const char *kernel, *cluster, *backend;
    } cases[] = {
        { "ll", "h800-cx7", NULL },           { "v2", "h800-cx7", "gdaki" },       { "nccl-ll", "h800-cx7", "gdaki" },
        { "nccl-ht", "h100-cx7", "gdaki" },   { "nccl-ht", "p5en", NULL },         { "pplx", "h800-cx7", "fabric-lib" },
        { "pplx", "p5en", "fabric-lib-efa" }, { "ag-rs", "mi300x-thor2", "nccl" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(cluster) cluster = cluster_load(cases[i].cluster, NULL);
        struct case_options c = case_with("kernel", cases[i].kernel, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(cluster);
        case_cluster_settle(&c, cluster);
        CU_ASSERT_EQUAL(g_strcmp0(c.backend, cases[i].backend), 0);
        set_all(&c, "backend", "gin-proxy", NULL);
        case_cluster_settle(&c, cluster);
        CU_ASSERT_STRING_EQUAL(c.backend, "gin-proxy");
    }
}

/* Defaults that change with the number of ranks are noted, and other defaults are not. */
TEST("notes about defaults")
{
    static const struct {
        const char *name[3], *value[3], *note;
    } cases[] = {
        { { "num-ranks" }, { "8" }, NULL },
        { { "num-ranks" }, { "7" }, "num-experts is 259, because 7 ranks do not divide 288 or 256" },
        { { "num-ranks", "num-experts" }, { "7", "259" }, NULL },
        { { "num-ranks" }, { "24" }, NULL },
        { { "num-ranks", "kernel" }, { "24", "normal" }, "num-experts is 264, because 24 ranks do not divide 256" },
        { { "num-ranks", "kernel" }, { "7", "allgather" }, NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct case_options c = case_with(NULL);
        for (int k = 0; k < 3 && cases[i].name[k]; k++)
            CU_ASSERT(case_set(&c, cases[i].name[k], cases[i].value[k], NULL));
        g_autofree char *note = case_note(&c);
        CU_ASSERT_EQUAL(g_strcmp0(note, cases[i].note), 0);
    }
}

TEST("generated routing")
{
    struct routing routing = { 0 };
    struct case_options c = case_with("num-ranks", "4", "num-experts", "64", "tokens-per-rank", "7|0|30|2", NULL);
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL));
    CU_ASSERT(routing.ranks == 4 && routing.topk == 8 && routing.experts == 64);
    static const uint32_t tokens[] = { 7, 0, 30, 2 };
    for (uint32_t r = 0; r < 4; r++) {
        CU_ASSERT_EQUAL(routing.rank[r].tokens, tokens[r]);
        CU_ASSERT_EQUAL(experts_valid(&routing, r), tokens[r] * 8);
    }
    struct routing again = { 0 };
    CU_ASSERT_FATAL(case_routing(&c, &again, NULL));
    CU_ASSERT_EQUAL(memcmp(again.rank[2].experts, routing.rank[2].experts, 30 * 8 * sizeof(int32_t)), 0);
    routing_free(&again);
    routing_free(&routing);
    CU_ASSERT(case_set(&c, "masked-places", "5", NULL) && case_set(&c, "tokens-per-rank", "9|9|9|9", NULL));
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL));
    CU_ASSERT(experts_valid(&routing, 3) < 9 * 8 && experts_valid(&routing, 3) >= 9 * 8 - 5); /* two masks may hit the
                                                                                               * same place */
    routing_free(&routing);
    CU_ASSERT_FATAL(case_set(&c, "tokens-per-rank", "7|1|30", NULL));
    g_autoptr(GError) error = NULL;
    CU_ASSERT(!case_routing(&c, &routing, &error));
    CU_ASSERT(error_is(&error, "tokens-per-rank: expected 4 numbers divided by '|', found 3"));
    g_clear_error(&error);
    CU_ASSERT_FATAL(case_set(&c, "tokens-per-rank", "0|0|0|0", NULL));
    CU_ASSERT(!case_routing(&c, &routing, &error));
    CU_ASSERT(error_is(&error, "tokens-per-rank: expected a rank with tokens, found none"));
}

/* A case draws something else with the next seed, and the same again with an equal seed. */
TEST("what is drawn follows the seed")
{
    static const char *const cases[][6] = {
        { "num-ranks", "4", "num-experts", "64", NULL },
        { "kernel", "normal", "traffic", "9|9;9|9", NULL },
        { "kernel", "alltoallv", "num-ranks", "4", "matrix", "lognormal:65536" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *digest[3];
        for (uint64_t k = 0; k < 3; k++) {
            struct case_options c = case_with(NULL);
            struct case_load load;
            for (int o = 0; o < 6 && cases[i][o]; o += 2) CU_ASSERT(case_set(&c, cases[i][o], cases[i][o + 1], NULL));
            c = case_resolved(&c);
            c.seed += k / 2;
            CU_ASSERT_TRUE_FATAL(case_load(&c, &load, NULL));
            digest[k] = case_load_digest(&c, &load);
            case_load_free(&load);
        }
        CU_ASSERT_STRING_EQUAL(digest[1], digest[0]);
        CU_ASSERT_STRING_NOT_EQUAL(digest[2], digest[0]);
        for (int k = 0; k < 3; k++) g_free(digest[k]);
    }
}

TEST("same routing or not")
{
    static const char *const matters[][2] = {
        { "kernel", "normal" },
        { "num-tokens", "9" },
        { "num-topk", "2" },
        { "num-experts", "64" },
        { "seed", "3" },
        { "num-ranks", "4" },
        { "routing", "local" },
        { "tokens-per-rank", "1|2|3|4|5|6|7|8" },
        { "trace", "t" },
        { "trace-weights", "w" },
        { "traffic", "1|2;3|4" },
        { "placement", "greedy" },
        { "step", "1" },
        { "layer", "1" },
        { "weights", "1" },
        { "ranks-per-node", "4" },
        { "num-topk-groups", "1" },
        { "masked-places", "10" },
    };
    static const char *const indifferent[][2] = {
        { "num-sms", "20" },      { "nvl-chunk", "3" }, { "hidden", "2048" },      { "dtype", "bf16" },
        { "cached", "1" },        { "cluster", "c" },   { "num-tokens", "128" },   { "routing", "uniform" },
        { "hook", "1" },          { "data", "random" }, { "mask-timeout", "5us" }, { "disable-nvlink", "1" },
        { "fail", "1@dispatch" },
    };
    struct case_options plain = case_with(NULL);
    for (uint32_t i = 0; i < G_N_ELEMENTS(matters) + G_N_ELEMENTS(indifferent); i++) {
        const bool different = i < G_N_ELEMENTS(matters);
        const char *const *set = different ? matters[i] : indifferent[i - G_N_ELEMENTS(matters)];
        struct case_options other = case_with(set[0], set[1], NULL);
        CU_ASSERT_EQUAL(case_routing_same(&plain, &other), !different);
    }
}

/* Returns how many tokens of source s have an expert on rank d.  Each token counts once. */
static uint32_t traffic_count(const struct routing *routing, uint32_t s, uint32_t d)
{
    const struct routing_rank *from = &routing->rank[s];
    const uint32_t experts_per_rank = routing->experts / routing->ranks;
    uint32_t count = 0;
    for (uint32_t t = 0; t < from->tokens; t++) {
        bool reaches = false;
        for (uint32_t j = 0; j < routing->topk; j++) {
            const int32_t expert = from->experts[t * routing->topk + j];
            reaches |= expert >= 0 && (uint32_t)expert / experts_per_rank == d;
        }
        count += reaches;
    }
    return count;
}

TEST("routing with exact traffic")
{
    static const uint32_t wanted[2][2] = { { 90, 20 }, { 55, 100 } };
    struct routing routing = { 0 };
    struct case_options c = case_with("kernel", "normal", "num-tokens", "100", "num-topk", "4", "num-experts", "16",
                                      "traffic", "90|20;55|100", NULL);
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL));
    CU_ASSERT_EQUAL(routing.ranks, 2);
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t d = 0; d < 2; d++) CU_ASSERT_EQUAL(traffic_count(&routing, s, d), wanted[s][d]);
    routing_free(&routing);
    g_autoptr(GError) error = NULL;
    CU_ASSERT_FATAL(case_set(&c, "routing", "uniform", NULL));
    CU_ASSERT(!case_routing(&c, &routing, &error));
    CU_ASSERT(error_is(&error, "routing: not together with traffic, which says how many go where"));
}

/* Writes a trace of 1 step, 2 layers, 2 ranks, 3 tokens and 2 experts for each token.  The first expert is 6 * layer +
 * 3 * rank + token, and the second expert is the next one. */
static const char *trace_file(void)
{
    uint8_t file[128 + 24] = "\x93NUMPY\x01\x00\x76\x00"
                             "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 2, 3, 2), }";
    memset(file + 10 + strlen((char *)file + 10), ' ', 117 - strlen((char *)file + 10));
    file[127] = '\n';
    for (uint32_t i = 0; i < 12; i++) {
        file[128 + 2 * i] = (uint8_t)i;
        file[129 + 2 * i] = (uint8_t)(i + 1);
    }
    temporary_write(temporary_path("trace.npy"), file, sizeof file);
    return temporary_path("trace.npy");
}

TEST("routing of a trace")
{
    struct routing routing = { 0 };
    struct case_options c =
        case_with("layer", "1", "num-experts", "16", "num-tokens", "2", "trace", trace_file(), NULL);
    g_autoptr(GError) error = NULL;
    const bool read = case_routing(&c, &routing, &error);
    CU_ASSERT(read);
    if (!read) fprintf(stderr, "%s\n", error->message);
    CU_ASSERT_FATAL(routing.ranks == 2 && routing.topk == 2 && routing.experts == 16);
    for (uint32_t r = 0; r < 2; r++) {
        CU_ASSERT_EQUAL(routing.rank[r].tokens, 2); /* of 3 in the trace */
        for (uint32_t i = 0; i < 4; i++)
            CU_ASSERT_EQUAL(routing.rank[r].experts[i], (int32_t)(6 + 3 * r + i / 2 + i % 2));
    }
    routing_free(&routing);
}

TEST("placed experts")
{
    struct routing routing = { 0 };
    struct case_options c =
        case_with("num-ranks", "2", "num-experts", "16", "num-tokens", "9", "placement", "eplb:4", NULL);
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL));
    CU_ASSERT(routing.ranks == 2 && routing.experts == 20 && routing.rank[1].tokens == 9);
    routing_free(&routing);
    GError *error = NULL;
    CU_ASSERT_FATAL(case_set(&c, "placement", "somehow", NULL));
    CU_ASSERT(!case_routing(&c, &routing, &error));
    CU_ASSERT(g_str_has_prefix(error->message, "placement: ") && strstr(error->message, "somehow"));
    g_clear_error(&error);
    CU_ASSERT_PTR_NULL(routing.rank);
}

TEST("options of the protocol")
{
    struct routing routing = { 0 };
    struct moe_options o;
    struct case_options c =
        case_with("kernel", "normal", "num-ranks", "16", "num-tokens", "8", "dtype", "bf16", "cached", "1", "nvl-chunk",
                  "12", "rdma-chunk", "12", "combine-nvl-buffer", "300", "seed", "9", NULL);
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL));
    routing.rank[3].tokens = 5;
    CU_ASSERT_FATAL(case_moe_options(&c, &routing, 132, &o, NULL));
    CU_ASSERT(o.family == MOE_NORMAL && o.ranks == 16 && o.ranks_per_node == 8 && o.tokens_max == 8);
    CU_ASSERT(o.dtype == MOE_BF16 && o.data == MOE_DATA_CONSTANT && o.cached && !o.weights && o.num_sms == 24);
    CU_ASSERT_EQUAL(o.seed, 9);
    CU_ASSERT(o.dispatch.nvl_send == 12 && o.dispatch.nvl_recv == 288);
    CU_ASSERT(o.dispatch.rdma_send == 12 && o.dispatch.rdma_recv % 12 == 0 && o.dispatch.rdma_recv >= 128);
    CU_ASSERT(o.combine.nvl_send == 4 && o.combine.nvl_recv == 300 && o.combine.rdma_send == 12);
    routing_free(&routing);
    c = case_with("num-tokens", "4", NULL);
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL));
    CU_ASSERT(case_moe_options(&c, &routing, 78, &o, NULL));
    CU_ASSERT(o.family == MOE_LOW_LATENCY && o.num_sms == 78 && o.dtype == MOE_FP8 && o.data == MOE_DATA_PATTERN);
    CU_ASSERT(case_moe_options(&c, &routing, 0, &o, NULL));
    CU_ASSERT_EQUAL(o.num_sms, 24);
    routing_free(&routing);
    set_all(&c, "num-sms", "8", "hidden", "128", "kernel", "normal", "disable-nvlink", "true", NULL);
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL));
    g_autoptr(GError) error = NULL;
    CU_ASSERT(!case_moe_options(&c, &routing, 0, &o, &error));
    CU_ASSERT(error_is(&error, "disable-nvlink: here only the low-latency kernels go by the NIC alone"));
    routing_free(&routing);
}

TEST("record headers")
{
    struct case_options c = case_with("seed", "42", "num-ranks", "16", NULL);
    g_autoptr(record) record = record_new();
    case_record(&c, record);
    CU_ASSERT_STRING_EQUAL(record_get(record, "seed"), "42");
    CU_ASSERT_STRING_EQUAL(record_get(record, "num-ranks"), "16");
    CU_ASSERT_STRING_EQUAL(record_get(record, "num-tokens"), "128"); /* the default is recorded */
    CU_ASSERT_STRING_EQUAL(record_get(record, "disable-nvlink"), "false");
    CU_ASSERT_PTR_NULL(record_get(record, "trace"));
    /* The options in a record's header make the case again. */
    struct case_options again = case_with(NULL);
    for (uint32_t i = 0; case_option_name(i); i++) {
        const char *text = record_get(record, case_option_name(i));
        if (text) case_set(&again, case_option_name(i), text, NULL);
    }
    g_autoptr(record) second = record_new();
    case_record(&again, second);
    for (uint32_t i = 0; case_option_name(i); i++)
        CU_ASSERT_EQUAL(g_strcmp0(record_get(record, case_option_name(i)), record_get(second, case_option_name(i))), 0);
}

/* Normal kernels need an even number of SMs.  On hosts of 1, 3 or 5 CPUs they get an even number by default. */
TEST("SMs of a host")
{
    static const uint32_t cpus[] = { 1, 2, 3, 4, 5, 64, 127 }, sms[] = { 2, 2, 2, 4, 4, 64, 126 };
    struct case_options c = case_with("kernel", "normal", "num-ranks", "2", "num-tokens", "8", "num-experts", "8",
                                      "num-topk", "2", "hidden", "256", NULL);
    g_auto(routing) routing;
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL));
    for (uint32_t i = 0; i < G_N_ELEMENTS(cpus); i++) {
        struct moe_options o;
        CU_ASSERT_EQUAL(case_host_sms(&c, cpus[i]), sms[i]);
        CU_ASSERT(case_moe_options(&c, &routing, case_host_sms(&c, cpus[i]), &o, NULL));
        CU_ASSERT_EQUAL(o.num_sms, MIN(sms[i], 24));
    }
    c.num_sms = 6;
    CU_ASSERT_EQUAL(case_host_sms(&c, 1), 6);
    CU_ASSERT_EQUAL(case_host_sms(&c, 8), 8);
}

/* A commit, its date, and the name of a change that it made stand for the same version.  before-NAME is an older
 * version. */
TEST("versions of DeepEP")
{
    static const struct {
        const char *text;
        uint32_t version;
    } known[] = { { "first", 20250225 },
                  { "ebfe47e", 20250225 },
                  { "a84a248c3a1b2d", 20250416 },
                  { "A84A248", 20250416 },
                  { "2025-04-22", 20250422 },
                  { "3e54b78", 20250422 },
                  { "ibgda", 20250422 },
                  { "before-ibgda", 20250421 },
                  { "2031-12-31", 20311231 },
                  { "before-first", 0 },
                  { "2025-02-24", 0 },
                  { "2025-13-01", 0 },
                  { "2025-4-22", 0 },
                  { "2025-04-22-1", 0 },
                  { "a84a24", 0 },
                  { "1234567", 0 },
                  { "20250422", 0 },
                  { "", 0 } };
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        if (case_deepep_version(known[i].text) != known[i].version) fprintf(stderr, "%s\n", known[i].text);
        CU_ASSERT_EQUAL(case_deepep_version(known[i].text), known[i].version);
    }
    struct moe_options o = { .ranks = 64, .ranks_per_node = 8 };
    moe_options_recommend(&o);
    CU_ASSERT_EQUAL(o.dispatch.nvl_send, 32);
    o.deepep = 20250921;
    moe_options_recommend(&o);
    CU_ASSERT_EQUAL(o.dispatch.nvl_send, 20);
    CU_ASSERT_EQUAL(o.combine.rdma_send, 20);
    o = (struct moe_options){ .ranks = 48, .ranks_per_node = 8, .deepep = 20250922 }; /* 48 ranks get the values of
                                                                                       * 64 */
    moe_options_recommend(&o);
    CU_ASSERT_EQUAL(o.dispatch.nvl_send, 32);
    o = (struct moe_options){ .ranks = 400, .ranks_per_node = 8 };
    moe_options_recommend(&o);
    CU_ASSERT_EQUAL(o.dispatch.nvl_send, 28);
}

/* What case_kernel_takes() says of a kernel's option; NULL: it takes it. */
static char *kernel_says(const char *kernel, const char *option, const char *value)
{
    struct case_options c = case_with("kernel", kernel, option, value, NULL);
    GError *error = NULL;
    const bool takes = case_kernel_takes(&c, &error);
    CU_ASSERT_EQUAL(takes, error == NULL);
    char *said = error ? g_strdup(error->message) : NULL;
    g_clear_error(&error);
    return said;
}

TEST("options that a kernel lacks")
{
    static const struct {
        const char *kernel, *option, *value, *said;
    } row[] = {
        { "allgather", "routing", "zipf:1", "routing: expected kernel ll, normal, v2, " },
        { "p2p", "hidden", "4096", "hidden: expected kernel ll, " },
        { "allreduce", "api", "hybrid-ep", "api: expected kernel hybrid-ep, found allreduce" },
        { "ll", "protocol", "ll", "protocol: expected kernel allgather, reducescatter, allreduce or ag-rs, found ll" },
        { "mori", "cached", "true", "cached: expected kernel normal or v2, found mori" },
        { "allgather", "hidden", "7168", NULL }, /* a default says nothing */
        { "mori", "cached", "false", NULL },
        { "pplx", "flush", "warm", NULL },
        { "allgather", "seed", "3", NULL }, /* draws how late ranks launch */
        { "ag-rs", "hidden", "4096", NULL },
        { "alltoallv", "routing", "zipf:1", NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(row); i++) {
        g_autofree char *said = kernel_says(row[i].kernel, row[i].option, row[i].value);
        CU_ASSERT_EQUAL(said != NULL, row[i].said != NULL);
        if (said && row[i].said) CU_ASSERT(g_str_has_prefix(said, row[i].said));
    }
}

TEST("settings of other kernels")
{
    struct case_options c =
        case_with("kernel", "ll", "nvl-chunk", "8", "cached", "true", "flush", "cold", "hidden", "4096", NULL);
    case_settings_drop(&c);
    CU_ASSERT_EQUAL(c.nvl_chunk, 0);
    CU_ASSERT(!c.cached && !case_option_given(&c, "cached"));
    CU_ASSERT_STRING_EQUAL(c.flush, "cold");
    c.kernel = "allgather";
    case_settings_drop(&c);
    CU_ASSERT_PTR_NULL(c.flush);
    CU_ASSERT_EQUAL(c.hidden, 4096); /* work, which allgather refuses */
    CU_ASSERT(!case_kernel_takes(&c, NULL));
}
