/* key_file.h - a GLib key file that knows the line of every section and key. No section or key may occur twice.
 *
 * GLib joins sections of one name and keeps only the last of several keys, so half of a file can silently have no
 * effect.  Here both are errors, and so is a line that is neither a section, nor "key = value", nor a comment.  A
 * '#' or ';' ends a value.  Knows no section and no key.
 *
 * Other files may add keys that a file lacks.  The file's own keys win, and the file of each key is known. */
#ifndef MODELS_KEY_FILE_H
#define MODELS_KEY_FILE_H

#include <glib.h>
#include <stdint.h>

struct key_file {
    char *path;
    GKeyFile *keys;
    GHashTable *lines; /* from each "section" and "section\nkey" to its line */
    GHashTable *paths; /* from each such name that came from another file to that file's path */
};

/* Reads a file.  On failure returns NULL and sets *error, "path:line: ...". */
struct key_file *key_file_load(const char *path, GError **error);
/* Reads the text of a file as key_file_load() reads a file.  Messages name the text by path. */
struct key_file *key_file_parse(const char *path, const char *text, size_t size, GError **error);
void key_file_free(struct key_file *file);

/* The line of a section (key NULL) or of a key, counted from 1.  0: the file lacks it.  KEY_FILE_SETTING: it came
 * from key_file_set(). */
#define KEY_FILE_SETTING UINT32_MAX
uint32_t key_file_line(const struct key_file *file, const char *section, const char *key);

/* Returns "path:line" of a section or key, in whichever file it is.  For a key that was set, returns the place given
 * to key_file_set().  For a key that is in no file, returns the file's path.  Free with g_free(). */
char *key_file_place(const struct key_file *file, const char *section, const char *key);

/* Adds the keys that `other` has and file lacks, except those of the section named `except`. */
void key_file_complete(struct key_file *file, const struct key_file *other, const char *except);

/* Sets a key of a section to text, whether or not the file has it.  Errors name it by place: "--set a.b=c". */
void key_file_set(struct key_file *file, const char *section, const char *key, const char *text, const char *place);

/* The text after '=' without its comment; NULL if there is no such key.  Freed with g_free(). */
char *key_file_text(const struct key_file *file, const char *section, const char *key);

/* The digest (traces/digest.h) of sections and keys, without the section named `except`.  Comments, blanks in
 * values, and the order of sections and keys do not count; in the section named `ordered`, the order of keys counts.
 * Freed with g_free(). */
char *key_file_digest(const struct key_file *file, const char *except, const char *ordered);

typedef struct key_file key_file;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(key_file, key_file_free)

#endif
