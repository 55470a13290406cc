/* test_placement.c - placements of experts on ranks.
 *
 * The published example of the expert-parallel load balancer (12 experts, 16 slots, 4 groups, 2 nodes, 8 ranks) must
 * come out at least as even as its published answer.  Random loads check properties that must always hold.  Placed
 * routings must keep every token's choices. */
#include <stdbool.h>
#include <string.h>
#include "sim/rng.h"
#include "tests/support_trace.h"
#include "traces/generate.h"
#include "traces/placement.h"
#include "traces/placement_json.h"
#include "tests/unit.h"

static uint32_t replica_count(const struct placement *p, uint32_t expert)
{
    return p->replicas_start[expert + 1] - p->replicas_start[expert];
}

/* Returns the load of the most loaded rank, if replicas of an expert share its load evenly. */
static double load_most(const uint64_t *load, const uint32_t *expert_of, uint32_t slots, uint32_t ranks)
{
    uint32_t replicas[4096] = { 0 };
    double most = 0;
    for (uint32_t s = 0; s < slots; s++) replicas[expert_of[s]]++;
    for (uint32_t r = 0; r < ranks; r++) {
        double sum = 0;
        for (uint32_t s = r * (slots / ranks); s < (r + 1) * (slots / ranks); s++)
            sum += (double)load[expert_of[s]] / replicas[expert_of[s]];
        most = MAX(most, sum);
    }
    return most;
}

TEST("published example")
{
    static const uint64_t loads[2][12] = { { 90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86 },
                                           { 20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27 } };
    static const uint32_t published[2][16] = { { 5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1 },
                                               { 7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1 } };
    for (int layer = 0; layer < 2; layer++) {
        const struct placement_input input = { 12, 8, 4, loads[layer], 0 };
        g_auto(placement) p;
        CU_ASSERT_FATAL(placement_make("eplb:4:4", &input, &p, NULL));
        CU_ASSERT(load_most(loads[layer], p.expert_of, 16, 8) <=
                  load_most(loads[layer], published[layer], 16, 8) + 1e-9);
        for (uint32_t e = 0; e < 12; e++) {
            uint32_t theirs = 0;
            for (int s = 0; s < 16; s++) theirs += published[layer][s] == e;
            CU_ASSERT_EQUAL(replica_count(&p, e), theirs);
        }
    }
}

/* Whether the lists of replicas and of slots agree and every expert has a slot.  If `grouped`, all slots of a group of
 * 8 experts must also be on one node of 4 ranks. */
static bool placement_sound(const struct placement *p, bool grouped)
{
    const uint32_t node_slots = p->slots / p->ranks * 4;
    bool good = p->replicas_start[p->experts] == p->slots;
    for (uint32_t e = 0; e < p->experts; e++) {
        good = good && replica_count(p, e) >= 1;
        for (uint32_t i = p->replicas_start[e]; i < p->replicas_start[e + 1]; i++)
            good = good && p->expert_of[p->replicas[i]] == e;
        const uint32_t first = p->replicas[p->replicas_start[e / 8 * 8]] / node_slots;
        for (uint32_t i = p->replicas_start[e]; grouped && i < p->replicas_start[e + 1]; i++)
            good = good && p->replicas[i] / node_slots == first;
    }
    return good;
}

TEST("what always holds")
{
    static const struct {
        const char *spec;
        uint32_t slots;
        bool grouped;
    } specs[] = {
        { "identity", 64, false }, { "greedy", 64, false },   { "eplb:0", 64, false },
        { "eplb:16", 80, false },  { "eplb:16:8", 80, true }, { "eplb:64:4", 128, false },
    };
    double sum[G_N_ELEMENTS(specs)] = { 0 };
    struct rng rng = rng_seeded(6);
    for (int i = 0; i < 50; i++) {
        uint64_t load[64];
        for (int e = 0; e < 64; e++) load[e] = rng_below(&rng, 20) ? rng_below(&rng, 100) : 2000;
        const struct placement_input input = { 64, 16, 4, load, 0 };
        double most[G_N_ELEMENTS(specs)];
        for (size_t s = 0; s < G_N_ELEMENTS(specs); s++) {
            g_auto(placement) p;
            CU_ASSERT_FATAL(placement_make(specs[s].spec, &input, &p, NULL));
            CU_ASSERT_EQUAL(p.slots, specs[s].slots);
            CU_ASSERT(placement_sound(&p, specs[s].grouped));
            most[s] = load_most(load, p.expert_of, p.slots, 16);
        }
        CU_ASSERT_EQUAL(most[2], most[1]);
        for (size_t s = 0; s < G_N_ELEMENTS(specs); s++) sum[s] += most[s];
    }
    /* Heuristics are better in the mean, not each time. */
    CU_ASSERT(sum[1] < sum[0] && sum[3] < 0.9 * sum[1] && sum[3] < sum[4] && sum[4] < sum[1]);
}

TEST("choices survive placement")
{
    const struct routing_options options = { .ranks = 8,
                                             .tokens = 400,
                                             .topk = 4,
                                             .experts = 32,
                                             .masked_places = 9,
                                             .weights = true,
                                             .seed = 2,
                                             .distribution = "zipf:1.3" };
    g_auto(routing) in, out;
    CU_ASSERT_FATAL(routing_generate(&options, &in, NULL));
    g_autofree uint64_t *load = g_new0(uint64_t, 32);
    placement_load_add(&in, load);
    const struct placement_input input = { 32, 8, 8, load, 0 };
    g_auto(placement) p;
    CU_ASSERT_FATAL(placement_make("eplb:24", &input, &p, NULL));
    placement_apply(&p, &in, &out);
    CU_ASSERT(out.experts == 56 && out.ranks == 8 && out.topk == 4);
    for (uint32_t r = 0; r < 8; r++) {
        uint32_t used[56] = { 0 };
        for (uint32_t i = 0; i < 400 * 4; i++) {
            const int32_t from = in.rank[r].experts[i], to = out.rank[r].experts[i];
            CU_ASSERT((from == ROUTING_NONE) == (to == ROUTING_NONE));
            if (to == ROUTING_NONE) continue;
            CU_ASSERT_EQUAL((int32_t)p.expert_of[to], from);
            used[to]++;
        }
        CU_ASSERT(memcmp(in.rank[r].weights, out.rank[r].weights, 400 * 4 * sizeof(float)) == 0);
        /* A source uses the replicas of an expert in rotation, so their numbers of uses differ by at most one. */
        for (uint32_t e = 0; e < 32; e++)
            for (uint32_t i = p.replicas_start[e]; i + 1 < p.replicas_start[e + 1]; i++)
                CU_ASSERT(abs((int)used[p.replicas[i]] - (int)used[p.replicas[i + 1]]) <= 1);
    }
}

static double rank_most(const struct routing *routing)
{
    g_autofree uint64_t *load = g_new0(uint64_t, routing->experts);
    const uint32_t local = routing->experts / routing->ranks;
    uint64_t most = 0, all = 0;
    placement_load_add(routing, load);
    for (uint32_t r = 0; r < routing->ranks; r++) {
        uint64_t sum = 0;
        for (uint32_t e = r * local; e < (r + 1) * local; e++) sum += load[e];
        most = MAX(most, sum);
        all += sum;
    }
    return (double)most * routing->ranks / (double)all;
}

TEST("balancing balances")
{
    const struct routing_options options = {
        .ranks = 16, .tokens = 500, .topk = 8, .experts = 64, .seed = 3, .distribution = "zipf-packed:0.8"
    };
    g_auto(routing) in, greedy, eplb;
    CU_ASSERT_FATAL(routing_generate(&options, &in, NULL));
    CU_ASSERT_FATAL(routing_place(&in, &(struct routing_place_options){ "greedy", 8, 0 }, &greedy, NULL));
    CU_ASSERT_FATAL(routing_place(&in, &(struct routing_place_options){ "eplb:32", 8, 0 }, &eplb, NULL));
    CU_ASSERT(rank_most(&in) > 3);
    CU_ASSERT(rank_most(&greedy) < 2);
    CU_ASSERT(rank_most(&eplb) < 1.1);
}

TEST("files hold placements")
{
    uint64_t load[8] = { 5, 1, 1, 9, 2, 2, 0, 30 };
    const struct placement_input input = { 8, 4, 8, load, 0 };
    g_auto(placement) made, read;
    CU_ASSERT_FATAL(placement_make("eplb:4", &input, &made, NULL));
    g_autofree char *plain = placement_text(&made), *text = g_strconcat("\xef\xbb\xbf", plain, NULL);
    const char *const path = temporary_path("placement.txt");
    g_autofree char *spec = g_strconcat("file:", path, NULL);
    temporary_write(path, text, strlen(text));
    CU_ASSERT_FATAL(placement_make(spec, &input, &read, NULL));
    CU_ASSERT(read.slots == 12 && memcmp(read.expert_of, made.expert_of, 12 * sizeof(uint32_t)) == 0);
}

TEST("wrong placements are named")
{
    static const uint64_t load[8] = { 0 };
    const struct placement_input input = { 8, 4, 8, load, 0 };
    static const struct {
        const char *spec, *file, *words;
    } cases[] = {
        { "best", NULL, "placement: expected identity, greedy, eplb:REDUNDANT[:GROUPS] or file:PATH, found 'best'" },
        { "eplb", NULL, "expected eplb:REDUNDANT" },
        { "eplb:x", NULL, "expected eplb:REDUNDANT" },
        { "eplb:3", NULL, "make 8 experts a multiple of 4 ranks, found 'eplb:3'" },
        { "eplb:4:3", NULL, "groups that divide the experts" },
        { NULL, "0 1\n2 3\n4 5\n6\n", "line 4: expected 2 experts on each of 4 ranks, found 1 on rank 3" },
        { NULL, "0 1\n2 3\n4 5\n", "expected 4 lines of experts, one a rank, found 3" },
        { NULL, "0 1\n2 3\n4 5\n6 7\n0 1\n", "line 5" },
        { NULL, "0 1\n2 3\n4 5\n6 8\n", "line 4: expected an expert 0 to 7, found 8" },
        { NULL, "0 1\n2 3\n4 5\n6 6\n", "found no expert 7" },
        { "file:/nonexistent/placement", NULL, "nonexistent" },
    };
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        struct placement p = { 0 };
        g_autoptr(GError) error = NULL;
        const char *const path = temporary_path("wrong.txt");
        g_autofree char *spec = cases[c].spec ? g_strdup(cases[c].spec) : g_strconcat("file:", path, NULL);
        if (cases[c].file) temporary_write(path, cases[c].file, strlen(cases[c].file));
        CU_ASSERT_FALSE(placement_make(spec, &input, &p, &error));
        CU_ASSERT(error_holds(&error, cases[c].words));
        CU_ASSERT(p.expert_of == NULL);
    }
}

/* Layers of 8 experts in 12 slots on 4 ranks.  Each layer has loads of its own. */
static void layers_make(struct placement *layer, uint32_t layers)
{
    uint64_t load[8];
    for (uint32_t l = 0; l < layers; l++) {
        for (uint32_t e = 0; e < 8; e++) load[e] = 1 + (e * 7 + l * 3) % 11;
        const struct placement_input input = { 8, 4, 8, load, 0 };
        CU_ASSERT_FATAL(placement_make("eplb:4", &input, &layer[l], NULL));
    }
}

/* What is written for all layers is read back layer by layer, in every format. */
TEST("all layers as JSON and back")
{
    enum { LAYERS = 3 };
    struct placement layer[LAYERS];
    layers_make(layer, LAYERS);
    for (enum placement_json form = PLACEMENT_JSON_SGLANG; form <= PLACEMENT_JSON_VLLM_ASCEND; form++) {
        g_autofree char *text = placement_json_text(layer, LAYERS, form);
        g_autofree char *spec = g_strconcat("file:", temporary_text("placement.json", text), NULL);
        for (uint32_t l = 0; l < LAYERS; l++) {
            const struct placement_input input = { 8, 4, 8, NULL, l };
            g_auto(placement) p;
            g_autoptr(GError) error = NULL;
            CU_ASSERT_FATAL(placement_make(spec, &input, &p, &error));
            CU_ASSERT_EQUAL(p.slots, 12);
            CU_ASSERT_EQUAL(memcmp(p.expert_of, layer[l].expert_of, 12 * sizeof(uint32_t)), 0);
        }
    }
    for (uint32_t l = 0; l < LAYERS; l++) placement_clear(&layer[l]);
}

static void json_refused(const char *text, uint32_t layer, const char *expected)
{
    g_autofree char *spec = g_strconcat("file:", temporary_text("placement.json", text), NULL);
    g_autoptr(GError) error = NULL;
    const struct placement_input input = { 4, 2, 8, NULL, layer };
    struct placement p;
    CU_ASSERT_FALSE(placement_make(spec, &input, &p, &error));
    CU_ASSERT(error_holds(&error, expected));
}

TEST("JSON that is none")
{
    json_refused("{", 0, "expected JSON");
    json_refused("{\"logical_count\": [[1]]}", 0, "expected physical_to_logical_map, layer_list or a list, found none");
    json_refused("[[0,1,2,3],[0,1,2,4]]", 1, "map[1][3]: expected an expert 0 to 3, found 4");
    json_refused("[0,1,2,3,0]", 1, "map: expected slots that divide over 2 ranks, found 5");
    json_refused("[]", 0, "expected an array of one or more than 0 layers");
    json_refused("{\"physical_to_logical_map\": 7}", 0, "expected an array of one or more than 0 layers, found none");
    json_refused("{\"physical_to_logical_map\": [[0,1,2,3],[0,1,2,3]]}", 2, "more than 2 layers, found 2");
    json_refused("{\"physical_to_logical_map\": [[0,1,2,4]]}", 0,
                 "physical_to_logical_map[0][3]: expected an expert 0 to 3, found 4");
    json_refused("{\"physical_to_logical_map\": [[0,1,2,null]]}", 0, "found null");
    json_refused("{\"physical_to_logical_map\": [[0,1,2,3,3]]}", 0, "expected slots that divide over 2 ranks, found 5");
    json_refused("{\"physical_to_logical_map\": [[0,1,2,2]]}", 0, "found no expert 3");
    json_refused("{\"layer_list\": [{\"device_list\": [{\"device_expert\": [0,1]}]}]}", 0,
                 "expected 2 devices, one a rank, found 1");
    json_refused("{\"layer_list\": [{\"device_list\": [{\"device_expert\": [0,1]}, {\"device_expert\": [2]}]}]}", 0,
                 "as many experts as the devices before have, found 1");
    json_refused("{\"layer_list\": [{\"device_list\": [{\"device_expert\": [0,1]}, {}]}]}", 0,
                 "expected an array of experts, found nothing");
}
