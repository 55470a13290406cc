/* case_record.c - the header lines of a record that describe a case. */
#include "models/case.h"

#include <assert.h>
#include <string.h>

char *case_ranks_text(const uint8_t *set, uint32_t ranks)
{
    GString *text = g_string_new(NULL);
    for (uint32_t r = 0; r < ranks; r++)
        if (set[r]) g_string_append_printf(text, "%s%u", text->len ? "|" : "", r);
    return g_string_free(text->len ? text : g_string_append(text, "none"), FALSE);
}

void case_chunks_record(const struct moe_options *o, struct record *record)
{
    const struct moe_chunks *chunks[] = { &o->dispatch, &o->combine };
    static const char *const prefix[] = { "", "combine-" };
    for (size_t i = 0; i < G_N_ELEMENTS(chunks); i++) {
        const struct {
            const char *name;
            uint32_t value;
        } keys[] = {
            { "nvl-chunk", chunks[i]->nvl_send },
            { "rdma-chunk", chunks[i]->rdma_send },
            { "nvl-buffer", chunks[i]->nvl_recv },
            { "rdma-buffer", chunks[i]->rdma_recv },
        };
        for (size_t k = 0; k < G_N_ELEMENTS(keys); k++) {
            g_autofree char *name = g_strconcat(prefix[i], keys[k].name, NULL);
            record_set(record, name, "%u", keys[k].value);
        }
    }
}

void case_record(const struct case_options *c, struct record *record)
{
    const struct case_options resolved = case_resolved(c);
    assert(resolved.kernel && resolved.dtype && resolved.data);
    g_autoptr(GString) keys = g_string_new(NULL), work = g_string_new(NULL);
    for (uint32_t i = 0; case_option_name(i); i++) {
        const char *name = case_option_name(i);
        if (!case_option_applies(i, resolved.kernel)) continue;
        g_autofree char *text = case_option_text(&resolved, i);
        if (text) record_set(record, name, "%s", text);
        g_autofree char *digest = text ? case_file_digest(i, text) : NULL;
        g_autofree char *digest_name = g_strconcat(name, "-digest", NULL);
        if (digest) record_set(record, digest_name, "%s", digest);
        if (!case_option_makes_case(i, &resolved)) continue;
        g_string_append_printf(keys, "%s%s", keys->len ? " " : "", name);
        if (case_option_is_work(name)) g_string_append_printf(work, "%s%s", work->len ? " " : "", name);
    }
    record_set(record, RECORD_CASE_KEYS, "%s", keys->str);
    record_set(record, RECORD_WORK_KEYS, "%s", work->str);
    if (strcmp(resolved.kernel, "normal") == 0 && resolved.num_ranks) {
        struct moe_options o = { .ranks = resolved.num_ranks,
                                 .ranks_per_node = resolved.ranks_per_node,
                                 .deepep = resolved.deepep ? case_deepep_version(resolved.deepep) : 0 };
        case_chunks_settle(&resolved, &o);
        case_chunks_record(&o, record);
    }
}
