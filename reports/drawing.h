/* drawing.h - parts in rows and the links between them, drawn as one SVG: the picture of a machine for `eptwin
 * cluster show`.  It knows names, rows and words; it knows no cluster.
 *
 *     caption of a row   [ part ]   [ part ]   +12   [ part ]
 *        words between      |    \ /    |
 *     caption of the next [ part ]   [ part ]
 *
 * A part or a link has a name and may have resources: words such as "nic_tx", which results use too.  A mark is a
 * name or a resource.  Marked parts are drawn strongly.  A long row omits parts, but never one that a mark names.  The
 * SVG stands alone or in an HTML page.  Its style, for light and dark pages, holds only within the class "machine".
 * <title> and <desc> say what it shows.  Every text may be hostile, so it is escaped. */
#ifndef REPORTS_DRAWING_H
#define REPORTS_DRAWING_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct drawing drawing; /* so that g_autoptr(drawing) knows it */

/* The title is the machine's name.  The description puts the picture in words. */
struct drawing *drawing_new(const char *title, const char *description);
void drawing_free(struct drawing *drawing);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(drawing, drawing_free)

/* A heading above the next row. */
void drawing_heading_add(struct drawing *drawing, const char *text);
/* Adds a row below the last one.  caption: the row's name.  words: more lines below the caption, divided by '\n', or
 * NULL.  Both are drawn left of the parts.  class: the style of the parts: "switch", "node", "nic", "pcie", "gpu" or
 * "nvlink". */
uint32_t drawing_row_add(struct drawing *drawing, const char *caption, const char *words, const char *class);
/* Adds a part at the end of a row, and returns the part's number. note: a short second line, or NULL. tip: a
 * description. resources: the part's names in results, divided by blanks, or NULL. */
uint32_t drawing_part_add(struct drawing *drawing, uint32_t row, const char *name, const char *note, const char *tip,
                          const char *resources);
/* Adds a link between two parts.  resources: the link's names in results, divided by blanks, or NULL. */
void drawing_link_add(struct drawing *drawing, uint32_t a, uint32_t b, const char *name, const char *tip,
                      const char *resources);
/* Adds a cut through a row and the row above it, after the row's part with index `part`.  It divides all parts
 * before it from all parts after it. */
void drawing_cut_add(struct drawing *drawing, uint32_t row, uint32_t part, const char *name, const char *tip);
/* Adds words below the picture, after the resource that they explain (NULL: none).  Long words continue in further
 * lines. */
void drawing_words_add(struct drawing *drawing, const char *resource, const char *text);

/* Notes that of several equal parts, such as n0 to n15, only one is drawn, with everything that belongs to it.  A mark
 * "n7.g1-n7.root0" then stands for "n0.g1-n0.root0". prefix: "n". number: the number of the part that is drawn. */
void drawing_alike_set(struct drawing *drawing, const char *prefix, uint32_t number);

/* Whether a part, a link (in either direction), a cut or a resource of the drawing has this name. */
bool drawing_has(const struct drawing *drawing, const char *name);

/* Appends <svg>...</svg>.  marks: NULL-terminated, or NULL.  A mark that is not on the drawing marks nothing. */
void drawing_svg_append(struct drawing *drawing, const char *const *marks, GString *out);

#endif
