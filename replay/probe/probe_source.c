/* probe_source.c - reads the files of a host, either in place or from a captured tree.
 *
 * A folder is opened once.  Every path below it is opened with openat2(RESOLVE_IN_ROOT), so that no link leads out
 * of it.  An archive is loaded whole (libarchive) into a table of paths, and links are followed in that table.
 * Files that have been read in place are kept in such a table, too, and --save writes it. */
#include "replay/probe/probe_source.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "replay/probe/probe.h"
#include "sim/new_file.h"

enum { ARCHIVE_BYTES_MAX = 64 << 20, ARCHIVE_ENTRIES_MAX = 65536, LINKS_MAX = 40, BLOCK_BYTES = 65536 };

enum node_kind { NODE_FOLDER, NODE_FILE, NODE_LINK };

struct node {
    enum node_kind kind;
    char *data; /* the bytes of a file and a NUL, or the target of a link */
    gsize size;
};

struct probe_source {
    int root; /* descriptor of the folder; -1 for an archive */
    bool live;
    GHashTable *tree; /* path without the first '/' -> struct node: all of an archive, or those that were read in
                       * place */
};

static void node_free(void *data)
{
    struct node *node = data;
    g_free(node->data);
    g_free(node);
}

static void node_keep(GHashTable *tree, const char *path, enum node_kind kind, const char *data, gsize size)
{
    struct node *node = g_new0(struct node, 1);
    node->kind = kind;
    node->size = size;
    if (kind != NODE_FOLDER) {
        node->data = g_malloc(size + 1);
        if (size) memcpy(node->data, data, size);
        node->data[size] = 0;
    }
    g_hash_table_replace(tree, g_strdup(path + (*path == '/')), node);
}

/* ---- an archive ---- */

static bool archive_entry_keep(struct archive *archive, struct archive_entry *entry, GHashTable *tree, gsize *total)
{
    const char *path = archive_entry_pathname(entry);
    if (!path) return true;
    while (g_str_has_prefix(path, "./")) path += 2;
    const mode_t type = archive_entry_filetype(entry);
    if (type == AE_IFDIR) {
        g_autofree char *name = g_strdup(path);
        while (g_str_has_suffix(name, "/")) name[strlen(name) - 1] = 0;
        node_keep(tree, name, NODE_FOLDER, NULL, 0);
        return true;
    }
    if (type == AE_IFLNK) {
        const char *target = archive_entry_symlink(entry);
        if (target) node_keep(tree, path, NODE_LINK, target, strlen(target));
        return true;
    }
    if (type != AE_IFREG) return true;
    g_autoptr(GString) text = g_string_new(NULL);
    char block[BLOCK_BYTES];
    la_ssize_t got;
    while ((got = archive_read_data(archive, block, sizeof block)) > 0) {
        *total += (gsize)got;
        if (*total > ARCHIVE_BYTES_MAX) {
            archive_set_error(archive, EFBIG, "more than 64 MiB");
            return false;
        }
        g_string_append_len(text, block, got);
    }
    if (got < 0) return false;
    node_keep(tree, path, NODE_FILE, text->str, MIN(text->len, (gsize)PROBE_TEXT_MAX));
    return true;
}

static bool archive_load(GHashTable *tree, const char *path, GError **error)
{
    struct archive *archive = archive_read_new();
    struct archive_entry *entry;
    gsize total = 0;
    int status;
    archive_read_support_format_tar(archive);
    archive_read_support_filter_all(archive);
    bool good = archive_read_open_filename(archive, path, BLOCK_BYTES) == ARCHIVE_OK;
    while (good && (status = archive_read_next_header(archive, &entry)) != ARCHIVE_EOF) {
        good = status >= ARCHIVE_WARN && archive_entry_keep(archive, entry, tree, &total);
        if (good && g_hash_table_size(tree) > ARCHIVE_ENTRIES_MAX) {
            archive_set_error(archive, EFBIG, "more than %d entries", ARCHIVE_ENTRIES_MAX);
            good = false;
        }
    }
    if (!good) error_input(error, "%s: expected a tar archive of a host: %s", path, archive_error_string(archive));
    archive_read_free(archive);
    return good;
}

/* Returns the node at path after links have been followed, at most `rest` of them.  NULL if there is none. */
static const struct node *tree_find(GHashTable *tree, const char *path, bool follow_last, int rest)
{
    g_auto(GStrv) part = g_strsplit(path, "/", -1);
    g_autoptr(GString) at = g_string_new(NULL);
    const struct node *node = NULL;
    for (char **p = part; *p; p++) {
        if (!**p || !strcmp(*p, ".")) continue;
        if (!strcmp(*p, "..")) {
            const char *slash = strrchr(at->str, '/');
            g_string_truncate(at, slash ? (gsize)(slash - at->str) : 0);
            continue;
        }
        const gsize parent = at->len;
        g_string_append_printf(at, "%s%s", at->len ? "/" : "", *p);
        node = g_hash_table_lookup(tree, at->str);
        bool last = true;
        for (char **q = p + 1; *q; q++) last &= !**q;
        if (!node || node->kind != NODE_LINK || (last && !follow_last)) continue;
        if (rest <= 0) return NULL;
        g_autofree char *tail = g_strjoinv("/", p + 1);
        if (node->data[0] != '/') g_string_truncate(at, parent);
        else g_string_truncate(at, 0);
        g_autofree char *next = g_strdup_printf("%s/%s/%s", at->str, node->data, tail);
        return tree_find(tree, next, follow_last, rest - 1);
    }
    return at->len ? g_hash_table_lookup(tree, at->str) : NULL;
}

/* ---- opening ---- */

struct probe_source *probe_source_open(const char *root, GError **error)
{
    struct probe_source *source = g_new0(struct probe_source, 1);
    source->live = !root;
    source->tree = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, node_free);
    source->root = -1;
    struct stat info;
    bool good = !root || stat(root, &info) == 0;
    if (!good) {
        error_input(error, "%s: %s", root, g_strerror(errno));
    } else if (!root || S_ISDIR(info.st_mode)) {
        source->root = open(root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        good = source->root >= 0;
        if (!good) error_input(error, "%s: %s", root ? root : "/", g_strerror(errno));
    } else {
        good = archive_load(source->tree, root, error);
    }
    if (good) return source;
    probe_source_free(source);
    return NULL;
}

void probe_source_free(struct probe_source *source)
{
    if (!source) return;
    if (source->root >= 0) close(source->root);
    g_hash_table_unref(source->tree);
    g_free(source);
}

bool probe_source_live(const struct probe_source *source) { return source->live; }

static int open_inside(const struct probe_source *source, const char *path, uint64_t flags)
{
    const struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
    return (int)syscall(SYS_openat2, source->root, path + strspn(path, "/"), &how, sizeof how);
}

/* ---- reading ---- */

/* Reads a regular file, up to PROBE_TEXT_MAX bytes.  Returns NULL for anything else.  The file is opened without
 * blocking, because some files of sysfs block or fail when they are read. */
static char *file_read(const struct probe_source *source, const char *path, gsize *size)
{
    const int fd = open_inside(source, path, O_RDONLY | O_NONBLOCK);
    struct stat info;
    if (fd < 0) return NULL;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        close(fd);
        return NULL;
    }
    GString *text = g_string_new(NULL);
    char block[4096];
    ssize_t got = 0;
    while (text->len < PROBE_TEXT_MAX && (got = read(fd, block, sizeof block)) > 0)
        g_string_append_len(text, block, got);
    const bool failed = text->len < PROBE_TEXT_MAX && got < 0;
    close(fd);
    *size = text->len;
    return g_string_free(text, failed);
}

char *probe_source_read(struct probe_source *source, const char *path, gsize *size)
{
    if (source->root < 0) {
        const struct node *node = tree_find(source->tree, path, true, LINKS_MAX);
        if (!node || node->kind != NODE_FILE) return NULL;
        *size = node->size;
        char *copy = g_malloc(node->size + 1);
        memcpy(copy, node->data, node->size + 1);
        return copy;
    }
    char *text = file_read(source, path, size);
    if (text) node_keep(source->tree, path, NODE_FILE, text, *size);
    return text;
}

char *probe_source_line(struct probe_source *source, const char *path)
{
    gsize size = 0;
    char *text = probe_source_read(source, path, &size);
    if (!text) return NULL;
    text[strcspn(text, "\n")] = 0;
    return g_strstrip(text);
}

static int name_compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void tree_list(GHashTable *tree, const char *path, GPtrArray *names)
{
    g_autofree char *prefix = g_strdup_printf("%s/", path + strspn(path, "/"));
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    GHashTableIter iterator;
    void *key;
    g_hash_table_iter_init(&iterator, tree);
    while (g_hash_table_iter_next(&iterator, &key, NULL)) {
        if (!g_str_has_prefix(key, prefix)) continue;
        const char *name = (const char *)key + strlen(prefix);
        char *own = g_strndup(name, strcspn(name, "/"));
        if (*own && !g_hash_table_contains(seen, own)) {
            g_hash_table_add(seen, own);
            g_ptr_array_add(names, own);
        } else {
            g_free(own);
        }
    }
}

static void folder_list(struct probe_source *source, const char *path, GPtrArray *names)
{
    const int fd = open_inside(source, path, O_RDONLY | O_DIRECTORY);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder) {
        if (fd >= 0) close(fd);
        return;
    }
    node_keep(source->tree, path, NODE_FOLDER, NULL, 0);
    for (struct dirent *entry; (entry = readdir(folder)) && names->len < ARCHIVE_ENTRIES_MAX;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            g_ptr_array_add(names, g_strdup(entry->d_name));
    closedir(folder);
}

char **probe_source_list(struct probe_source *source, const char *path)
{
    GPtrArray *names = g_ptr_array_new();
    if (source->root < 0) tree_list(source->tree, path, names);
    else folder_list(source, path, names);
    if (names->len) qsort(names->pdata, names->len, sizeof names->pdata[0], name_compare);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

char *probe_source_link(struct probe_source *source, const char *path)
{
    if (source->root < 0) {
        const struct node *node = tree_find(source->tree, path, false, LINKS_MAX);
        return node && node->kind == NODE_LINK ? g_strdup(node->data) : NULL;
    }
    const int fd = open_inside(source, path, O_PATH | O_NOFOLLOW);
    char target[4096];
    if (fd < 0) return NULL;
    const ssize_t length = readlinkat(fd, "", target, sizeof target - 1);
    close(fd);
    if (length < 0) return NULL;
    target[length] = 0;
    node_keep(source->tree, path, NODE_LINK, target, (gsize)length);
    return g_strdup(target);
}

bool probe_source_has(struct probe_source *source, const char *path)
{
    if (source->root < 0) {
        if (tree_find(source->tree, path, true, LINKS_MAX)) return true;
        g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
        tree_list(source->tree, path, names);
        return names->len > 0;
    }
    const int fd = open_inside(source, path, O_PATH);
    struct stat info;
    if (fd < 0) return false;
    const bool folder = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    close(fd);
    if (!g_hash_table_contains(source->tree, path + 1))
        node_keep(source->tree, path, folder ? NODE_FOLDER : NODE_FILE, "", 0);
    return true;
}

char *probe_source_real(struct probe_source *source, const char *path)
{
    g_autofree char *target = probe_source_link(source, path);
    if (!target) return g_strdup(path);
    if (*target == '/') return g_canonicalize_filename(target, "/");
    g_autofree char *folder = g_path_get_dirname(path);
    return g_canonicalize_filename(target, folder);
}

/* ---- saving ---- */

void probe_source_keep(struct probe_source *source, const char *path, const char *data, gsize size)
{
    node_keep(source->tree, path, NODE_FILE, data, size);
}

static int path_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool node_write(struct archive *archive, struct archive_entry *entry, const char *path, const struct node *node)
{
    archive_entry_clear(entry);
    archive_entry_set_pathname(entry, path);
    archive_entry_set_perm(entry, node->kind == NODE_FOLDER ? 0755 : 0644);
    archive_entry_set_filetype(entry, node->kind == NODE_FOLDER ? AE_IFDIR
                                      : node->kind == NODE_LINK ? AE_IFLNK
                                                                : AE_IFREG);
    if (node->kind == NODE_LINK) archive_entry_set_symlink(entry, node->data);
    archive_entry_set_size(entry, node->kind == NODE_FILE ? (la_int64_t)node->size : 0);
    if (archive_write_header(archive, entry) != ARCHIVE_OK) return false;
    return node->kind != NODE_FILE || archive_write_data(archive, node->data, node->size) == (la_ssize_t)node->size;
}

bool probe_source_save(const struct probe_source *source, const char *path, GError **error)
{
    guint count = 0;
    g_autofree char **paths = (char **)g_hash_table_get_keys_as_array(source->tree, &count);
    if (count) qsort(paths, count, sizeof *paths, path_compare);
    struct new_file *file = new_file_open(path, error);
    if (!file) return false;
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    archive_write_set_format_pax_restricted(archive);
    archive_write_add_filter_zstd(archive);
    bool good = archive_write_open_fd(archive, new_file_descriptor(file)) == ARCHIVE_OK;
    for (guint i = 0; good && i < count; i++)
        good = node_write(archive, entry, paths[i], g_hash_table_lookup(source->tree, paths[i]));
    good = good && archive_write_close(archive) == ARCHIVE_OK;
    if (!good) error_run(error, "%s: %s", path, archive_error_string(archive));
    archive_entry_free(entry);
    archive_write_free(archive);
    if (good) return new_file_commit(file, error);
    new_file_discard(file);
    return false;
}
