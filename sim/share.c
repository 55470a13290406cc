/* share.c - looks for shipped files in the source tree, near the executable and below PREFIX; see share.h. */
#include "sim/share.h"

#include <glib.h>
#include <string.h>

#ifndef EPTWIN_PREFIX
#    define EPTWIN_PREFIX "/usr/local"
#endif

static const struct kind {
    const char *source, *installed; /* folders in a source tree and in share/eptwin */
    const char *endings[3];
} kinds[] = {
    [SHARE_CLUSTERS] = { "models/clusters", "clusters", { ".ini" } },
    [SHARE_SAMPLES] = { "traces/samples", "samples", { ".ept", ".npy.zst" } },
    [SHARE_NETS] = { "models/step/nets", "nets", { ".json" } },
    [SHARE_TABLES] = { "models/step/tables", "tables", { ".csv.zst", ".ini" } },
};

static const char *ending_of(const struct kind *kind, const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(kind->endings) && kind->endings[i]; i++)
        if (g_str_has_suffix(name, kind->endings[i])) return kind->endings[i];
    return NULL;
}

/* Adds a folder unless its absolute name is in `seen`.  Takes over the folder. */
static void folder_add(GPtrArray *folders, GHashTable *seen, char *folder)
{
    if (g_hash_table_add(seen, g_canonicalize_filename(folder, NULL))) g_ptr_array_add(folders, folder);
    else g_free(folder);
}

/* All folders to search, whether or not they exist.  The executable may be one or two levels below a source tree:
 * build/eptwin, build/tests/test_case. */
static GPtrArray *folders_all(const struct kind *kind)
{
    GPtrArray *folders = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autofree char *executable = g_file_read_link("/proc/self/exe", NULL);
    folder_add(folders, seen, g_strdup(kind->source));
    if (executable) {
        static const char *const above[] = { "..", "../.." };
        g_autofree char *beside = g_path_get_dirname(executable);
        for (size_t i = 0; i < G_N_ELEMENTS(above); i++) {
            g_autofree char *tree = g_build_filename(beside, above[i], kind->source, NULL);
            folder_add(folders, seen, g_canonicalize_filename(tree, NULL));
        }
        g_autofree char *share = g_build_filename(beside, "../share/eptwin", kind->installed, NULL);
        folder_add(folders, seen, g_canonicalize_filename(share, NULL));
    }
    folder_add(folders, seen, g_build_filename(EPTWIN_PREFIX, "share/eptwin", kind->installed, NULL));
    return folders;
}

char **share_folders(enum share_kind kind)
{
    g_autoptr(GPtrArray) all = folders_all(&kinds[kind]);
    GPtrArray *found = g_ptr_array_new();
    for (guint i = 0; i < all->len; i++)
        if (g_file_test(all->pdata[i], G_FILE_TEST_IS_DIR)) g_ptr_array_add(found, g_strdup(all->pdata[i]));
    if (!found->len)
        for (guint i = 0; i < all->len; i++) g_ptr_array_add(found, g_strdup(all->pdata[i]));
    g_ptr_array_add(found, NULL);
    return (char **)g_ptr_array_free(found, FALSE);
}

/* Returns the file in one folder, under its name or with the kind's ending added. */
static char *find_in(const struct kind *kind, const char *folder, const char *name)
{
    char *path = g_build_filename(folder, name, NULL);
    for (size_t i = 0; !g_file_test(path, G_FILE_TEST_IS_REGULAR); i++) {
        g_free(path);
        if (i == G_N_ELEMENTS(kind->endings) || !kind->endings[i]) return NULL;
        path = g_strdup_printf("%s/%s%s", folder, name, kind->endings[i]);
    }
    return path;
}

char *share_find(enum share_kind kind, const char *name)
{
    if (!*name || strchr(name, '/')) return NULL;
    g_auto(GStrv) folders = share_folders(kind);
    char *path = NULL;
    for (char **f = folders; *f && !path; f++) path = find_in(&kinds[kind], *f, name);
    return path;
}

static gint compare_names(gconstpointer a, gconstpointer b) { return strcmp(*(char *const *)a, *(char *const *)b); }

char **share_names(enum share_kind kind)
{
    GPtrArray *names = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    g_auto(GStrv) folders = share_folders(kind);
    for (char **f = folders; *f; f++) {
        g_autoptr(GDir) folder = g_dir_open(*f, 0, NULL);
        for (const char *file; folder && (file = g_dir_read_name(folder)) != NULL;) {
            const char *ending = ending_of(&kinds[kind], file);
            if (!ending) continue;
            char *name = g_strndup(file, strlen(file) - strlen(ending));
            if (!g_hash_table_contains(seen, name)) {
                g_hash_table_add(seen, name);
                g_ptr_array_add(names, name);
            } else {
                g_free(name);
            }
        }
    }
    g_ptr_array_sort(names, compare_names);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}
