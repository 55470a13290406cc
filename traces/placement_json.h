/* placement_json.h - placements of all layers as JSON of serving engines (placement_json.c describes the formats).
 * Opens no files; paths are only for messages. */
#ifndef TRACES_PLACEMENT_JSON_H
#define TRACES_PLACEMENT_JSON_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>
#include "traces/placement.h"

/* Reads the logical experts of in->layer's slots, rank after rank, as uint32_t.  Free with g_array_unref().  NULL and
 * *error (path, place in the document, expected, found) on failure. */
GArray *placement_json_read(const char *path, const char *text, size_t bytes, const struct placement_input *in,
                            GError **error);

enum placement_json { PLACEMENT_JSON_SGLANG, PLACEMENT_JSON_VLLM, PLACEMENT_JSON_VLLM_ASCEND };

/* All placements layer[layers] as one document.  Free with g_free(). */
char *placement_json_text(const struct placement *layer, uint32_t layers, enum placement_json form);

#endif
