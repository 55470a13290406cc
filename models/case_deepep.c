/* case_deepep.c - the version of DeepEP in a case: a commit, a date or a name becomes a version (moe_deepep.h), whose
 * behaviour becomes the case's default.  Knows no world. */
#include "models/case_family.h"

#include <string.h>
#include "models/moe/moe_deepep.h"

enum { COMMIT_DIGITS = 7, DATE_DIGITS = 8 };

/* Commits of DeepEP's main branch up to that of PROTOCOLS.md: a date, then its commits by their first digits. */
static const char commits[] =
    "20250225 1a0a8bd 84d3d6f ebfe47e 20250226 3885404 45f481b 20250227 77bb07a 20250228 88b1622 231e17e 30e2778 "
    "20250303 c5b4040 6cc3497 f603064 20250304 592296c 1553fc4 55cdd9a 2a3cac9 20250305 458cdcb e995aa2 680e424 "
    "20250306 1fc40d5 41385ba 20250310 b3b61ef ed7487c 20250311 0008c67 20250313 7128ba3 50ac280 20250314 82dcf48 "
    "043fa5f 38cdaf3 2d0cf41 20250318 c4b8ffc 6646547 dcaf73e 20250325 7d52ad7 ae0eafd 36b5c27 20250327 e130cc6 "
    "cbd92fd ffc39ba 20250328 26fa72d c4d12b4 dcf46f1 4dd1e68 20250403 2a0b3d7 218c5a1 20250407 4249486 20250410 "
    "0f80da8 20250411 23c5415 8a0ca8e 20250413 42f6170 20250414 a0c6931 b9bb2bb 20250416 a84a248 a2ccc95 20250421 "
    "c07fdd1 e0eaaf9 e2c5784 5ab80c2 20250422 007fcfc e255d57 3b1045d edbb1bc 3e54b78 20b2aaa 20250427 65e2a70 "
    "1a0c8f6 20250429 23ded3b 20250508 9056a6d adc6e24 20250509 c6051f3 20250510 63c29d0 20250512 bb393e7 a107266 "
    "0510402 f0a9f10 20250519 d5ca449 20250523 aae9fa9 8da1b1f 92405dd 68ae8b3 20250528 9fe9021 20250603 d0225df "
    "20250605 d8dd185 de8cfca fc48a46 20250606 c8dceba df4debe 20250607 4cd9517 20250608 11a0b0e 20250609 1157693 "
    "5a2e37f 0d1a855 564e375 20250610 8da2d7b a16af40 b9b7ce3 97be5a3 20250611 9ec0612 b8d90fb dd13c71 a8299ca "
    "20250612 21efbe9 20250613 483f00a 05df555 20250616 dd133d3 8aaddf7 1b92be8 4e92318 20250618 9d4f7ef b56f7c2 "
    "a2d2354 cd371d3 bf4a4a2 77f97f7 20250620 7b0c25f 20250623 fbcf430 c95997f 20250624 a15faa9 bc118b2 9eb2f84 "
    "20250625 bd429ff b80e55e 20250626 ed3444b 20250627 d24bbeb b90320e 004d6f9 7de7464 4e72eb3 58c4794 7ce8da4 "
    "20250630 8b0c594 20250702 7705f53 6b17f4f 341bb96 63f7946 d79b3cd 85793dd 77ddb01 d4f3497 01f4907 8dcdd34 "
    "19fc070 0a47402 b651635 486dd1d 20250704 e6d61fc a2fa3b7 20250707 eef7ab5 20250708 c50f3d6 20250709 3571a92 "
    "20250710 06f417d 1cf85fb 20250711 69f9dfe aa3187e 441833d 898269f 1cd5eea b0f13ef 0c984e2 20250714 e6b4f52 "
    "35e1cd1 2a87339 903711c b79ca2b 079c5a4 eb155da ea152b5 c874cb7 20250715 c5d2202 3073a2c eaa2d0d 20250716 "
    "0eee87b b6ce310 146b013 20250717 b65b22e 20250718 e601237 20250721 d72817e 5b549c8 f9c06bb 20250722 bdd119f "
    "20250729 b92d0d4 42253d0 20250730 4b67064 20250731 c6faca4 c703385 be8053d 227c358 20250801 ab0a3dd 20250805 "
    "26cf250 20250807 d31c72a dd14b36 c5facf5 20250808 695b634 5107196 20250811 d9767ce 20250814 e3908bf 20250819 "
    "f0d34aa 20250825 ab48479 e704485 91bb69a 20250826 1da73be 20250828 b7fef49 20250901 c18eabd 6a5d323 c78b9ed "
    "20250909 174c209 20250910 ef70b83 3e2c5d8 130122a 24324cc ee5bd17 0970c4c 20250911 1d3963d 20250915 9af0e0d "
    "e9d053c 20250916 2012e31 20250917 abba6ad 20250922 c939644 20250924 da6ca24 20250925 d981409 c475ec6 20250926 "
    "e02e4d2 20251011 12a0cc6 79bbb54 20251014 de3a15d 20251015 4623c67 987f8f0 3f4cf8d 20251017 73b6ea4 20251021 "
    "2be0d4f 20251029 bfded34 20251104 9249c25 20251105 92fe2de 20251204 1300811 20251205 b57e5e2 20251223 0a08009 "
    "20251224 3fcf25e 20251229 309785a 20260120 29d31c0 20260203 567632d 20260430 b306af0 20260521 a422b5a 20260522 "
    "723716f 5616959 bb29c6b a1b3af3 20260526 d4f41e4 20260615 af9a040 20260703 099d5f2 20260709 60d4403 20260714 "
    "dd758ca";

/* The version that a date such as "2025-04-16" stands for; 0 if the text is not a date. */
static uint32_t date_parse(const char *text)
{
    static const uint64_t most[3] = { 9999, 12, 31 };
    guint64 n[3];
    g_auto(GStrv) part = g_strsplit(text, "-", 4);
    if (g_strv_length(part) != 3 || strlen(text) != DATE_DIGITS + 2) return 0;
    for (uint32_t i = 0; i < 3; i++)
        if (!g_ascii_string_to_unsigned(part[i], 10, 1, most[i], &n[i], NULL)) return 0;
    const bool valid = g_date_valid_dmy((GDateDay)n[2], (GDateMonth)n[1], (GDateYear)n[0]);
    return valid ? (uint32_t)(n[0] * 10000 + n[1] * 100 + n[2]) : 0;
}

static uint32_t commit_date(const char *text)
{
    uint32_t date = 0;
    if (strlen(text) < COMMIT_DIGITS || strspn(text, "0123456789abcdefABCDEF") != strlen(text)) return 0;
    g_auto(GStrv) word = g_strsplit(commits, " ", 0);
    for (char **w = word; *w; w++) {
        if (strlen(*w) == DATE_DIGITS) date = (uint32_t)g_ascii_strtoull(*w, NULL, 10);
        else if (g_ascii_strncasecmp(*w, text, COMMIT_DIGITS) == 0) return date;
    }
    return 0;
}

/* The version that a name stands for.  "ibgda" is the version of the change with this name, and "before-ibgda" is
 * the version of the day before.  0 if no change has the name. */
static uint32_t name_date(const char *text)
{
    const bool before = g_str_has_prefix(text, "before-");
    const char *name = before ? text + strlen("before-") : text;
    for (uint32_t i = before ? 1 : 0; i < MOE_DEEPEP_CHANGES; i++)
        if (strcmp(moe_deepep_at(i)->name, name) == 0) return moe_deepep_at(i)->date - before;
    return 0;
}

uint32_t case_deepep_version(const char *text)
{
    const uint32_t date = date_parse(text), version = date ? date : commit_date(text);
    if (!version) return name_date(text);
    return version < moe_deepep_at(MOE_DEEPEP_FIRST)->date ? 0 : version;
}

void case_cluster_settle(struct case_options *c, const struct cluster *cluster)
{
    const uint32_t version = c->deepep ? case_deepep_version(c->deepep) : 0;
    case_node_settle(c, cluster->nvlink.gpus);
    if (case_kernel_in(c, "ll")) c->nvlink_disabled |= moe_deepep_before(version, MOE_DEEPEP_LL_NVLINK);
    if (case_kernel_in(c, "normal") && !c->backend && !cluster->host.cores &&
        moe_deepep_before(version, MOE_DEEPEP_IBGDA))
        c->backend = "ibrc";
    if (c->backend || cluster->host.cores) return;
    const bool mlx5 = cluster->nic.provider == CLUSTER_PROVIDER_MLX5,
               efa = cluster->nic.provider == CLUSTER_PROVIDER_EFA;
    if (case_kernel_in(c, "v2|nccl-ll|nccl-ht|hybrid-ep") && mlx5 && cluster->nic.posting == CLUSTER_POST_GPU)
        c->backend = "gdaki"; /* their network is NCCL's device API (PROTOCOLS.md 1.7) */
    if (case_kernel_in(c, "pplx") && (mlx5 || efa)) c->backend = efa ? "fabric-lib-efa" : "fabric-lib";
    if (case_by_nccl(c)) c->backend = "nccl"; /* even if other kernels of this cluster post in another way */
}
