/* probe_source.h - where probe reads a host's files: this host, a folder with a captured tree, or an archive.
 *
 * Paths are absolute, as on the host ("/sys/bus/pci/devices").  Symbolic links are followed only inside the tree, so
 * a hostile tree cannot lead out of it.  A file is read up to PROBE_TEXT_MAX bytes.  Everything that was read can be
 * saved as an archive, which can be read in the same way. */
#ifndef REPLAY_PROBE_PROBE_SOURCE_H
#define REPLAY_PROBE_PROBE_SOURCE_H

#include <glib.h>
#include <stdbool.h>

enum { PROBE_TEXT_MAX = 1 << 20 };

struct probe_source;

/* Opens this host (root is NULL), a folder, or a .tar archive, compressed or not.  NULL and *error if it cannot be
 * opened or is damaged, or if an archive has more than 64 MiB or 65,536 entries. */
struct probe_source *probe_source_open(const char *root, GError **error);
void probe_source_free(struct probe_source *source);
/* Whether the source is the running host, so that this process's environment and limits count. */
bool probe_source_live(const struct probe_source *source);

/* Returns the bytes of a file; NULL if there is no such file.  A NUL follows them, which *size does not count. */
char *probe_source_read(struct probe_source *source, const char *path, gsize *size);
/* Returns the first line of a file, without blanks at its ends; NULL if there is no such file. */
char *probe_source_line(struct probe_source *source, const char *path);
/* Returns the names in a folder, sorted and NULL-terminated.  The list is empty if there is no such folder. */
char **probe_source_list(struct probe_source *source, const char *path);
/* Returns the target of a symbolic link as it is written; NULL if path is not a link. */
char *probe_source_link(struct probe_source *source, const char *path);
bool probe_source_has(struct probe_source *source, const char *path);
/* Returns path or, if it is a symbolic link, the path to which it leads.  In an archive, files are found only by
 * their real paths, so callers must read files below the result. */
char *probe_source_real(struct probe_source *source, const char *path);

/* Adds a file to those that probe_source_save() writes. */
void probe_source_keep(struct probe_source *source, const char *path, const char *data, gsize size);
/* Writes all files that were read so far to a .tar.zst archive. */
bool probe_source_save(const struct probe_source *source, const char *path, GError **error);

#endif
