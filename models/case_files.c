/* case_files.c - the files that a case's options name: where they are, and digests that tell apart two files of one
 * name. */
#include "models/case.h"

#include <string.h>
#include "traces/digest.h"

/* A value divided into the file's name and what is around it: "WORD:FILE", "FILE@LAYERS" or "FILE". */
struct named {
    size_t before; /* bytes of "WORD:" before the path */
    char *path;
    const char *behind; /* "@LAYERS" behind the path, or "" */
};

static struct named named_find(const char *value)
{
    const char *word = g_file_test(value, G_FILE_TEST_EXISTS) ? NULL : strchr(value, ':');
    const char *start = word ? word + 1 : value;
    const char *at = g_file_test(start, G_FILE_TEST_EXISTS) ? NULL : strrchr(start, '@');
    const char *behind = at ? at : start + strlen(start);
    return (struct named){ (size_t)(start - value), g_strndup(start, (size_t)(behind - start)), behind };
}

/* Returns the value with the path of its file in `folder`, if the file exists there but not in the current folder; else
 * NULL. */
static char *file_beside(const char *value, const char *folder)
{
    const struct named named = named_find(value);
    g_autofree char *path = named.path;
    if (*path == '\0' || g_path_is_absolute(path) || g_file_test(path, G_FILE_TEST_EXISTS)) return NULL;
    g_autofree char *other = g_build_filename(folder, path, NULL);
    if (!g_file_test(other, G_FILE_TEST_EXISTS)) return NULL;
    return g_strdup_printf("%.*s%s%s", (int)named.before, value, other, named.behind);
}

void case_files_resolve(struct case_options *c, const char *folder)
{
    for (uint32_t i = 0; case_option_name(i); i++) {
        g_autofree char *value = case_option_names_file(i) ? case_option_text(c, i) : NULL;
        g_autofree char *beside = value ? file_beside(value, folder) : NULL;
        if (beside) case_set(c, case_option_name(i), beside, NULL);
    }
}

/* Whether the value is a word with numbers, such as "uniform:20us", so that it names no file. */
static bool value_drawn(const char *value)
{
    static const char *const words[] = { "eplb:", "uniform:", "lognormal:", "exp:" };
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (g_str_has_prefix(value, words[i])) return true;
    return false;
}

char *case_file_digest(uint32_t index, const char *value)
{
    if (!case_option_names_file(index) || strcmp(case_option_name(index), "cluster") == 0) return NULL;
    if (value_drawn(value)) return NULL;
    const struct named named = named_find(value);
    g_autofree char *path = named.path;
    g_autofree char *words = g_strdup_printf("%.*s%s", (int)named.before, value, named.behind);
    return digest_file(words, path);
}
