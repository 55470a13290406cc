/* test_step.c - whole steps: nets, tables of compute times, schedules, and how kernels share the SMs of a GPU. */
#include "models/step/compute_table.h"
#include "models/step/costs.h"
#include "models/step/device.h"
#include "models/step/net.h"
#include "models/step/program.h"
#include "models/step/schedule.h"
#include "replay/replay_step.h"
#include "tests/unit.h"

#include <math.h>
#include <string.h>

/* ---- nets ---- */

TEST("nets that ship have the parameters that their makers say")
{
    static const struct {
        const char *name;
        uint32_t layers, dense, experts, topk;
        double parameters_1e9; /* as their makers publish them; must agree within 2 % */
    } nets[] = {
        { "deepseek-v3", 61, 3, 256, 8, 671 },    { "kimi-k2", 61, 1, 384, 8, 1026 },
        { "qwen3-235b", 94, 0, 128, 8, 235 },     { "glm-4.5", 92, 3, 160, 8, 355 },
        { "gpt-oss-120b", 36, 0, 128, 4, 116.8 }, { "minimax-m2", 62, 0, 256, 8, 230 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(nets); i++) {
        GError *error = NULL;
        struct net *n = net_load(nets[i].name, &error);
        CU_ASSERT_FATAL(n != NULL && !error);
        CU_ASSERT_EQUAL(n->layers, nets[i].layers);
        CU_ASSERT_EQUAL(n->dense_layers, nets[i].dense);
        CU_ASSERT_EQUAL(n->experts, nets[i].experts);
        CU_ASSERT_EQUAL(n->topk, nets[i].topk);
        CU_ASSERT_EQUAL(n->window_layers, strcmp(nets[i].name, "gpt-oss-120b") == 0 ? 18 : 0);
        CU_ASSERT_EQUAL(n->topk_groups, strcmp(nets[i].name, "deepseek-v3") == 0 ? 4 : 1);
        const double sparse = n->layers - n->dense_layers;
        const double all =
            (double)n->layers * (double)net_attention_weights(n) + n->dense_layers * (double)net_dense_weights(n) +
            sparse * (double)(net_experts_weights(n) + net_shared_weights(n)) + (double)net_head_weights(n);
        CU_ASSERT_DOUBLE_EQUAL(all / 1e9, nets[i].parameters_1e9, 0.02 * nets[i].parameters_1e9);
        net_free(n);
    }
}

#define SMALL_NET \
    "{\"num_hidden_layers\":8,\"hidden_size\":64,\"vocab_size\":10,\"intermediate_size\":8,\"num_attention_heads\":2," \
    "\"num_experts\":4,\"num_experts_per_tok\":1,"

/* Every family's way to say which layers have experts is counted; what is not read would make all layers sparse. */
TEST("nets whose layers have experts now and then")
{
    static const struct {
        const char *says;
        uint32_t dense, inter, expert_inter, shared_inter;
    } nets[] = {
        { "\"first_k_dense_replace\":1,\"moe_layer_freq\":1}", 1, 8, 8, 0 },
        { "\"first_k_dense_replace\":3,\"moe_layer_freq\":2}", 6, 8, 8, 0 }, /* experts in 4 and 6 */
        { "\"moe_layer_freq\":[0,1,1,0,1,1,1,1]}", 2, 8, 8, 0 },
        { "\"decoder_sparse_step\":2,\"mlp_only_layers\":[0,1]}", 5, 8, 8, 0 }, /* experts in 3, 5 and 7 */
        { "\"interleave_moe_layer_step\":2,\"intermediate_size_mlp\":16}", 4, 16, 8, 8 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(nets); i++) {
        g_autofree char *text = g_strconcat(SMALL_NET, nets[i].says, NULL);
        struct net *n = net_parse("net", text, strlen(text), NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(n);
        CU_ASSERT_EQUAL(n->dense_layers, nets[i].dense);
        CU_ASSERT_EQUAL(n->inter, nets[i].inter);
        CU_ASSERT_EQUAL(n->expert_inter, nets[i].expert_inter);
        CU_ASSERT_EQUAL(n->shared_inter, nets[i].shared_inter);
        net_free(n);
    }
}

static void net_refused(const char *text, const char *part)
{
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL_FATAL(net_parse("net", text, strlen(text), &error));
    CU_ASSERT(error_holds(&error, part));
}

TEST("nets that cannot be are refused")
{
    static const char dense[] = "{\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":10,\"intermediate_size\":8,"
                                "\"num_attention_heads\":2";
    g_autofree char *negative = g_strconcat(dense, ",\"num_experts\":-1,\"num_experts_per_tok\":1}", NULL);
    g_autofree char *more = g_strconcat(dense, ",\"num_experts\":4,\"num_experts_per_tok\":5}", NULL);
    g_autofree char *without = g_strconcat(dense, "}", NULL);
    g_autofree char *word = g_strconcat(dense, ",\"num_experts\":\"many\",\"num_experts_per_tok\":5}", NULL);
    g_autofree char *heads =
        g_strconcat("{\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":10,\"intermediate_size\":8,\"num_"
                    "attention_heads\":65,\"num_experts\":4,\"num_experts_per_tok\":1}",
                    NULL);
    net_refused(heads, "head_dim: expected a whole number from 1 to 65536, found nothing");
    net_refused("{", "net:1");
    net_refused("[]", "net:1: expected a config.json");
    net_refused(without, "a net with experts");
    net_refused(negative, "num_experts: expected a whole number from 1 to 65536, found -1");
    net_refused(more, "num_experts_per_tok: expected a whole number from 1 to 4, found 5");
    net_refused(word, "found \"many\"");
    g_autofree char *uneven =
        g_strconcat(dense, ",\"num_experts\":8,\"num_experts_per_tok\":2,\"n_group\":3,\"topk_group\":1}", NULL);
    g_autofree char *small =
        g_strconcat(dense, ",\"num_experts\":8,\"num_experts_per_tok\":3,\"n_group\":4,\"topk_group\":1}", NULL);
    net_refused(uneven, "n_group: expected a divisor of 8 experts, so that topk_group of them hold 2, found 3");
    net_refused(SMALL_NET "\"decoder_sparse_step\":9}", "num_hidden_layers: expected layers with experts");
    net_refused(SMALL_NET "\"moe_layer_freq\":0}", "moe_layer_freq: expected a whole number from 1 to 4096, found 0");
    net_refused(small, "n_group: expected a divisor of 8 experts, so that topk_group of them hold 3, found 4");
}

/* ---- tables ---- */

static struct compute_table *table_of(const char *text, GError **error)
{
    return compute_table_parse("table", text, strlen(text), error);
}

TEST("tables give times between their points")
{
    static const char text[] = "gpu,op,dtype,shape,us,tokens,context\n"
                               "h,a,fp8,x,10,1,100\nh,a,fp8,x,40,4,100\nh,a,fp8,x,160,4,1600\nh,a,fp8,x,40,1,1600\n"
                               "h,a,fp8,z,10,1,1\nh,a,fp8,z,19,4,1\n";
    struct compute_table *t = table_of(text, NULL);
    bool beyond;
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    static const struct {
        struct compute_point point;
        double us;
        bool beyond;
    } asked[] = {
        { { "a", "h", "fp8", "x", 1, 100 }, 10, false },
        { { "a", "h", "fp8", "x", 2, 100 }, 20, false }, /* half-way in logarithms */
        /* Half-way in both logarithms: 2 tokens take 20 at context 100, and 80 at context 1600. */
        { { "a", "h", "fp8", "x", 2, 400 }, 40, false },
        /* Beyond 4 tokens the time grows as from 1 to 4: half-way between 80 at context 100 and 320 at context 1600. */
        { { "a", "h", "fp8", "x", 8, 400 }, 160, true },
        { { "a", "h", "fp8", "x", 1, 3200 }, 80, true }, /* the time grows with the context as within the table */
        { { "a", "h", "fp8", "x", 0.5, 10 }, 10, true }, /* below the smallest point, so the time of that point */
        { { "a", "h", "fp8", "z", 8, 1 }, 31, true },    /* 3 us more for each token, as from 1 to 4 */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(asked); i++) {
        CU_ASSERT_DOUBLE_EQUAL(compute_table_us(t, &asked[i].point, &beyond), asked[i].us, 1e-9);
        CU_ASSERT_EQUAL(beyond, asked[i].beyond);
    }
    CU_ASSERT_TRUE(isnan(compute_table_us(t, &(struct compute_point){ "a", "h", "fp8", "y", 8, 1 }, &beyond)));
    compute_table_free(t);
}

/* Returns the time in us for rows of four experts.  `tiled` is the number of rows if each expert's rows are filled up
 * to whole tiles. */
static double rows_us(const struct costs_options *o, enum step_op op, double rows, double tiled)
{
    return costs_of(o, op, PASS_FORWARD, 1, (struct costs_rows){ rows, tiled, rows }, 4).us;
}

/* Times of the experts' GEMMs.  If rows are in order (`contiguous`), prefill uses the table of that layout, whose times
 * include ordering the rows and a host's launches.  Decode uses the shipped table of the other layout.  Beyond the end
 * of that table, decode uses the time of fewer experts with as many rows each. */
TEST("experts' rows in order, in decode and prefill")
{
    struct compute_table *t = table_of("gpu,op,dtype,shape,us,tokens,context\n"
                                       "h,experts_masked,fp8,64x32,90,8,2\nh,experts_masked,fp8,64x32,120,1024,2\n"
                                       "h,experts_masked,fp8,64x32,150,8,4\nh,experts_masked,fp8,64x32,150,1024,4\n"
                                       "h,experts_contiguous,fp8,64x32,600,8,4\n"
                                       "h,experts_contiguous,fp8,64x32,600,4096,4\n",
                                       NULL);
    struct step_gpu gpu = { .name = "h",
                            .fp8_tflops = 1e3,
                            .bf16_tflops = 1e3,
                            .gemm_share = 1,
                            .clock_ghz = 1,
                            .zeros_power = 0.48,
                            .copies_power = 0.4 };
    struct net net = { .hidden = 64, .expert_inter = 32, .experts = 4, .topk = 1 };
    struct costs_options o = { .net = &net,
                               .gpu = &gpu,
                               .shipped = t,
                               .fp8 = true,
                               .attention_tp = 1,
                               .sms = 100,
                               .context = 1,
                               .read_gbs = 1e6,
                               .write_gbs = 1e6 };
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_DOUBLE_EQUAL(rows_us(&o, STEP_EXPERTS, 1024, 1024), 150, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(rows_us(&o, STEP_EXPERTS, 2048, 2048), 2 * 120, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(rows_us(&o, STEP_EXPERTS, 1024, 1536), 1.5 * 150, 0.1); /* 1.5 times as many tiles */
    CU_ASSERT_DOUBLE_EQUAL(rows_us(&o, STEP_EXPERTS, 128, 512), 150, 1e-6);        /* experts with equal rows do not
                                                                                    * fill tiles better */
    const struct step_cost half =
        costs_of(&o, STEP_EXPERTS, PASS_FORWARD, 1, (struct costs_rows){ 1024, 2048, 1024 }, 4);
    CU_ASSERT_DOUBLE_EQUAL(half.power, 0.74, 1e-3); /* half of the rows are zeros, which draw 0.48 of the power of other
                                                     * rows */
    o.contiguous = true;
    CU_ASSERT_DOUBLE_EQUAL(rows_us(&o, STEP_UP, 1024, 1024), 100, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(rows_us(&o, STEP_DOWN, 2048, 2048), 80, 1e-6);
    o.prefill = true;
    CU_ASSERT_DOUBLE_EQUAL(rows_us(&o, STEP_UP, 1024, 1024), 400, 1);
    o.prefill = false, o.own = t; /* the user's table counts first */
    CU_ASSERT_DOUBLE_EQUAL(rows_us(&o, STEP_UP, 1024, 1024), 400, 1);
    compute_table_free(t);
}

/* Tensor cores lower the SMs' clock at any power.  Under continuous load, power lowers the clock, too.  Between GEMMs
 * it lowers the clock by more than the times of GEMMs show. */
TEST("the clock of SMs that communicate")
{
    const struct step_gpu gpu = {
        .clock_ghz = 2, .sustained_clock_ghz = 1.75, .tensor_clock_ghz = 1.6, .pause_clock_ghz = 1.6
    };
    struct costs_options o = { .gpu = &gpu, .clock_ghz = 2 };
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 1, 0), 1, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 1, 1), 0.8, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 1, 3), 0.8, 1e-9); /* two GEMMs at once have the same tensor cores */
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 1, 0.5), 0.9, 1e-9);
    o.clock_ghz = 1.75;
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 1, 0), 0.8, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 1, 1), 0.7, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 2 / 1.75, 1), 0.8, 1e-9); /* with pauses between them, GEMMs run at the
                                                                         * set clock */
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 0.5, 0), 0.35, 1e-9);     /* never below the clock beside GEMMs */
    o.clock_ghz = 0;
    CU_ASSERT_DOUBLE_EQUAL(costs_sm_clock(&o, 1, 1), 1, 1e-9); /* timed work has no clock */
}

/* Each GPU that shares attention keeps its own heads, for the sequences of all these GPUs.  Each GPU keeps the whole
 * latent, and any head that it shares with others. */
TEST("bytes of the cache")
{
    struct net net = { .layers = 2, .kv_heads = 4, .head_size = 8, .kv_rank = 24, .rope_size = 8 };
    struct costs_options o = { .net = &net, .fp8 = true, .attention_tp = 1, .context = 100 };
    CU_ASSERT_DOUBLE_EQUAL(costs_cache_bytes(&o, 3), 3 * 100 * 2 * 64, 0);
    o.attention_tp = 4;
    CU_ASSERT_DOUBLE_EQUAL(costs_cache_bytes(&o, 3), 3 * 100 * 2 * 64, 0);
    o.attention_tp = 8;
    CU_ASSERT_DOUBLE_EQUAL(costs_cache_bytes(&o, 3), 2 * 3 * 100 * 2 * 64, 0);
    net.window = 20, net.window_layers = 1; /* one of two layers keeps a window */
    CU_ASSERT_DOUBLE_EQUAL(costs_cache_bytes(&o, 3), 2 * 3 * (100 + 20) * 64, 1e-9);
    net.window_layers = 0;
    net.latent = true;
    CU_ASSERT_DOUBLE_EQUAL(costs_cache_bytes(&o, 3), 8 * 3 * 100 * 2 * 32, 0);
    o.prefill = true;
    CU_ASSERT_DOUBLE_EQUAL(costs_cache_bytes(&o, 200), 8 * 2 * 100 * 2 * 32, 0);
}

/* The core of one head of 8 values, for one token of a sequence of 100, in a net where one of two layers sees a window
 * of 20. */
TEST("attention within a window")
{
    const struct net net = {
        .hidden = 8, .heads = 1, .kv_heads = 1, .head_size = 8, .layers = 2, .window = 20, .window_layers = 1
    };
    const struct step_gpu gpu = { .name = (char *)"x", .bf16_tflops = 1e-6, .gemm_share = 1, .tables_memory_gbs = 1 };
    struct costs_options o = {
        .net = &net, .gpu = &gpu, .attention_tp = 1, .context = 100, .sms = 4, .read_gbs = 1e9, .write_gbs = 1e9
    };
    const struct costs_rows none = { 0, 0, 0 };
    const double gemms = 2 * 4 * 64;
    CU_ASSERT_DOUBLE_EQUAL(costs_of(&o, STEP_ATTENTION, PASS_FORWARD, 1, none, 1).us, gemms + 2 * 60 * 16, 1e-3);
    o.prefill = true; /* its first tokens see fewer: 50 of 100 on average, and 18 of 20 */
    CU_ASSERT_DOUBLE_EQUAL(costs_of(&o, STEP_ATTENTION, PASS_FORWARD, 1, none, 1).us, gemms + 2 * 34 * 16, 1e-3);
}

/* Ten tokens, two heads of 8 values, and 3 experts with 32 weights each in their second GEMM.  Without a context the
 * core has no arithmetic, so that a backward pass moves what forward does, and more. */
TEST("bytes of a backward pass")
{
    const struct net net = { .hidden = 8, .heads = 2, .kv_heads = 2, .head_size = 8, .expert_inter = 4, .topk = 1 };
    const struct step_gpu gpu = { .name = (char *)"x",
                                  .bf16_tflops = 1,
                                  .fp8_tflops = 1,
                                  .gemm_share = 1,
                                  .memory_gbs = 1,
                                  .tables_memory_gbs = 1,
                                  .core_backward = 0.5 };
    const struct costs_options o = { .net = &net,
                                     .gpu = &gpu,
                                     .prefill = true,
                                     .train = true,
                                     .attention_tp = 1,
                                     .sms = 4,
                                     .read_gbs = 1,
                                     .write_gbs = 2 };
    const struct costs_rows rows = { 10, 10, 8 };
    const struct step_cost down = costs_of(&o, STEP_DOWN, PASS_FORWARD, 10, rows, 3),
                           down_wgrad = costs_of(&o, STEP_DOWN, PASS_WGRAD, 10, rows, 3);
    CU_ASSERT_DOUBLE_EQUAL(down_wgrad.read_bytes - down.read_bytes, 4 * 3 * 32, 1e-9); /* FP32 gradients */
    CU_ASSERT_DOUBLE_EQUAL(down_wgrad.write_bytes - down.write_bytes, 4 * 3 * 32, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(down_wgrad.us - down.us, 4 * 3 * 32 * 1.5e-3, 1e-9);
    const struct step_cost attention = costs_of(&o, STEP_ATTENTION, PASS_FORWARD, 10, rows, 3),
                           dgrad = costs_of(&o, STEP_ATTENTION, PASS_DGRAD, 10, rows, 3);
    const double numbers = 10 * 2 * 8; /* of queries, and of outputs */
    CU_ASSERT_DOUBLE_EQUAL(dgrad.read_bytes - attention.read_bytes, numbers * (2 + 2 + 4), 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(dgrad.write_bytes - attention.write_bytes, numbers * (4 + 2), 1e-9);
    const struct step_cost up = costs_of(&o, STEP_UP, PASS_FORWARD, 10, rows, 3),
                           up_dgrad = costs_of(&o, STEP_UP, PASS_DGRAD, 10, rows, 3);
    const double gated = 10 * 4; /* the gate's output; its inputs are twice as many */
    CU_ASSERT_DOUBLE_EQUAL(up_dgrad.read_bytes - up.read_bytes, gated * 2, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(up_dgrad.write_bytes - up.write_bytes, gated * (2 * 2 + 2) - gated * 2, 1e-9);
}

/* One token of a net whose attention is all arithmetic: a core of 2 * 100 FLOPs for each of the head's two products of
 * 8 numbers, and 4 * 64 weights.  Latent attention also computes its up-projections again. */
TEST("arithmetic of a backward pass")
{
    struct net net = { .hidden = 8, .heads = 1, .kv_heads = 1, .head_size = 8, .expert_inter = 4, .topk = 1 };
    const struct step_gpu gpu = { .name = (char *)"x",
                                  .bf16_tflops = 1e-6,
                                  .fp8_tflops = 1e-6,
                                  .gemm_share = 1,
                                  .memory_gbs = 1,
                                  .tables_memory_gbs = 1,
                                  .core_backward = 0.5,
                                  .fp8_wgrad = 1.25 };
    struct costs_options o = { .net = &net,
                               .gpu = &gpu,
                               .prefill = true,
                               .train = true,
                               .attention_tp = 1,
                               .context = 200,
                               .sms = 4,
                               .read_gbs = 1e9,
                               .write_gbs = 1e9 };
    const struct costs_rows rows = { 10, 10, 10 };
    const double core = 2 * 100 * 2 * 8, gemms = 2 * 4 * 64;
    CU_ASSERT_DOUBLE_EQUAL(costs_of(&o, STEP_ATTENTION, PASS_FORWARD, 1, rows, 3).us, core + gemms, 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(costs_of(&o, STEP_ATTENTION, PASS_DGRAD, 1, rows, 3).us, core * 2.5 / 0.5 + gemms, 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(costs_of(&o, STEP_ATTENTION, PASS_WGRAD, 1, rows, 3).us, gemms, 1e-3);
    const double down_us = costs_of(&o, STEP_DOWN, PASS_WGRAD, 1, rows, 3).us;
    o.fp8 = true;
    CU_ASSERT_DOUBLE_EQUAL(costs_of(&o, STEP_ATTENTION, PASS_WGRAD, 1, rows, 3).us, gemms * 1.25, 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(costs_of(&o, STEP_DOWN, PASS_WGRAD, 1, rows, 3).us, down_us * 1.25, 1e-3);
    const double kept_bytes = 1.5 * 8; /* of the core's output, for the backward pass */
    const double cast_bytes = 8 + 8;   /* of what the GEMMs before and after the core read */
    struct costs_options inference = o;
    inference.train = false;
    CU_ASSERT_DOUBLE_EQUAL(
        costs_of(&o, STEP_ATTENTION, PASS_FORWARD, 1, rows, 3).write_bytes,
        costs_of(&inference, STEP_ATTENTION, PASS_FORWARD, 1, rows, 3).write_bytes + kept_bytes + cast_bytes, 0);
    const struct step_cost up = costs_of(&o, STEP_UP, PASS_FORWARD, 1, rows, 3),
                           plain = costs_of(&inference, STEP_UP, PASS_FORWARD, 1, rows, 3);
    const double gate_reads = 10 * 2 * 4; /* numbers, which are kept in FP8 */
    CU_ASSERT_DOUBLE_EQUAL(up.read_bytes - plain.read_bytes, 2 * gate_reads, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(up.write_bytes - plain.write_bytes, gate_reads, 1e-9);
    const double weights = 3 * 4 * 8, out = 10 * 8; /* dgrad transposes weights, and casts the output's gradients */
    const struct step_cost down = costs_of(&o, STEP_DOWN, PASS_FORWARD, 1, rows, 3),
                           turned = costs_of(&o, STEP_DOWN, PASS_DGRAD, 1, rows, 3);
    CU_ASSERT_DOUBLE_EQUAL(turned.write_bytes - down.write_bytes, weights + out, 1e-9);
    net.latent = true;
    net.q_rank = 16, net.kv_rank = 4, net.nope_size = 6, net.rope_size = 2, net.value_size = 8;
    const double forward = costs_of(&o, STEP_ATTENTION, PASS_FORWARD, 1, rows, 3).us,
                 dgrad = costs_of(&o, STEP_ATTENTION, PASS_DGRAD, 1, rows, 3).us;
    CU_ASSERT_DOUBLE_EQUAL(dgrad - forward, core * (2.5 / 0.5 - 1) + 2 * (16 * (6 + 2) + 4 * (6 + 8)), 1e-3);
}

/* Ordering reads a token that came once, however many experts of the rank it has, and restoring writes it once. */
TEST("tokens of experts' rows")
{
    const struct net net = { .hidden = 8, .expert_inter = 4, .experts = 8, .topk = 4 };
    const struct step_gpu gpu = { .name = (char *)"x", .memory_gbs = 1, .tables_memory_gbs = 1, .bf16_tflops = 1 };
    const struct costs_options o = {
        .net = &net, .gpu = &gpu, .prefill = true, .sms = 4, .read_gbs = 1, .write_gbs = 1
    };
    const struct costs_rows rows = { 30, 30, 20 };
    const struct step_cost order = costs_of(&o, STEP_ORDER, PASS_FORWARD, 1, rows, 3),
                           restore = costs_of(&o, STEP_RESTORE, PASS_FORWARD, 1, rows, 3);
    CU_ASSERT_DOUBLE_EQUAL(order.read_bytes, 20 * 8 * 2, 0);
    CU_ASSERT_DOUBLE_EQUAL(order.write_bytes, 30 * 8 * 2, 0);
    CU_ASSERT_DOUBLE_EQUAL(restore.read_bytes, 30 * 8 * 2, 0);
    CU_ASSERT_DOUBLE_EQUAL(restore.write_bytes, 20 * 8 * 2, 0);
}

TEST("rows of experts fill tiles")
{
    g_auto(routing) routing;
    routing_alloc(&routing, 2, 1, 4, (uint32_t[]){ 3, 3 }, 0);
    /* The sixth place stays unused. */
    for (uint32_t i = 0; i < 5; i++) routing.rank[i / 3].experts[i % 3] = (int32_t)(i == 4 ? 3 : 0);
    g_autofree double *rows = program_rows(&routing, 1), *tiled = program_rows(&routing, 3);
    g_autofree double *tokens = program_tokens(&routing);
    CU_ASSERT_DOUBLE_EQUAL(rows[0], 4, 0);
    CU_ASSERT_DOUBLE_EQUAL(rows[1], 1, 0);
    CU_ASSERT_DOUBLE_EQUAL(tiled[0], 6, 0);
    CU_ASSERT_DOUBLE_EQUAL(tiled[1], 3, 0);
    CU_ASSERT_DOUBLE_EQUAL(tokens[0] + tokens[1], 5, 0); /* each has one expert */
    routing.topk = 3;                                    /* the same places are one token of each rank */
    routing.rank[0].tokens = routing.rank[1].tokens = 1;
    g_autofree double *met = program_tokens(&routing);
    CU_ASSERT_DOUBLE_EQUAL(met[0], 2, 0);
    CU_ASSERT_DOUBLE_EQUAL(met[1], 1, 0);
}

static void table_refused(const char *text, const char *part)
{
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL_FATAL(table_of(text, &error));
    CU_ASSERT(error_holds(&error, part));
}

TEST("tables with holes are refused")
{
    static const char header[] = "op,gpu,dtype,shape,tokens,context,us\n";
    g_autofree char *hole = g_strconcat(header, "a,h,fp8,x,1,1,5\na,h,fp8,x,2,1,\n", NULL);
    g_autofree char *zero = g_strconcat(header, "a,h,fp8,x,0,1,5\n", NULL);
    g_autofree char *twice = g_strconcat(header, "a,h,fp8,x,2,1,5\na,h,fp8,x,2,1,6\n", NULL);
    g_autofree char *nameless = g_strconcat(header, "a,h,,x,2,1,5\n", NULL);
    table_refused("", "expected CSV with a header");
    table_refused("op,gpu,dtype,shape,tokens,us\n", "table:1: expected a column \"context\"");
    table_refused(hole, "table:3: us: expected a positive number, found \"\"");
    table_refused(zero, "table:2: tokens: expected a positive number, found \"0\"");
    table_refused(twice, "expected one time for 2 tokens and context 1, found two, 5 and 6 us");
    table_refused(nameless, "table:2: dtype: expected a word");
}

/* ---- schedules ---- */

static const char *const normal_names[] = { "layout", "notify", "dispatch", "cached_notify_combine", "combine" };
static const char *const hook_names[] = { "dispatch_send", "dispatch_recv", "combine_send", "combine_recv" };
static const struct schedule_phases normal_phases = { normal_names, 5, 3, false, true, NULL };
static const char *const cached_names[] = { "cached_notify_dispatch", "dispatch", "cached_notify_combine", "combine" };
static const struct schedule_phases cached_phases = { cached_names, 4, 2, false, false, NULL };
static const struct schedule_phases train_phases = { normal_names, 5, 3, false, true, &cached_phases };
static const struct schedule_phases hook_phases = { hook_names, 4, 2, true, false, NULL };

/* Returns the kernels of a stream in order.  If stream is -1, returns those of all streams.  "a0" is an op's first
 * letter and the batch, and "1/0" is a phase's number and the batch. */
static char *order_of(const struct schedule *s, int stream)
{
    GString *text = g_string_new(NULL);
    for (uint32_t k = 0; k < s->kernels->len; k++) {
        const struct schedule_kernel *kernel = schedule_kernel(s, k);
        if (stream >= 0 && kernel->stream != stream) continue;
        if (kernel->op == STEP_COMM) g_string_append_printf(text, " %u/%u", kernel->phase, kernel->batch);
        else g_string_append_printf(text, " %c%u", step_op_name((enum step_op)kernel->op)[0], kernel->batch);
    }
    return g_string_free(text, FALSE);
}

/* Batch 0 goes forward, and batch 1 backward.  A kernel waits only for kernels of its own batch, and only between
 * communication and computation. */
TEST("training pairs a forward and a backward pass")
{
    const struct schedule_layers two = { .dense = 1, .sparse = 2, .shared = true, .ordered = true, .head = true };
    struct schedule *s = MADE(schedule_new(STEP_TWO_BATCH, &two, &train_phases, NULL));
    g_autofree char *comm = order_of(s, STREAM_COMM), *all = order_of(s, STREAM_MAIN);
    CU_ASSERT_STRING_EQUAL(comm, " 0/1 1/1 0/0 1/0 2/0 2/1 3/1 3/0 4/0 0/1 1/1 0/0 1/0 2/0 2/1 3/1 3/0 4/0");
    CU_ASSERT_STRING_EQUAL(all, " a0 d0 d1 a1 d1 a1"
                                " a0 g0 s1 o1 d1 u1 r1 d1 u1 s1 s0 o0 u0 d0 r0 g1 a1 a1"
                                " a0 g0 s1 o1 d1 u1 r1 d1 u1 s1 s0 o0 u0 d0 r0 g1 a1 a1 h0 h1 h1");
    uint32_t waits = 0;
    for (uint32_t k = 0; k < s->kernels->len; k++) {
        const struct schedule_kernel *kernel = schedule_kernel(s, k);
        CU_ASSERT_EQUAL(kernel->batch, kernel->pass != PASS_FORWARD);
        CU_ASSERT_EQUAL(kernel->host_waits, kernel->op == STEP_COMM && kernel->batch == 0 && kernel->phase == 1);
        for (uint32_t i = 0; i < kernel->num_waits; i++, waits++) {
            const struct schedule_kernel *before = schedule_kernel(s, kernel->wait[i]);
            CU_ASSERT_TRUE(kernel->wait[i] < k && before->batch == kernel->batch);
            CU_ASSERT_NOT_EQUAL(before->op == STEP_COMM, kernel->op == STEP_COMM);
        }
    }
    CU_ASSERT_EQUAL(waits, 2 * 8 - 2 + 1); /* eight in each of two layers, less two in the first layer, and one before
                                            * the head's forward pass */
    schedule_free(s);
    s = schedule_new(STEP_SEQUENTIAL, &two, &train_phases, NULL);
    g_autofree char *none = order_of(s, STREAM_COMM);
    CU_ASSERT_STRING_EQUAL(none, "");
    schedule_free(s);
}

TEST("schedules have their kernels in order")
{
    static const struct schedule_layers one = { .sparse = 1, .shared = true }, two = { .sparse = 2, .shared = true };
    static const struct schedule_layers ordered = { .sparse = 1, .ordered = true };
    static const struct schedule_layers all = { .dense = 1, .sparse = 1, .head = true };
    static const struct {
        enum step_overlap overlap;
        const struct schedule_layers *layers;
        const struct schedule_phases *phases;
        int stream;
        const char *order;
    } cases[] = {
        { STEP_SEQUENTIAL, &one, &normal_phases, -1, " a0 g0 s0 0/0 1/0 2/0 e0 3/0 4/0" },
        { STEP_SHARED_ASIDE, &one, &normal_phases, STREAM_SIDE, " s0" },
        { STEP_SHARED_ASIDE, &one, &hook_phases, -1, " a0 g0 0/0 s0 1/0 e0 2/0 3/0" },
        { STEP_TWO_BATCH, &one, &normal_phases, STREAM_COMM, " 0/0 1/0 2/0 0/1 1/1 2/1 3/0 4/0 3/1 4/1" },
        { STEP_TWO_BATCH, &one, &normal_phases, STREAM_MAIN, " a0 g0 a1 g1 e0 e1 s0 s1" },
        { STEP_TWO_BATCH, &ordered, &normal_phases, STREAM_MAIN, " a0 g0 a1 g1 o0 u0 d0 r0 o1 u1 d1 r1" },
        { STEP_TWO_BATCH, &two, &normal_phases, STREAM_MAIN, " a0 g0 a1 g1 e0 e1 s0 a0 g0 s1 a1 g1 e0 e1 s0 s1" },
        { STEP_SEQUENTIAL, &all, &hook_phases, -1, " a0 d0 a0 g0 0/0 1/0 e0 2/0 3/0 h0" },
        { STEP_TWO_BATCH, &one, &normal_phases, -1,
          " a0 g0 a1 g1 0/0 1/0 2/0 e0 0/1 1/1 2/1 e1 s0 3/0 4/0 s1 3/1 4/1" },
        { STEP_STAGES, &one, &hook_phases, -1, " p0 c0 g0 0/0 s0 p1 1/0 e0 2/0 c1 g1 3/0 0/1 s1 1/1 e1 2/1 3/1" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(schedule) s = MADE(schedule_new(cases[i].overlap, cases[i].layers, cases[i].phases, NULL));
        g_autofree char *order = order_of(s, cases[i].stream);
        CU_ASSERT_STRING_EQUAL(order, cases[i].order);
    }
    CU_ASSERT_PTR_NULL(schedule_new(STEP_STAGES, &one, &normal_phases, NULL));
    CU_ASSERT_PTR_NULL(schedule_new(STEP_STAGES, &ordered, &train_phases, NULL));
    CU_ASSERT_PTR_NULL(schedule_new(STEP_TWO_BATCH, &one, &hook_phases, NULL));
}

/* ---- devices ---- */

enum { SMS = 10, KERNELS_MAX = 4 };

/* One GPU in a world that has only a clock and a timer.  Meetings end after the time of their cost. */
struct bench {
    struct device *device;
    struct step_cost cost[KERNELS_MAX];
    uint64_t now_ps, timer_ps, meeting_ps, gap_ps;
    double slow; /* kernels that run at the same time take longer by this factor */
    double lift;
};

static const struct step_cost *bench_cost(void *context, uint32_t rank, uint32_t kernel)
{
    (void)rank;
    return &((const struct bench *)context)->cost[kernel];
}
static uint64_t bench_now(void *context, uint32_t rank)
{
    (void)rank;
    return ((const struct bench *)context)->now_ps;
}
static void bench_timer(void *context, uint32_t rank, uint64_t time_ps)
{
    (void)rank;
    ((struct bench *)context)->timer_ps = time_ps;
}
static void bench_begin(void *context, uint32_t rank, uint32_t kernel)
{
    struct bench *b = context;
    (void)rank;
    b->meeting_ps = b->now_ps + (uint64_t)(b->cost[kernel].us * 1e6);
}
static void bench_contend(void *context, uint32_t rank, struct device_running *running, uint32_t count)
{
    const struct bench *b = context;
    (void)rank;
    for (uint32_t i = 0; count > 1 && i < count; i++) running[i].slow = b->slow;
}

static void bench_run(struct bench *b, const struct schedule *s, uint64_t launch_ps)
{
    char text[128];
    b->device = device_new(&(struct device_options){ .schedule = s,
                                                     .ranks = 1,
                                                     .sms = SMS,
                                                     .cost = bench_cost,
                                                     .now_ps = bench_now,
                                                     .timer_set = bench_timer,
                                                     .begin = bench_begin,
                                                     .contend = b->slow > 0 ? bench_contend : NULL,
                                                     .context = b,
                                                     .lift = b->lift,
                                                     .launch_ps = launch_ps,
                                                     .gap_ps = b->gap_ps });
    b->timer_ps = b->meeting_ps = UINT64_MAX;
    device_start(b->device);
    for (int events = 0; events < 100 && !device_finished(b->device, text, sizeof text); events++) {
        const bool meeting = b->meeting_ps <= b->timer_ps;
        b->now_ps = meeting ? b->meeting_ps : b->timer_ps;
        CU_ASSERT_FATAL(b->now_ps != UINT64_MAX);
        *(meeting ? &b->meeting_ps : &b->timer_ps) = UINT64_MAX;
        if (meeting) device_ended(b->device, 0);
        else device_timer(b->device, 0);
    }
    CU_ASSERT_TRUE(device_finished(b->device, text, sizeof text));
}

static double us(uint64_t ps) { return (double)ps / 1e6; }

/* Makes a schedule of kernels.  stream[] has the stream of each. */
static struct schedule *streams_make(const uint8_t *stream, uint32_t count)
{
    struct schedule *s = g_new0(struct schedule, 1);
    s->kernels = g_array_new(FALSE, TRUE, sizeof(struct schedule_kernel));
    s->priority[STREAM_MAIN] = 1;
    s->priority[STREAM_SIDE] = 2;
    for (uint32_t i = 0; i < count; i++) {
        const struct schedule_kernel k = { .stream = stream[i],
                                           .op = stream[i] == STREAM_COMM ? STEP_COMM : STEP_ATTENTION };
        g_array_append_val(s->kernels, k);
    }
    return s;
}

static void check_span(const struct bench *b, uint32_t kernel, double begin_us, double end_us)
{
    const struct device_times *t = device_times(b->device, 0, kernel);
    CU_ASSERT_DOUBLE_EQUAL(us(t->begin_ps), begin_us, 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(us(t->end_ps), end_us, 1e-3);
}

/* At first a meeting takes 4 of 10 SMs.  A kernel that wants all 10 begins on the other 6.  When it ends depends on how
 * it holds its SMs. */
static void beside_meeting(enum step_occupancy occupancy, double clock_share, double end_us)
{
    static const uint8_t stream[] = { STREAM_COMM, STREAM_MAIN };
    g_autoptr(schedule) s = streams_make(stream, 2);
    struct bench b = { .cost = { { .us = 30, .occupancy = OCCUPANCY_MEETING, .sms = 4 },
                                 { .us = 60, .occupancy = occupancy, .sms = 10, .clock_share = clock_share } } };
    bench_run(&b, s, 0);
    check_span(&b, 0, 0, 30);
    check_span(&b, 1, 0, end_us);
    device_free(b.device);
}

TEST("kernels hold SMs in their ways")
{
    beside_meeting(OCCUPANCY_TILES, 1, 30 + (60 - 30 * 0.6)); /* at 0.6 of its rate until 30 us, then at its full
                                                               * rate */
    beside_meeting(OCCUPANCY_SHORT, 1, 30 + (60 - 30 * 0.6));
    beside_meeting(OCCUPANCY_TILES, 0, 60);  /* moving bytes needs no more than 0.6 of the SMs */
    beside_meeting(OCCUPANCY_SHARES, 1, 90); /* blocks that begin late have as much work as the others */
    /* The kernel only moves bytes.  Until 30 us, six of ten blocks run at 1 / 0.6 of their rate, so 10 us of their 60
     * us are left.  All ten blocks do these 10 us at their own rate.  Then four blocks have 50 us left, at 1 / 0.6 of
     * their rate. */
    beside_meeting(OCCUPANCY_SHARES, 0, 30 + (60 - 30 / 0.6) + (60 - (60 - 30 / 0.6)) * 0.6);
}

/* Power grows with the cube of the clock.  A kernel that draws 1 / 1.1^3 of full power runs at 1.1 times the clock, if
 * the GPU can do that.  If half of its time is the SMs' arithmetic, only that half gets shorter. */
static void clock_lifts(double lift, double power, double clock_share, double clock, double end_us)
{
    static const uint8_t stream[] = { STREAM_MAIN };
    g_autoptr(schedule) s = streams_make(stream, 1);
    struct bench b = {
        .cost = { { .us = 66, .occupancy = OCCUPANCY_TILES, .sms = 10, .clock_share = clock_share, .power = power } },
        .lift = lift
    };
    bench_run(&b, s, 0);
    check_span(&b, 0, 0, end_us);
    CU_ASSERT_DOUBLE_EQUAL(device_clock(b.device, 0), clock, 1e-4);
    device_free(b.device);
}

TEST("a GPU that draws less power runs faster")
{
    clock_lifts(1.2, 1, 1, 1, 66);
    clock_lifts(1.2, 1 / 1.331, 1, 1.1, 60);
    clock_lifts(1.05, 1 / 1.331, 1, 1.05, 66 / 1.05);
    clock_lifts(1.2, 1 / 1.331, 0.5, 1.1, 63);
    clock_lifts(0, 1 / 1.331, 1, 1, 66); /* without a lift, the clock stays as it is given */
}

/* A kernel that holds all SMs keeps a meeting from beginning, unless its blocks are short or it consists of several
 * kernels. */
static void meeting_behind(enum step_occupancy occupancy, uint32_t kernels, double begin_us, double end_us)
{
    static const uint8_t stream[] = { STREAM_MAIN, STREAM_COMM };
    g_autoptr(schedule) s = streams_make(stream, 2);
    struct bench b = { .cost = { { .us = 60, .occupancy = occupancy, .sms = 10, .kernels = kernels, .clock_share = 1 },
                                 { .us = 30, .occupancy = OCCUPANCY_MEETING, .sms = 4 } } };
    s->kernels->len = 2;
    bench_run(&b, s, 10 * 1000000); /* the host launches a kernel each 10 us */
    check_span(&b, 1, begin_us, begin_us + 30);
    check_span(&b, 0, 10, end_us);
    device_free(b.device);
}

TEST("a meeting waits for SMs")
{
    meeting_behind(OCCUPANCY_TILES, 1, 70, 70);
    meeting_behind(OCCUPANCY_SHORT, 1, 20, 20 + 30 + (50 - 30 * 0.6));
    meeting_behind(OCCUPANCY_TILES, 3, 30, 30 + 30 + (40 - 30 * 0.6)); /* behind the first of three kernels */
}

/* A kernel of the stream COMM ends while blocks of the stream MAIN wait for SMs.  If there is a gap before COMM's next
 * kernel, the waiting blocks take the SMs; otherwise COMM's next kernel takes them. */
static void beside_two_meetings(uint64_t gap_ps, double second_us, double end_us)
{
    static const uint8_t stream[] = { STREAM_COMM, STREAM_MAIN, STREAM_COMM };
    g_autoptr(schedule) s = streams_make(stream, 3);
    struct bench b = { .cost = { { .us = 30, .occupancy = OCCUPANCY_MEETING, .sms = 4 },
                                 { .us = 60, .occupancy = OCCUPANCY_SHARES, .sms = 10, .clock_share = 1 },
                                 { .us = 10, .occupancy = OCCUPANCY_MEETING, .sms = 4 } },
                       .gap_ps = gap_ps };
    bench_run(&b, s, 0);
    check_span(&b, 1, 0, end_us);
    check_span(&b, 2, second_us, second_us + 10);
    device_free(b.device);
}

TEST("waiting blocks take SMs in the gap between kernels")
{
    beside_two_meetings(0, 30, 100);
    beside_two_meetings(1000000, 60, 90);
}

TEST("kernels slow each other")
{
    static const uint8_t stream[] = { STREAM_COMM, STREAM_MAIN };
    g_autoptr(schedule) s = streams_make(stream, 2);
    struct bench b = { .cost = { { .us = 30, .occupancy = OCCUPANCY_MEETING, .sms = 4 },
                                 { .us = 60, .occupancy = OCCUPANCY_TILES, .sms = 6, .clock_share = 1 } },
                       .slow = 1.5 };
    bench_run(&b, s, 0);
    check_span(&b, 1, 0, 30 + (60 - 30 / 1.5));
    device_free(b.device);
}

/* The host must not launch another kernel before the awaited kernel has ended. */
TEST("the host waits")
{
    static const uint8_t stream[] = { STREAM_COMM, STREAM_MAIN, STREAM_MAIN };
    g_autoptr(schedule) s = streams_make(stream, 3);
    struct bench b = { .cost = { { .us = 30, .occupancy = OCCUPANCY_MEETING, .sms = 4 },
                                 { .us = 10, .occupancy = OCCUPANCY_TILES, .sms = 6, .clock_share = 1 },
                                 { .us = 10, .occupancy = OCCUPANCY_TILES, .sms = 6, .clock_share = 1 } } };
    g_array_index(s->kernels, struct schedule_kernel, 0).host_waits = true;
    g_array_index(s->kernels, struct schedule_kernel, 2).num_waits = 1; /* for kernel 0, which has ended long before */
    bench_run(&b, s, 1000000);
    check_span(&b, 0, 1, 31);
    check_span(&b, 1, 32, 42);
    check_span(&b, 2, 42, 52);
    device_free(b.device);
}

TEST("timed work is read")
{
    static const char *const refused[] = {
        "", "experts", "experts=2", "experts=0us", "dense=1us", "gate=1us,gate=1us"
    };
    struct program_work work;
    CU_ASSERT_TRUE(program_work_parse("attention=1ms,experts=20us,head=3us", &work, NULL));
    CU_ASSERT_DOUBLE_EQUAL(program_work_us(&work, STEP_ATTENTION, 7), 1000, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(program_work_us(&work, STEP_EXPERTS, 7), 140, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(program_work_us(&work, STEP_GATE, 7), 0, 1e-9);
    const struct schedule_layers layers = program_work_layers(&work, 5);
    CU_ASSERT_TRUE(layers.sparse == 5 && layers.dense == 0 && layers.head && !layers.shared);
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autoptr(GError) error = NULL;
        CU_ASSERT_FALSE(program_work_parse(refused[i], &work, &error));
        CU_ASSERT_PTR_NOT_NULL_FATAL(error);
        CU_ASSERT_TRUE(g_str_has_prefix(error->message, "--work: expected OP=TIME"));
    }
}

static const char *two_phases(const struct kernel_job *job, uint32_t phase)
{
    (void)job;
    return phase ? "combine_recv" : "combine_send";
}

/* Two ranks have a send and its receive.  Rank 0 receives from 20 us on, and rank 1 sends from 50 us on.  So rank 0
 * waits 30 us, but at most as long as its receive takes.  The sums are means over both ranks. */
TEST("live spans are summed up")
{
    static const struct kernel_family family = { .phase_name = two_phases };
    const struct kernel_job job = { .family = &family, .ranks = 2 };
    static const uint8_t stream[] = { STREAM_MAIN, STREAM_MAIN, STREAM_MAIN };
    g_autoptr(schedule) s = streams_make(stream, 3);
    for (uint32_t k = 1; k < 3; k++) {
        g_array_index(s->kernels, struct schedule_kernel, k).op = STEP_COMM;
        g_array_index(s->kernels, struct schedule_kernel, k).phase = (uint8_t)(k - 1);
    }
    g_array_index(s->kernels, struct schedule_kernel, 0).op = STEP_EXPERTS;
    struct replay_step_span span[] = { { 5, 10 }, { 10, 20 }, { 20, 80 }, { 5, 50 }, { 50, 60 }, { 60, 65 } };
    struct replay_step_sum sum;
    replay_step_sum_up(s, &job, span, 2, &sum);
    CU_ASSERT_DOUBLE_EQUAL(sum.step_us, 75, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sum.waited_us, 15, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sum.waiting_us[STEP_COMPUTE_OPS + 1], 15, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sum.waiting_us[STEP_COMPUTE_OPS], 0, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sum.mean_us[STEP_EXPERTS], 25, 1e-9);
    CU_ASSERT_EQUAL(sum.kernels[STEP_EXPERTS], 1);
    span[2].end_us = 40;
    replay_step_sum_up(s, &job, span, 2, &sum);
    CU_ASSERT_DOUBLE_EQUAL(sum.waited_us, 10, 1e-9);
}
