/* test_new_file.c - does a file appear whole or not at all, wherever its name leads?
 *
 * Aim: sim/new_file.h.  Method: names of every kind (new, taken, links, loops, devices, pipes, folders) in a folder
 * whose files are counted afterwards.  A limit on file sizes stands in for a full disk.  A child is killed while it
 * writes. */
#include "sim/new_file.h"
#include "tests/support_trace.h"
#include "tests/unit.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t file_count(void)
{
    g_autoptr(GDir) files = g_dir_open(temporary_path(""), 0, NULL);
    uint32_t count = 0;
    while (g_dir_read_name(files)) count++;
    return count;
}

static bool holds(const char *path, const char *expected)
{
    g_autofree char *text = NULL;
    return g_file_get_contents(path, &text, NULL, NULL) && !strcmp(text, expected);
}

static void fill(const char *path, const char *text)
{
    CU_ASSERT_TRUE_FATAL(g_file_set_contents(path, text, -1, NULL));
}

static bool write_whole(const char *path, const char *text, GError **error)
{
    struct new_file *file = new_file_open(path, error);
    if (!file) return false;
    CU_ASSERT(new_file_write(file, text, strlen(text), error));
    return new_file_commit(file, error);
}

static bool refused(const char *path, const char *reason)
{
    g_autoptr(GError) error = NULL;
    const uint32_t before = file_count();
    const bool good = !write_whole(path, "new", &error) && g_str_has_suffix(error->message, reason) &&
                      g_str_has_prefix(error->message, path) && file_count() == before &&
                      !new_file_possible(path, NULL);
    if (!good) printf("\n      said: %s\n", error ? error->message : "nothing");
    return good;
}

TEST("new and replaced")
{
    const char *path = temporary_path("a");
    const uint32_t before = file_count();
    struct new_file *file = new_file_open(path, NULL);
    CU_ASSERT(new_file_write(file, "one", 3, NULL));
    CU_ASSERT(!g_file_test(path, G_FILE_TEST_EXISTS));
    CU_ASSERT(new_file_commit(file, NULL) && holds(path, "one"));
    file = new_file_open(path, NULL);
    CU_ASSERT(new_file_write(file, "two", 3, NULL) && holds(path, "one"));
    new_file_discard(file);
    CU_ASSERT(holds(path, "one"));
    CU_ASSERT(write_whole(path, "", NULL) && holds(path, ""));
    CU_ASSERT(new_file_possible(path, NULL) && new_file_possible(temporary_path("b"), NULL));
    CU_ASSERT_EQUAL(file_count(), before + 1);
    g_unlink(path);
}

/* Files of one output appear together: if one cannot get its name, because its folder is gone, none does. */
TEST("both or none")
{
    g_autofree char *folder = g_strdup(temporary_path("gone")), *lost = g_build_filename(folder, "b", NULL);
    g_autoptr(GError) error = NULL;
    CU_ASSERT_EQUAL_FATAL(g_mkdir(folder, 0700), 0);
    struct new_file *const files[] = { new_file_open(temporary_path("a"), NULL), new_file_open(lost, NULL) };
    CU_ASSERT_EQUAL_FATAL(g_rmdir(folder), 0);
    CU_ASSERT(!new_files_commit(files, 2, &error) && error_holds(&error, "/b: cannot write: "));
    CU_ASSERT_EQUAL(file_count(), 0);
}

/* A user's own files must survive, even if their names resemble those of temporary files. */
TEST("neighbours survive")
{
    static const char *const names[] = { "n.part", "n.XXXXXX", "n.000000", "n.000001", "n~" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) fill(temporary_path(names[i]), "mine");
    CU_ASSERT(write_whole(temporary_path("n"), "new", NULL) && holds(temporary_path("n"), "new"));
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        CU_ASSERT(holds(temporary_path(names[i]), "mine"));
        g_unlink(temporary_path(names[i]));
    }
    g_unlink(temporary_path("n"));
    CU_ASSERT_EQUAL(file_count(), 0);
}

TEST("permissions")
{
    struct stat status;
    const mode_t mask = umask(027);
    CU_ASSERT(write_whole(temporary_path("p"), "new", NULL));
    CU_ASSERT(stat(temporary_path("p"), &status) == 0 && (status.st_mode & 0777) == 0640);
    CU_ASSERT(chmod(temporary_path("p"), 0604) == 0 && write_whole(temporary_path("p"), "newer", NULL));
    CU_ASSERT(stat(temporary_path("p"), &status) == 0 && (status.st_mode & 0777) == 0604);
    umask(mask);
    if (geteuid() != 0) {
        CU_ASSERT(chmod(temporary_path("p"), 0444) == 0);
        CU_ASSERT(refused(temporary_path("p"), ": cannot write: Permission denied"));
    }
    CU_ASSERT(holds(temporary_path("p"), "newer"));
    g_unlink(temporary_path("p"));
}

static bool is_link(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

TEST("links")
{
    CU_ASSERT(g_mkdir(temporary_path("sub"), 0755) == 0);
    CU_ASSERT(symlink("sub/file", temporary_path("near")) == 0 && symlink("near", temporary_path("far")) == 0);
    CU_ASSERT(write_whole(temporary_path("far"), "one", NULL) &&
              holds(temporary_path("sub/file"), "one")); /* the link's target did not exist */
    CU_ASSERT(write_whole(temporary_path("far"), "two", NULL) && holds(temporary_path("sub/file"), "two"));
    CU_ASSERT(is_link(temporary_path("near")) && is_link(temporary_path("far")) &&
              !is_link(temporary_path("sub/file")));
    CU_ASSERT(symlink("loop", temporary_path("loop")) == 0);
    CU_ASSERT(refused(temporary_path("loop"), ": cannot write: Too many levels of symbolic links"));
    CU_ASSERT(is_link(temporary_path("loop")));
    static const char *const names[] = { "far", "near", "loop", "sub/file" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) g_unlink(temporary_path(names[i]));
    g_rmdir(temporary_path("sub"));
    CU_ASSERT_EQUAL(file_count(), 0);
}

TEST("what is no file")
{
    CU_ASSERT(refused(temporary_path(""), ": cannot write: Is a directory"));
    CU_ASSERT(refused(temporary_path("none/x"), ": cannot write: No such file or directory"));
    CU_ASSERT(refused("", ": cannot write: No such file or directory"));
    CU_ASSERT(refused("/dev/fd/99", ": cannot write: Bad file descriptor"));
    CU_ASSERT(write_whole("/dev/null", "gone", NULL));
    struct stat status;
    CU_ASSERT(stat("/dev/null", &status) == 0 && S_ISCHR(status.st_mode));
    struct new_file *file = new_file_open("/dev/full", NULL);
    g_autoptr(GError) error = NULL;
    CU_ASSERT(!new_file_write(file, "x", 1, &error));
    CU_ASSERT(error_is(&error, "/dev/full: cannot write: No space left on device"));
    new_file_discard(file);
}

/* "/dev/fd/N" is written from its current position, whatever kind of file it is.  The file is not replaced or
 * truncated. */
TEST("what is open already")
{
    const int open_file = g_open(temporary_path("log"), O_CREAT | O_RDWR, 0644);
    CU_ASSERT_EQUAL(write(open_file, "first ", 6), 6);
    g_autofree char *name = g_strdup_printf("/dev/fd/%d", open_file);
    CU_ASSERT(write_whole(name, "second", NULL) && holds(temporary_path("log"), "first second"));
    close(open_file);
    g_unlink(temporary_path("log"));
}

TEST("pipes")
{
    char text[10] = "";
    CU_ASSERT(mkfifo(temporary_path("pipe"), 0600) == 0);
    const int reader = g_open(temporary_path("pipe"), O_RDONLY | O_NONBLOCK, 0);
    CU_ASSERT(new_file_possible(temporary_path("pipe"), NULL) && write_whole(temporary_path("pipe"), "through", NULL));
    CU_ASSERT(read(reader, text, sizeof text) == 7 && !strcmp(text, "through"));
    close(reader);
    struct stat status;
    CU_ASSERT(stat(temporary_path("pipe"), &status) == 0 && S_ISFIFO(status.st_mode));
    g_unlink(temporary_path("pipe"));
}

TEST("full disk")
{
    struct rlimit limit, small;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 1000;
    fill(temporary_path("f"), "former");
    setrlimit(RLIMIT_FSIZE, &small);
    struct new_file *file = new_file_open(temporary_path("f"), NULL);
    char text[2000] = "";
    g_autoptr(GError) error = NULL;
    CU_ASSERT(!new_file_write(file, text, sizeof text, &error));
    new_file_discard(file);
    setrlimit(RLIMIT_FSIZE, &limit);
    CU_ASSERT(error && g_str_has_suffix(error->message, "/f: cannot write: File too large"));
    CU_ASSERT(file_count() == 1 && holds(temporary_path("f"), "former"));
    g_unlink(temporary_path("f"));
}

TEST("killed writer")
{
    const pid_t child = fork();
    if (child == 0) {
        struct new_file *file = new_file_open(temporary_path("k"), NULL);
        (void)new_file_write(file, "half", 4, NULL);
        raise(SIGKILL);
    }
    int status = 0;
    CU_ASSERT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CU_ASSERT_EQUAL(file_count(), 0);
}

TEST("inputs spared")
{
    fill(temporary_path("a"), "a");
    fill(temporary_path("b"), "b");
    CU_ASSERT(link(temporary_path("a"), temporary_path("hard")) == 0 && symlink("a", temporary_path("soft")) == 0);
    g_autofree char *first = g_strdup(temporary_path("b")), *second = g_strdup(temporary_path("a"));
    const char *const inputs[] = { first, second };
    g_autoptr(GError) error = NULL;
    CU_ASSERT(!new_file_spares(temporary_path("soft"), inputs, 2, &error));
    CU_ASSERT(error_holds(&error, "/soft: expected an output that is none of the inputs, found "));
    CU_ASSERT(!new_file_spares(temporary_path("hard"), inputs, 2, NULL) &&
              !new_file_spares(temporary_path("a"), inputs, 2, NULL));
    CU_ASSERT(new_file_spares(temporary_path("a"), inputs, 1, NULL) &&
              new_file_spares(temporary_path("new"), inputs, 2, NULL));
    CU_ASSERT(new_file_spares("-", (const char *const[]){ "-" }, 1, NULL));
    CU_ASSERT(new_file_spares("/dev/null", (const char *const[]){ "/dev/null" }, 1, NULL));
    CU_ASSERT(new_file_apart("--timeline", "/dev/null", "/dev/null", NULL));
    CU_ASSERT(!new_file_apart("--timeline", "-", NULL, NULL));
    CU_ASSERT(!new_file_apart("--timeline", "one", "one", NULL) && new_file_apart("--timeline", "one", "two", NULL));
    static const char *const names[] = { "a", "b", "hard", "soft" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) g_unlink(temporary_path(names[i]));
}
