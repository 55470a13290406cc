/* key_file.c - counts a key file's lines before GLib reads it; see key_file.h. */
#include "models/key_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "sim/error.h"
#include "traces/digest.h"

struct scan {
    const struct key_file *file;
    uint32_t line;
    char *section; /* the last section's name; NULL before the first */
};

static bool syntax_error(const struct scan *scan, const char *found, GError **error)
{
    return error_input(error, "%s:%u: expected \"[section]\", \"key = value\" or \"# comment\", found \"%s\"",
                       scan->file->path, scan->line, found);
}

/* Remembers the line of a section or key, and becomes the owner of name.  False and *error if the section or key had
 * a line already. */
static bool note_line(const struct scan *scan, char *name, GError **error)
{
    const uint32_t first = GPOINTER_TO_UINT(g_hash_table_lookup(scan->file->lines, name));
    if (!first) return g_hash_table_insert(scan->file->lines, name, GUINT_TO_POINTER(scan->line));
    char *key = strchr(name, '\n');
    error_input(error, "%s:%u: [%.*s]%s%s: stands in line %u already", scan->file->path, scan->line,
                key ? (int)(key - name) : (int)strlen(name), name, key ? " " : "", key ? key + 1 : "", first);
    g_free(name);
    return false;
}

/* Scans one line.  text has no line end and no blanks at either side. */
static bool scan_line(struct scan *scan, char *text, GError **error)
{
    char *equals = strchr(text, '=');
    const size_t length = strlen(text);
    if (!*text || *text == '#') return true;
    if (*text == '[') {
        if (length < 3 || strcspn(text, "]") != length - 1) return syntax_error(scan, text, error);
        g_free(scan->section);
        scan->section = g_strndup(text + 1, length - 2);
        return note_line(scan, g_strdup(scan->section), error);
    }
    if (!equals || equals == text) return syntax_error(scan, text, error);
    if (!scan->section)
        return error_input(error, "%s:%u: expected a \"[section]\" first, found \"%s\"", scan->file->path, scan->line,
                           text);
    *equals = '\0';
    return note_line(scan, g_strdup_printf("%s\n%s", scan->section, g_strchomp(text)), error);
}

static bool scan_text(const struct key_file *file, const char *text, size_t size, GError **error)
{
    struct scan scan = { .file = file };
    if (strlen(text) != size) return error_input(error, "%s: expected text, found a byte of 0", file->path);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    bool good = true;
    for (char **line = lines; good && *line; line++) {
        scan.line++;
        good = scan_line(&scan, g_strstrip(*line), error);
    }
    g_free(scan.section);
    return good;
}

static bool read_failed(const char *path, const char *cause, GError **error)
{
    return error_input(error, "%s: cannot read: %s", path, cause);
}

/* Reads the file's text, which ends with a byte of 0 that size does not count. */
static bool text_read(struct key_file *file, const char *text, size_t size, GError **error)
{
    g_autoptr(GError) cause = NULL;
    const size_t mark = g_str_has_prefix(text, "\xef\xbb\xbf") ? 3 : 0; /* a byte-order mark */
    text += mark;
    size -= mark;
    if (!scan_text(file, text, size, error)) return false;
    if (g_key_file_load_from_data(file->keys, text, size, G_KEY_FILE_KEEP_TRANSLATIONS, &cause)) return true;
    return read_failed(file->path, cause->message, error);
}

static struct key_file *key_file_new(const char *path)
{
    struct key_file *file = g_new0(struct key_file, 1);
    file->path = g_strdup(path);
    file->keys = g_key_file_new();
    file->lines = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    file->paths = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    return file;
}

struct key_file *key_file_parse(const char *path, const char *text, size_t size, GError **error)
{
    g_autofree char *copy = g_malloc(size + 1);
    memcpy(copy, text, size);
    copy[size] = '\0';
    g_autoptr(key_file) file = key_file_new(path);
    return text_read(file, copy, size, error) ? g_steal_pointer(&file) : NULL;
}

struct key_file *key_file_load(const char *path, GError **error)
{
    assert(path);
    g_autoptr(key_file) file = key_file_new(path);
    g_autofree char *text = NULL;
    g_autoptr(GError) cause = NULL;
    size_t size = 0;
    if (g_file_test(path, G_FILE_TEST_EXISTS) && !g_file_test(path, G_FILE_TEST_IS_REGULAR))
        read_failed(path, "not a regular file", error);
    else if (!g_file_get_contents(path, &text, &size, &cause)) {
        /* GLib's message ends with the system's reason, which follows the file's name and a colon */
        const char *words = strrchr(cause->message, ':');
        read_failed(path, words ? words + 2 : cause->message, error);
    } else if (text_read(file, text, size, error)) return g_steal_pointer(&file);
    return NULL;
}

void key_file_free(struct key_file *file)
{
    if (!file) return;
    g_hash_table_unref(file->lines);
    g_hash_table_unref(file->paths);
    g_key_file_unref(file->keys);
    g_free(file->path);
    g_free(file);
}

uint32_t key_file_line(const struct key_file *file, const char *section, const char *key)
{
    g_autofree char *name = key ? g_strdup_printf("%s\n%s", section, key) : g_strdup(section);
    return GPOINTER_TO_UINT(g_hash_table_lookup(file->lines, name));
}

char *key_file_place(const struct key_file *file, const char *section, const char *key)
{
    g_autofree char *name = key ? g_strdup_printf("%s\n%s", section, key) : g_strdup(section);
    const char *path = g_hash_table_lookup(file->paths, name);
    const uint32_t line = key_file_line(file, section, key);
    if (line == KEY_FILE_SETTING) return g_strdup(path);
    return line ? g_strdup_printf("%s:%u", path ? path : file->path, line) : g_strdup(file->path);
}

/* Notes that the key or section comes from the file `other`. */
static void place_take(struct key_file *file, const struct key_file *other, const char *section, const char *key)
{
    char *name = key ? g_strdup_printf("%s\n%s", section, key) : g_strdup(section);
    const char *path = g_hash_table_lookup(other->paths, name);
    g_hash_table_insert(file->paths, g_strdup(name), g_strdup(path ? path : other->path));
    assert(key_file_line(other, section, key) > 0); /* `other` has the key or section */
    g_hash_table_insert(file->lines, name, GUINT_TO_POINTER(key_file_line(other, section, key)));
}

void key_file_complete(struct key_file *file, const struct key_file *other, const char *except)
{
    assert(file != other);
    g_auto(GStrv) sections = g_key_file_get_groups(other->keys, NULL);
    for (char **s = sections; *s; s++) {
        if (except && !strcmp(*s, except)) continue;
        if (!key_file_line(file, *s, NULL)) place_take(file, other, *s, NULL);
        g_auto(GStrv) keys = g_key_file_get_keys(other->keys, *s, NULL, NULL);
        for (char **k = keys; k && *k; k++) {
            if (key_file_line(file, *s, *k)) continue;
            g_autofree char *text = g_key_file_get_value(other->keys, *s, *k, NULL);
            g_key_file_set_value(file->keys, *s, *k, text ? text : "");
            place_take(file, other, *s, *k);
        }
    }
}

/* Notes that the key or section comes from a setting, not from a file. */
static void setting_take(struct key_file *file, const char *place, const char *section, const char *key)
{
    char *name = key ? g_strdup_printf("%s\n%s", section, key) : g_strdup(section);
    g_hash_table_insert(file->paths, g_strdup(name), g_strdup(place));
    g_hash_table_insert(file->lines, name, GUINT_TO_POINTER(KEY_FILE_SETTING));
}

void key_file_set(struct key_file *file, const char *section, const char *key, const char *text, const char *place)
{
    assert(section && *section && key && *key && text && place);
    g_key_file_set_value(file->keys, section, key, text);
    if (!key_file_line(file, section, NULL)) setting_take(file, place, section, NULL);
    setting_take(file, place, section, key);
}

char *key_file_text(const struct key_file *file, const char *section, const char *key)
{
    char *text = g_key_file_get_value(file->keys, section, key, NULL);
    char *comment = text ? strpbrk(text, "#;") : NULL;
    if (comment) *comment = '\0';
    return text ? g_strstrip(text) : NULL;
}

static gint words_order(gconstpointer a, gconstpointer b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void words_sort(char **words)
{
    if (words) qsort(words, g_strv_length(words), sizeof *words, words_order);
}

char *key_file_digest(const struct key_file *file, const char *except, const char *ordered)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_auto(GStrv) sections = g_key_file_get_groups(file->keys, NULL);
    words_sort(sections);
    for (char **s = sections; *s; s++) {
        if (!strcmp(*s, except)) continue;
        g_auto(GStrv) keys = g_key_file_get_keys(file->keys, *s, NULL, NULL);
        if (strcmp(*s, ordered) != 0) words_sort(keys);
        g_string_append_printf(text, "[%s]\n", *s);
        for (char **k = keys; k && *k; k++) {
            g_autofree char *value = key_file_text(file, *s, *k);
            g_string_append_printf(text, "%s=", *k);
            for (const char *c = value ? value : ""; *c; c++)
                if (!g_ascii_isspace(*c)) g_string_append_c(text, *c);
            g_string_append_c(text, '\n');
        }
    }
    return digest_text(text->str, text->len);
}
