/* key_file.h - a GLib key file that knows the line of everything, and in which nothing stands twice.
 *
 * GLib joins sections of one name and lets the last of several keys win, so that half of a file can be without effect
 * unseen; here both are errors, as is a line that is neither a section, nor "key = value", nor a comment.  A '#' or ';'
 * ends a value.  Knows no section and no key.
 *
 * A file may be completed by others: what it says itself counts, and each key knows the file that it came from. */
#ifndef MODELS_KEY_FILE_H
#define MODELS_KEY_FILE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define KEY_FILE_ERROR (g_quark_from_static_string("eptwin-key-file"))
enum key_file_error { KEY_FILE_ERROR_IO, KEY_FILE_ERROR_SYNTAX, KEY_FILE_ERROR_TWICE };

struct key_file {
    char *path;
    GKeyFile *keys;
    GHashTable *lines; /* "section" and "section\nkey" -> line */
    GHashTable *paths; /* the same, of what came from other files -> path */
};

/* NULL and *error, "path:line: ...", on failure. */
struct key_file *key_file_load(const char *path, GError **error);
void key_file_free(struct key_file *file);

/* Where a section (key NULL) or a key stands, counted from 1; 0 when it does not; KEY_FILE_SETTING where it was set. */
#define KEY_FILE_SETTING UINT32_MAX
uint32_t key_file_line(const struct key_file *file, const char *section, const char *key);

/* "path:line" of it, in whichever file it stands; the place that key_file_set() was given; else the file's path.
 * Freed with g_free(). */
char *key_file_place(const struct key_file *file, const char *section, const char *key);

/* Takes over from other what file does not say, but for the section named except. */
void key_file_complete(struct key_file *file, const struct key_file *other, const char *except);

/* Puts text behind a key of a section, whether or not the file has it.  place is what errors call it: "--set a.b=c". */
void key_file_set(struct key_file *file, const char *section, const char *key, const char *text, const char *place);

/* The text behind '=' without its comment; NULL when there is no such key.  Freed with g_free(). */
char *key_file_text(const struct key_file *file, const char *section, const char *key);

/* Digest (traces/digest.h) of what sections and keys say, but for the section named except.  Comments, blanks in
 * values, and the order of sections and keys do not count; in the section named ordered the order of keys does.  Freed
 * with g_free(). */
char *key_file_digest(const struct key_file *file, const char *except, const char *ordered);

typedef struct key_file key_file;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(key_file, key_file_free)

#endif
