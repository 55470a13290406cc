/* backends.c - reads models/backends.ini, whose head says what each key means; see backends.h. */
#include "models/backends.h"

#include "models/cluster_keys.h"
#include "models/key_file.h"
#include "sim/error.h"

#define KEY(name, kind, field, choices) \
    { \
        NULL, name, kind, CLUSTER_PART_NONE, true, offsetof(struct transport, field), choices, NULL \
    }
static const struct cluster_key keys[] = {
    KEY("provider", KIND_CHOICE, provider, CLUSTER_PROVIDERS),
    KEY("posting", KIND_CHOICE, poster, "gpu|proxy"),
    KEY("post", KIND_TIME, post_ps, NULL),
    KEY("doorbell", KIND_TIME, doorbell_ps, NULL),
    KEY("library", KIND_TIME, library_ps, NULL),
    KEY("proxy", KIND_TIME, proxy_ps, NULL),
    KEY("proxy-threads", KIND_COUNT, threads, NULL),
    KEY("fifo-depth", KIND_COUNT, fifo_depth, NULL),
    KEY("queue-depth", KIND_COUNT, queue_depth, NULL),
    KEY("queues", KIND_COUNT, queues, NULL),
    KEY("atomic", KIND_TIME, atomic_ps, NULL),
    KEY("message", KIND_TIME, message_ps, NULL),
    KEY("answer", KIND_TIME, answer_ps, NULL),
    KEY("told", KIND_FLAG, told, NULL),
    KEY("copy-rate", KIND_RATE, copy_rate_bps, NULL),
    KEY("receive", KIND_TIME, receive_ps, NULL),
    KEY("order", KIND_CHOICE, order, "wire|fence|receiver"),
    KEY("mapped", KIND_TIME, mapped_ps, NULL),
    KEY("flushed", KIND_FLAG, flushed, NULL),
    KEY("uccl", KIND_FLAG, uccl, NULL),
    KEY("host-words", KIND_FLAG, host_words, NULL),
    KEY("counter", KIND_TIME, counter_ps, NULL),
};
_Static_assert(sizeof(enum transport_order) == sizeof(uint32_t), "a choice is read as a number of 32 bits");

struct backends {
    char **names; /* names of the file's sections; transports point to these strings */
    uint32_t count;
    struct transport *transport; /* [count], in the order of the file */
};

/* Reads the value of one key into *t. */
static bool value_read(const struct key_file *file, const char *section, const char *name, struct transport *t,
                       GError **error)
{
    g_autofree char *text = key_file_text(file, section, name), *place = key_file_place(file, section, name);
    if (!strcmp(name, "what")) t->what = g_steal_pointer(&text);
    else if (!strcmp(name, "source")) t->source = g_steal_pointer(&text);
    else {
        const struct cluster_key *k = keys, *end = keys + G_N_ELEMENTS(keys);
        while (k < end && strcmp(k->name, name) != 0) k++;
        if (k == end || !cluster_value_parse(k->kind, k->choices, text, (char *)t + k->offset))
            return error_input(error, "%s: expected %s, found %s = %s", place,
                               k == end     ? "a key that the file's head explains"
                               : k->choices ? k->choices
                                            : cluster_value_expected(k->kind),
                               name, text);
    }
    return true;
}

static bool backends_read(const struct key_file *file, struct backends *all, GError **error)
{
    all->names = g_key_file_get_groups(file->keys, NULL);
    all->count = g_strv_length(all->names);
    all->transport = g_new0(struct transport, all->count);
    for (uint32_t i = 0; i < all->count; i++) {
        struct transport *t = &all->transport[i];
        g_auto(GStrv) name = g_key_file_get_keys(file->keys, all->names[i], NULL, NULL);
        *t = (struct transport){ .name = all->names[i], .threads = 1 };
        for (char **n = name; *n; n++)
            if (!value_read(file, all->names[i], *n, t, error)) return false;
    }
    return true;
}

static const struct backends *backends_all(void)
{
    extern const char _binary_models_backends_ini_start[], _binary_models_backends_ini_end[];
    static struct backends all;
    static gsize once;
    if (g_once_init_enter(&once)) {
        GError *error = NULL;
        const size_t size = (size_t)(_binary_models_backends_ini_end - _binary_models_backends_ini_start);
        g_autoptr(key_file) file =
            key_file_parse("models/backends.ini", _binary_models_backends_ini_start, size, &error);
        if (!file || !backends_read(file, &all, &error)) g_error("%s", error->message);
        g_once_init_leave(&once, 1);
    }
    return &all;
}

const struct transport *backends_at(uint32_t index)
{
    return index < backends_all()->count ? &backends_all()->transport[index] : NULL;
}

const struct transport *backends_find(const char *name)
{
    for (uint32_t i = 0; backends_at(i); i++)
        if (!strcmp(backends_at(i)->name, name)) return backends_at(i);
    return NULL;
}
