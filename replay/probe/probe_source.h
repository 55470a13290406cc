/* probe_source.h - where probe reads a host's files: this host, a folder that holds a captured tree, or an archive.
 *
 * Paths are absolute, as on the host ("/sys/bus/pci/devices").  Symbolic links are followed only inside the tree, so
 * a hostile tree cannot lead out of it.  A file is read up to PROBE_TEXT_MAX bytes.  Everything that is read can be
 * saved as an archive, which can be read in the same way. */
#ifndef REPLAY_PROBE_PROBE_SOURCE_H
#define REPLAY_PROBE_PROBE_SOURCE_H

#include <glib.h>
#include <stdbool.h>

enum { PROBE_TEXT_MAX = 1 << 20 };

struct probe_source;

/* Opens this host (root NULL), a folder, or a .tar archive, compressed or not.  NULL and *error if it cannot be
 * opened or is damaged, or if an archive holds more than 64 MiB or 65,536 entries. */
struct probe_source *probe_source_open(const char *root, GError **error);
void probe_source_free(struct probe_source *source);
/* Whether this is the running host, so that its environment and process limits count. */
bool probe_source_live(const struct probe_source *source);

/* The file's bytes, or NULL if there is no such file.  The result ends in a NUL that *size does not count. */
char *probe_source_read(struct probe_source *source, const char *path, gsize *size);
/* The first line without blanks at its ends; NULL if there is no line. */
char *probe_source_line(struct probe_source *source, const char *path);
/* The names in a folder, sorted, NULL-terminated; empty if there is no such folder. */
char **probe_source_list(struct probe_source *source, const char *path);
/* Where a symbolic link points, as it is written.  NULL: path is not a link. */
char *probe_source_link(struct probe_source *source, const char *path);
bool probe_source_has(struct probe_source *source, const char *path);
/* Returns path or, if it is a symbolic link, the path that the link leads to.  An archive knows files by their real
 * paths, so callers must read files below the result. */
char *probe_source_real(struct probe_source *source, const char *path);

/* Adds a file to those that probe_source_save() writes. */
void probe_source_keep(struct probe_source *source, const char *path, const char *data, gsize size);
/* Writes all files that were read so far to a .tar.zst archive. */
bool probe_source_save(const struct probe_source *source, const char *path, GError **error);

#endif
