/* new_file.c - writes a file without a name, then links it to its name; see new_file.h. */
#include "sim/new_file.h"
#include "sim/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40, NAMES_MAX = 1000000 };

struct new_file {
    char *path;   /* as the user wrote it, for messages */
    char *target; /* the file to which path leads; NULL: written in place */
    char *beside; /* "target.XXXXXX"; NULL: written in place */
    int file;
    bool nameless; /* not even the temporary file has a name yet */
    bool replaces;
};

static bool refuse(const struct new_file *f, GError **error)
{
    const char *name = strcmp(f->path, "-") ? f->path : "standard output";
    return error_run(error, "%s: cannot write: %s", name, g_strerror(errno));
}

/* Returns the descriptor that the path names: N in "/dev/fd/N" and "/proc/self/fd/N", or that of a standard stream.
 * -1 for other paths. */
static int descriptor_named(const char *path)
{
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
    guint64 number;
    if (!strcmp(path, "-") || !strcmp(path, "/dev/stdout")) return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr")) return STDERR_FILENO;
    for (size_t i = 0; i < G_N_ELEMENTS(folders); i++)
        if (g_str_has_prefix(path, folders[i]) &&
            g_ascii_string_to_unsigned(path + strlen(folders[i]), 10, 0, INT_MAX, &number, NULL))
            return (int)number;
    return -1;
}

/* Returns the path to which symbolic links finally lead, even if no file is there yet. */
static char *links_follow(const char *path)
{
    char *at = g_strdup(path);
    for (int i = 0; i < LINKS_MAX; i++) {
        g_autofree char *link = g_file_read_link(at, NULL);
        if (!link) return at;
        g_autofree char *folder = g_path_get_dirname(at);
        g_free(at);
        at = g_path_is_absolute(link) ? g_strdup(link) : g_build_filename(folder, link, NULL);
    }
    g_free(at);
    errno = ELOOP;
    return NULL;
}

/* Returns the mode for the file: that of the file that it replaces, or that of a new file. */
static mode_t mode_of(const struct stat *replaced)
{
    const mode_t mask = umask(0);
    umask(mask);
    return replaced ? replaced->st_mode & 0777 : 0666 & ~mask;
}

static bool beside_open(struct new_file *f, const struct stat *replaced, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(f->target);
    f->file = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    f->nameless = f->file >= 0;
    f->beside = g_strdup_printf("%s.XXXXXX", f->target);
    if (!f->nameless) f->file = mkstemp(f->beside);
    if (f->file < 0) {
        g_clear_pointer(&f->beside, g_free);
        return refuse(f, error);
    }
    f->replaces = replaced != NULL;
    (void)fchmod(f->file, mode_of(replaced));
    return true;
}

static bool target_open(struct new_file *f, GError **error)
{
    const int open_already = descriptor_named(f->path);
    if (open_already >= 0) {
        if (open_already == STDOUT_FILENO) fflush(stdout);
        f->file = fcntl(open_already, F_DUPFD_CLOEXEC, 0);
        return f->file >= 0 || refuse(f, error);
    }
    struct stat status;
    const bool exists = stat(f->path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return refuse(f, error);
    }
    if (exists && !S_ISREG(status.st_mode)) {
        f->file = open(f->path, O_WRONLY | O_CLOEXEC);
        return f->file >= 0 || refuse(f, error);
    }
    if (exists && access(f->path, W_OK) != 0) return refuse(f, error);
    f->target = links_follow(f->path);
    return f->target ? beside_open(f, exists ? &status : NULL, error) : refuse(f, error);
}

struct new_file *new_file_open(const char *path, GError **error)
{
    struct new_file *f = g_new0(struct new_file, 1);
    f->path = g_strdup(path);
    f->file = -1;
    if (*path == '\0') {
        errno = ENOENT;
        refuse(f, error);
    } else if (target_open(f, error)) {
        return f;
    }
    new_file_discard(f);
    return NULL;
}

int new_file_descriptor(const struct new_file *f) { return f->file; }

bool new_file_write(struct new_file *f, const void *data, size_t size_bytes, GError **error)
{
    for (const char *at = data, *end = at + size_bytes; at < end;) {
        const ssize_t n = write(f->file, at, (size_t)(end - at));
        if (n < 0 && errno != EINTR) return refuse(f, error);
        at += MAX(n, 0);
    }
    return true;
}

/* Gives the nameless file a free name in its target's folder.  rename() can then put it in the target's place, which
 * link() cannot do. */
static bool beside_link(struct new_file *f, GError **error)
{
    char from[64];
    g_snprintf(from, sizeof from, "/proc/self/fd/%d", f->file);
    for (uint32_t i = 0; i < NAMES_MAX; i++) {
        g_snprintf(f->beside + strlen(f->target), 8, ".%06u", i);
        if (linkat(AT_FDCWD, from, AT_FDCWD, f->beside, AT_SYMLINK_FOLLOW) == 0) {
            f->nameless = false;
            return true;
        }
        if (errno != EEXIST) break;
    }
    return refuse(f, error);
}

/* Does all of a commit but the renaming.
 *
 * Before a file is replaced, the new bytes must be on the disk.  Else a crash could lose the old and the new ones. */
static bool end(struct new_file *f, GError **error)
{
    const bool good =
        (!f->replaces || fsync(f->file) == 0 || refuse(f, error)) && (!f->nameless || beside_link(f, error));
    const int file = f->file;
    f->file = -1;
    return (close(file) == 0 || !good || refuse(f, error)) && good;
}

bool new_files_commit(struct new_file *const *files, size_t count, GError **error)
{
    bool good = true;
    for (size_t i = 0; i < count && good; i++) good = end(files[i], error);
    for (size_t i = 0; i < count && good; i++) {
        if (!files[i]->beside) continue;
        good = rename(files[i]->beside, files[i]->target) == 0 || refuse(files[i], error);
        if (good) g_clear_pointer(&files[i]->beside, g_free);
    }
    for (size_t i = 0; i < count; i++) new_file_discard(files[i]);
    return good;
}

bool new_file_commit(struct new_file *f, GError **error) { return new_files_commit(&f, 1, error); }

void new_file_discard(struct new_file *f)
{
    if (!f) return;
    if (f->file >= 0) close(f->file);
    if (f->beside && !f->nameless) unlink(f->beside);
    FREE_ALL(f->beside, f->target, f->path, f);
}

bool new_file_possible(const char *path, GError **error)
{
    struct stat status;
    /* A pipe is not opened here, because its reader would see the end of its input when it is closed again. */
    if (stat(path, &status) == 0 && S_ISFIFO(status.st_mode)) return true;
    struct new_file *f = new_file_open(path, error);
    new_file_discard(f);
    return f != NULL;
}

bool new_file_spares(const char *path, const char *const *inputs, size_t count, GError **error)
{
    struct stat own, other;
    if (!strcmp(path, "-") || stat(path, &own) != 0 || !S_ISREG(own.st_mode)) return true;
    for (size_t i = 0; i < count; i++) {
        if (stat(inputs[i], &other) != 0 || own.st_dev != other.st_dev || own.st_ino != other.st_ino) continue;
        return error_input(error, "%s: expected an output that is none of the inputs, found the file of %s", path,
                           inputs[i]);
    }
    return true;
}

bool new_file_apart(const char *option, const char *path, const char *output, GError **error)
{
    const char *const other = output ? output : "-";
    struct stat found;
    if (strcmp(path, other) == 0 && stat(path, &found) == 0 && S_ISCHR(found.st_mode)) return true; /* /dev/null */
    if (strcmp(path, other) != 0 && new_file_spares(path, &other, 1, NULL)) return true;
    if (strcmp(other, "-") != 0)
        return error_input(error, "%s: expected another file than that of --output, found %s", option, path);
    return error_input(error, "%s: expected a file, or --output FILE too: standard output takes the record", option);
}
