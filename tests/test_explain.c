/* test_explain.c - explanations of profiles: which kernels communicate, what their order tells, and parts that add
 * up. */
#include "models/predict/explain.h"
#include "sim/rng.h"
#include "tests/unit.h"

static void name_is(const char *name, const char *kernel, const char *phase, uint32_t ranks, uint32_t hidden,
                    bool cached)
{
    const struct profile_phase is = profile_phase_of(name);
    if (g_strcmp0(is.phase, phase) != 0) printf("\n%s: %s\n", name, is.phase ? is.phase : "none");
    CU_ASSERT_EQUAL(g_strcmp0(is.phase, phase), 0);
    CU_ASSERT_EQUAL(g_strcmp0(is.kernel, kernel), 0);
    CU_ASSERT_EQUAL(is.ranks, ranks);
    CU_ASSERT_EQUAL(is.hidden, hidden);
    CU_ASSERT_EQUAL(is.cached, cached);
}

TEST("names")
{
    name_is("void deep_ep::internode::dispatch<false, 2, true, 8192, 7, 2>(int4*)", "normal", "dispatch", 16, 0, true);
    name_is("void dpsk::ep::internode::dispatch<false, 8, false, 8>(int4*)", "normal", "dispatch", 64, 0, false);
    name_is("void deep_ep::internode::combine<false, 4, __nv_bfloat16, 8, 2>(int)", "normal", "combine", 32, 0, false);
    name_is("void deep_ep::intranode::dispatch<8, 768, 8192>(int)", "normal", "dispatch", 8, 0, false);
    name_is("void deep_ep::intranode::combine<__nv_bfloat16, 4, 768>(int)", "normal", "combine", 4, 0, false);
    name_is("void deep_ep::intranode::cached_notify_combine<2>(int)", "normal", "cached_notify_combine", 2, 0, false);
    name_is("deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)", "normal", "layout", 0, 0, false);
    name_is("void uccl::internode_ll::dispatch<true, false, 7168>(void*)", "ll", "dispatch", 0, 7168, false);
    name_is("void deep_ep::internode_ll::dispatch<true, 4096>(void*)", "ll", "dispatch", 0, 4096, false);
    name_is("void deep_ep::internode_ll::combine<7168, 9, 3>(void*)", "ll", "combine", 0, 7168, false);
    name_is("void nccl_ep::internode_ll::dispatch<false, false, 7168, (ncclEpLayout_t)1, true>(void*)", NULL,
            "dispatch", 0, 7168, false);
    name_is("nccl_ep_jit_ht_dispatch_kernel", NULL, "dispatch", 0, 0, false);
    name_is("void deep_ep::elastic::hybrid_dispatch_impl<true, false, 24>(void*)", "v2", "dispatch", 0, 0, false);
    name_is("dispatch_copy_epilogue_impl<1>(void*)", "v2", "dispatch_copy", 0, 0, false);
    name_is("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", NULL, "allreduce", 0, 0,
            false);
    name_is("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", NULL, "alltoall", 0, 0, false);
    name_is("void my::not_internode::dispatch<1>(int)", NULL, NULL, 0, 0, false);
    name_is("void cutlass::device_kernel<deep_ep::internode::dispatch<1> >(int)", NULL, NULL, 0, 0, false);
    name_is("void deep_ep::internode::dispatch_other<1>(int)", NULL, NULL, 0, 0, false);
    name_is("", NULL, NULL, 0, 0, false);
    name_is("void deep_ep::internode::dispatch<(bool", "normal", "dispatch", 0, 0, false);
    name_is("void deep_ep::internode::dispatch<(bool>(int)", "normal", "dispatch", 0, 0, false);
    name_is("void deep_ep::internode::dispatch<(bool)1, 2, (bool)1>(int)", "normal", "dispatch", 16, 0, true);
    name_is("<<<<", NULL, NULL, 0, 0, false);
}

/* Names that releases share tell the kernel only if somebody says which release ran. */
TEST("names of releases")
{
    const struct profile_phase is = profile_phase_of("nccl_ep_jit_ht_combine_7");
    CU_ASSERT_TRUE(profile_phase_is(&is, "nccl-ht"));
    CU_ASSERT_FALSE(profile_phase_is(&is, "nccl-ll"));
    CU_ASSERT_FALSE(profile_phase_is(&is, NULL));
    const struct profile_phase nccl = profile_phase_of("ncclDevKernel_SendRecv(x)");
    CU_ASSERT_FALSE(profile_phase_is(&nccl, NULL));
}

static const char *const names[] = { "void deep_ep::internode_ll::dispatch<true, 7168>(int)",
                                     "void deep_ep::internode_ll::combine<false, 7168, 3>(int)",
                                     "void deep_ep::internode::notify_dispatch<false, 2>(int)",
                                     "void deep_ep::internode::cached_notify<false>(int)",
                                     "void deep_ep::internode::dispatch<false, 2, false>(int)",
                                     "void deep_gemm::gemm(int)" };
enum { DISPATCH, COMBINE, NOTIFY, CACHED, NORMAL, GEMM };

static void add(struct profile_builder *b, int name, int64_t begin_us, int64_t end_us)
{
    const struct profile_kernel kernel = { .begin_ns = begin_us * 1000,
                                           .end_ns = end_us * 1000,
                                           .launch_ns = PROFILE_NO_LAUNCH,
                                           .name = profile_builder_name(b, names[name]),
                                           .blocks = 20 };
    CU_ASSERT_TRUE(profile_builder_kernel(b, &kernel));
}

static struct profile *built(struct profile_builder *b, int32_t rank)
{
    profile_builder_facts(b)->rank = rank;
    g_autoptr(GPtrArray) profiles = profile_builder_end(b);
    CU_ASSERT_EQUAL_FATAL(profiles->len, 1);
    struct profile *profile = g_ptr_array_index(profiles, 0);
    g_ptr_array_set_free_func(profiles, NULL);
    return profile;
}

static void order_is(const int *kernels, guint count, const char *const *phases)
{
    struct profile_builder *b = profile_builder_new("x", "test");
    for (guint i = 0; i < count; i++) add(b, kernels[i], 10 * i, 10 * i + 5);
    struct profile *profile = built(b, 0);
    g_autoptr(GArray) calls = profile_calls(profile);
    CU_ASSERT_EQUAL_FATAL(calls->len, count);
    for (guint i = 0; i < count; i++)
        CU_ASSERT_STRING_EQUAL(g_array_index(calls, struct profile_call, i).phase, phases[i]);
    profile_free(profile);
}

TEST("order")
{
    order_is((const int[]){ DISPATCH, COMBINE, DISPATCH, COMBINE }, 4,
             (const char *const[]){ "dispatch", "combine", "dispatch", "combine" });
    order_is((const int[]){ DISPATCH, DISPATCH, COMBINE, COMBINE }, 4,
             (const char *const[]){ "dispatch_send", "dispatch_recv", "combine_send", "combine_recv" });
    order_is((const int[]){ DISPATCH, DISPATCH, COMBINE }, 3,
             (const char *const[]){ "dispatch", "dispatch", "combine" });
    order_is((const int[]){ CACHED, NORMAL, CACHED, COMBINE }, 4,
             (const char *const[]){ "cached_notify_dispatch", "dispatch", "cached_notify_combine", "combine" });
}

/* Makes the profiles of two ranks.  Rank 1 comes 40 us late to each of three dispatches of 100 us, and its clock is
 * skew_us ahead. */
static struct explain *pair_new(int64_t skew_us)
{
    g_autoptr(GPtrArray) profiles = g_ptr_array_new_with_free_func((GDestroyNotify)profile_free);
    for (int32_t rank = 0; rank < 2; rank++) {
        struct profile_builder *b = profile_builder_new("x", "test");
        for (int64_t layer = 0; layer < 3; layer++) {
            const int64_t at = 1000 * layer + (rank ? skew_us : 0), late = rank ? 40 : 0;
            add(b, GEMM, at, at + 100 + late);
            add(b, DISPATCH, at + 101 + late, at + 241);
            add(b, COMBINE, at + 300, at + 500);
        }
        g_ptr_array_add(profiles, built(b, rank));
    }
    struct explain *e = MADE(explain_new(profiles, NULL));
    return e;
}

TEST("late ranks")
{
    g_autoptr(record) wire = record_new();
    record_add(wire, "dispatch", RECORD_ALL, "time_us", 100, "us");
    record_add(wire, "combine", RECORD_ALL, "time_us", 190, "us");
    static const int64_t skews[] = { 0, 7000000 };
    for (size_t s = 0; s < G_N_ELEMENTS(skews); s++) {
        struct explain *e = pair_new(skews[s]);
        CU_ASSERT_EQUAL(e->aligned, s == 1);
        e->kernel = "ll";
        explain_split(e, &(struct explain_wire){ .plain = wire });
        double us[EXPLAIN_PARTS], why[LATES];
        CU_ASSERT_EQUAL(explain_sum(e, "dispatch", 1, 0, us), 141); /* 140 us and the idle microsecond before the
                                                                     * call */
        CU_ASSERT_EQUAL(us[EXPLAIN_WIRE], 100);
        CU_ASSERT_EQUAL(us[EXPLAIN_WAITING], 40);
        CU_ASSERT_EQUAL(explain_sum(e, "dispatch", -1, 1, us), 303);
        CU_ASSERT_EQUAL(us[EXPLAIN_WAITING], 0);
        explain_sum(e, "combine", -1, -1, us);
        CU_ASSERT_EQUAL(us[EXPLAIN_UNKNOWN], 60); /* time that nothing explains stays unknown */
        g_autofree double *waited = explain_waited_for(e, why);
        CU_ASSERT_EQUAL(waited[1], 120);
        CU_ASSERT_EQUAL(why[LATE_WORK], 80); /* 40 us at each of two calls; before the first of the three calls, no work
                                              * was recorded */
        explain_free(e);
    }
}

/* For any profile, no part is negative, and the parts add up to the calls and the gaps before them. */
TEST("parts add up")
{
    struct rng rng = rng_seeded(4);
    for (int turn = 0; turn < 200; turn++) {
        g_autoptr(GPtrArray) profiles = g_ptr_array_new_with_free_func((GDestroyNotify)profile_free);
        const uint32_t ranks = 1 + (uint32_t)rng_below(&rng, 3);
        double all = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            struct profile_builder *b = profile_builder_new("x", "test");
            int64_t at = 0;
            add(b, GEMM, 0, 1);
            for (uint32_t k = 0; k < 20; k++) {
                const int64_t begin = at + (int64_t)rng_below(&rng, 50), end = begin + (int64_t)rng_below(&rng, 200);
                const int name = (int)rng_below(&rng, G_N_ELEMENTS(names));
                add(b, name, begin, end);
                if (name != GEMM) all += (double)(end - begin);
                at = rng_below(&rng, 2) ? begin : end;
            }
            add(b, DISPATCH, at, at + 10);
            all += 10;
            g_ptr_array_add(profiles, built(b, (int32_t)rank));
        }
        struct explain *e = MADE(explain_new(profiles, NULL));
        g_autoptr(record) wire = record_new();
        record_add(wire, "dispatch", RECORD_ALL, "time_us", 60, "us");
        record_add(wire, "notify", RECORD_ALL, "time_us", 20, "us");
        e->kernel = turn % 2 ? "ll" : "normal";
        explain_split(e, &(struct explain_wire){ .plain = wire });
        double us[EXPLAIN_PARTS], sum = 0;
        explain_sum(e, NULL, -1, -1, us);
        for (int p = 0; p < EXPLAIN_PARTS; p++) {
            CU_ASSERT(us[p] >= 0);
            if (p != EXPLAIN_LAUNCH) sum += us[p];
        }
        CU_ASSERT_DOUBLE_EQUAL(sum, all, 1e-6);
        explain_free(e);
    }
}
