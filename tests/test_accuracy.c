/* test_accuracy.c - the errors that predictions print: of this machine, of other machines, or none.
 *
 * Aim: models/predict/accuracy.h.  Method: machines with and without measured rows.  Every machine of the table must be
 * one that a shipped cluster file names; otherwise its errors could never be printed. */
#include "models/predict/accuracy.h"

#include "models/cluster.h"
#include "tests/unit.h"

static struct cluster *shipped(const char *name)
{
    struct cluster *c = cluster_load(name, NULL);
    g_assert_nonnull(c);
    return c;
}

TEST("a machine with measured rows has its own errors")
{
    g_autoptr(cluster) h200 = shipped("h200");
    struct accuracy a;
    CU_ASSERT(accuracy_find(h200, "ll", "dispatch", "node", &a));
    CU_ASSERT(a.rows >= 100 && !a.elsewhere && a.median_pct > 0 && a.median_pct < a.p90_pct);
    g_autofree char *text = accuracy_text(&a), *expected = g_strdup_printf("%.0f %%", a.p90_pct);
    CU_ASSERT_STRING_EQUAL(text, expected);
}

TEST("a machine without has those of all machines, marked")
{
    g_autoptr(cluster) h800 = shipped("h800-cx7"), mine = shipped("h800-cx7");
    g_free(mine->name);
    mine->name = g_strdup("a machine of mine");
    struct accuracy own, other;
    CU_ASSERT(accuracy_find(h800, "ll", "combine", "ibgda", &own));
    CU_ASSERT(accuracy_find(mine, "ll", "combine", "ibgda", &other));
    CU_ASSERT(other.elsewhere && other.rows > own.rows);
    g_autofree char *text = accuracy_text(&other);
    CU_ASSERT(g_str_has_suffix(text, " % *"));
    static const char *const slower[] = { "nic.rate=25GB/s", NULL };
    g_autoptr(cluster) changed = cluster_load_set("h800-cx7", slower, NULL);
    CU_ASSERT(accuracy_find(changed, "ll", "combine", "ibgda", &other));
    CU_ASSERT(other.elsewhere && other.p90_pct >= own.p90_pct);
}

/* A few rows that are further off than those of other machines are the best that is known. */
TEST("a machine with few and bad rows does not hide them")
{
    g_autoptr(cluster) mi300x = shipped("mi300x-cx7"), mi325x = shipped("mi325x-thor2");
    struct accuracy few, none;
    CU_ASSERT(accuracy_find(mi300x, "ll", "dispatch", "node", &few));
    CU_ASSERT(accuracy_find(mi325x, "ll", "dispatch", "node", &none));
    CU_ASSERT(few.elsewhere && few.rows < 5 && none.elsewhere && none.rows >= 5 && few.p90_pct > none.p90_pct);
}

TEST("a kernel that nobody measured has none, nor one by another backend")
{
    g_autoptr(cluster) h200 = shipped("h200"), h800 = shipped("h800-cx7");
    struct accuracy a = { .rows = 1 };
    CU_ASSERT(!accuracy_find(h200, "no-such-kernel", "dispatch", "node", &a));
    CU_ASSERT(a.rows == 0);
    g_autofree char *text = accuracy_text(&a);
    CU_ASSERT_STRING_EQUAL(text, "-");
    CU_ASSERT(!accuracy_find(h800, "ll", "dispatch", "ibgda-cpu", &a));
}

/* Beside a load, kernels are off by more than alone, and rows beside loads say by how much. */
TEST("beside a load")
{
    g_autoptr(cluster) h100 = cluster_load("models/clusters/h100.ini", NULL);
    g_autoptr(record) record = record_new();
    struct case_options c;
    struct accuracy alone, beside;
    CU_ASSERT_PTR_NOT_NULL_FATAL(h100);
    case_init(&c);
    CU_ASSERT(case_set(&c, "num-ranks", "8", NULL));
    case_cluster_settle(&c, h100);
    record_set(record, "num-ranks", "8");
    CU_ASSERT(accuracy_find(h100, "normal", "combine", accuracy_poster(&c, record, h100), &alone));
    CU_ASSERT(case_set(&c, "compute", "copy:2TB/s", NULL));
    CU_ASSERT(accuracy_find(h100, "normal", "combine", accuracy_poster(&c, record, h100), &beside));
    CU_ASSERT(beside.rows >= 5 && !beside.elsewhere && beside.p90_pct > alone.p90_pct);
}

TEST("every machine of the table is shipped")
{
    g_autoptr(GKeyFile) table = g_key_file_new();
    CU_ASSERT(g_key_file_load_from_file(table, "models/predict/accuracy.ini", G_KEY_FILE_NONE, NULL));
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GDir) folder = g_dir_open("models/clusters", 0, NULL);
    for (const char *file; (file = g_dir_read_name(folder));) {
        g_autofree char *path = g_build_filename("models/clusters", file, NULL);
        g_autoptr(cluster) c = g_str_has_suffix(file, ".ini") ? cluster_load(path, NULL) : NULL;
        if (c) g_hash_table_add(names, g_strdup(c->name));
    }
    g_hash_table_add(names, g_strdup("all machines"));
    g_auto(GStrv) machines = g_key_file_get_groups(table, NULL);
    CU_ASSERT(g_strv_length(machines) > 10);
    for (char **m = machines; *m; m++) CU_ASSERT(g_hash_table_contains(names, *m));
}
