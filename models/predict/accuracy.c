/* accuracy.c - reads models/predict/accuracy.ini, which is part of the program; see accuracy.h. */
#include "models/predict/accuracy.h"

#include <glib.h>
#include <stdio.h>
#include "models/backends.h"

static GKeyFile *table(void)
{
    extern const char _binary_models_predict_accuracy_ini_start[], _binary_models_predict_accuracy_ini_end[];
    static GKeyFile *read;
    if (g_once_init_enter(&read)) {
        const size_t size =
            (size_t)(_binary_models_predict_accuracy_ini_end - _binary_models_predict_accuracy_ini_start);
        GError *error = NULL;
        GKeyFile *file = g_key_file_new();
        if (!g_key_file_load_from_data(file, _binary_models_predict_accuracy_ini_start, size, G_KEY_FILE_NONE, &error))
            g_error("models/predict/accuracy.ini: %s", error->message);
        g_once_init_leave(&read, file);
    }
    return read;
}

enum { ROWS_MIN = 5 }; /* a 90th percentile of fewer rows means nothing */

/* Reads the errors of any number of rows. */
static bool section_find(const char *section, const char *key, struct accuracy *a)
{
    g_autofree char *value = g_key_file_get_value(table(), section, key, NULL);
    *a = (struct accuracy){ 0 };
    return value && sscanf(value, "%u rows, %lf %%, %lf %%", &a->rows, &a->median_pct, &a->p90_pct) == 3;
}

/* The name of the backend whose posting times equal the cluster file's. */
static const char *own_backend(const struct cluster *cluster)
{
    const struct transport own = transport_of(&cluster->nic);
    const struct transport *t;
    for (uint32_t i = 0; (t = backends_at(i)); i++)
        if (t->poster == own.poster && t->post_ps == own.post_ps && t->doorbell_ps == own.doorbell_ps &&
            t->library_ps == own.library_ps && t->proxy_ps == own.proxy_ps && t->threads == own.threads)
            return t->name;
    return "?";
}

const char *accuracy_poster(const struct case_options *c, const struct record *record, const struct cluster *cluster)
{
    const char *ranks = record_get(record, "num-ranks");
    if (c->compute) return "beside";
    if (c->nvlink_disabled && !case_peers_by_rdma(c)) return "pcie";
    if (g_ascii_strtoull(ranks, NULL, 10) <= c->ranks_per_node && !c->nvlink_disabled) return "node";
    return c->backend ? c->backend : own_backend(cluster);
}

bool accuracy_find(const struct cluster *cluster, const char *kernel, const char *phase, const char *poster,
                   struct accuracy *accuracy)
{
    g_autofree char *key = g_strdup_printf("%s %s %s", kernel, poster, phase);
    struct accuracy all;
    const bool here = section_find(cluster->name, key, accuracy);
    const bool changed = cluster->settings && *cluster->settings; /* nobody measured such a machine */
    if (here && !changed && accuracy->rows >= ROWS_MIN) return true;
    const bool anywhere = section_find("all machines", key, &all) && all.rows >= ROWS_MIN;
    if (!anywhere) *accuracy = (struct accuracy){ 0 };
    else if (!here || all.p90_pct > accuracy->p90_pct) *accuracy = all;
    accuracy->elsewhere = anywhere;
    return anywhere;
}

bool accuracy_tells(const struct case_options *c, const char *kernel, const char *poster)
{
    const bool by_rank = (c->size && strchr(c->size, '|')) || (c->tokens_per_rank && strcmp(kernel, "ag-rs") == 0);
    return !c->fault && !c->slow && (!by_rank || strcmp(poster, "node") == 0);
}

char *accuracy_text(const struct accuracy *a)
{
    return a->rows ? g_strdup_printf("%.0f %%%s", a->p90_pct, a->elsewhere ? " *" : "") : g_strdup("-");
}

const char accuracy_note[] =
    "Off by: 9 of 10 measured times of this kernel on this machine were predicted within this error;\n"
    "*: fewer than 5 times were measured here, so the larger of this error and that of all machines;\n"
    "-: fewer than 5 were measured anywhere.\n";
