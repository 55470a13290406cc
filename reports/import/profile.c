/* profile.c - keeps kernels by device and in order, with their launches.  Knows no format. */
#include "reports/import/profile.h"

#include <string.h>
#include "sim/memory.h"
#include "sim/text.h"

struct launch {
    uint32_t correlation;
    int64_t begin_ns;
};

struct profile_builder {
    struct profile facts;
    GHashTable *by_name; /* name -> number + 1 */
    GPtrArray *names;
    GArray *kernels, *launches;
};

struct profile_builder *profile_builder_new(const char *source, const char *tool)
{
    struct profile_builder *b = g_new0(struct profile_builder, 1);
    b->facts = (struct profile){ .source = g_strdup(source), .tool = tool, .rank = -1 };
    b->names = g_ptr_array_new_with_free_func(g_free);
    b->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    b->kernels = g_array_new(FALSE, FALSE, sizeof(struct profile_kernel));
    b->launches = g_array_new(FALSE, FALSE, sizeof(struct launch));
    return b;
}

struct profile *profile_builder_facts(struct profile_builder *b) { return &b->facts; }

void profile_builder_free(struct profile_builder *b)
{
    if (!b) return;
    g_hash_table_unref(b->by_name);
    g_ptr_array_unref(b->names);
    g_array_unref(b->kernels);
    g_array_unref(b->launches);
    FREE_ALL(b->facts.source, b->facts.gpu, b);
}

uint32_t profile_builder_name(struct profile_builder *b, const char *name)
{
    const gpointer known = g_hash_table_lookup(b->by_name, name);
    if (known) return GPOINTER_TO_UINT(known) - 1;
    char *copy = g_strdup(name);
    g_ptr_array_add(b->names, copy);
    g_hash_table_insert(b->by_name, copy, GUINT_TO_POINTER(b->names->len));
    return b->names->len - 1;
}

bool profile_builder_kernel(struct profile_builder *b, const struct profile_kernel *kernel)
{
    if (b->kernels->len == PROFILE_KERNELS_MAX) return false;
    g_array_append_val(b->kernels, *kernel);
    return true;
}

bool profile_builder_launch(struct profile_builder *b, uint32_t correlation, int64_t begin_ns)
{
    const struct launch launch = { correlation, begin_ns };
    if (b->launches->len == PROFILE_KERNELS_MAX) return false;
    g_array_append_val(b->launches, launch);
    return true;
}

static gint launch_order(gconstpointer a, gconstpointer b)
{
    const struct launch *x = a, *y = b;
    if (x->correlation != y->correlation) return x->correlation < y->correlation ? -1 : 1;
    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

static gint kernel_order(gconstpointer a, gconstpointer b)
{
    const struct profile_kernel *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    if (x->end_ns != y->end_ns) return x->end_ns < y->end_ns ? -1 : 1;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    if (x->correlation != y->correlation) return x->correlation < y->correlation ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

/* Sorts the kernels.  A kernel that the file names twice, as joined files do, counts once. */
static void kernels_sort(GArray *kernels)
{
    guint kept = 0;
    g_array_sort(kernels, kernel_order);
    struct profile_kernel *kernel = (void *)kernels->data;
    for (guint i = 0; i < kernels->len; i++)
        if (!kept || kernel_order(&kernel[kept - 1], &kernel[i]) != 0) kernel[kept++] = kernel[i];
    g_array_set_size(kernels, kept);
}

/* Joins each kernel with the last launch of its correlation that is not after the kernel's start. */
static void launches_join(struct profile_builder *b)
{
    const struct launch *launch = (const void *)b->launches->data;
    g_array_sort(b->launches, launch_order);
    for (guint i = 0; i < b->kernels->len; i++) {
        struct profile_kernel *kernel = &g_array_index(b->kernels, struct profile_kernel, i);
        guint low = 0, high = b->launches->len; /* low becomes the index after this kernel's launch */
        while (low < high) {
            const guint middle = low + (high - low) / 2;
            const bool before =
                launch[middle].correlation < kernel->correlation ||
                (launch[middle].correlation == kernel->correlation && launch[middle].begin_ns <= kernel->begin_ns);
            if (before) low = middle + 1;
            else high = middle;
        }
        if (kernel->correlation && low && launch[low - 1].correlation == kernel->correlation)
            kernel->launch_ns = launch[low - 1].begin_ns;
    }
}

GPtrArray *profile_builder_end(struct profile_builder *b)
{
    GPtrArray *profiles = g_ptr_array_new_with_free_func((GDestroyNotify)profile_free);
    launches_join(b);
    kernels_sort(b->kernels);
    const struct profile_kernel *kernel = (const void *)b->kernels->data;
    for (guint i = 0, next; i < b->kernels->len; i = next) {
        for (next = i; next < b->kernels->len && kernel[next].device == kernel[i].device;) next++;
        struct profile *p = g_new(struct profile, 1);
        *p = b->facts;
        p->source = g_strdup(b->facts.source);
        p->gpu = b->facts.gpu ? text_printable(b->facts.gpu, strlen(b->facts.gpu)) : NULL;
        p->names = g_ptr_array_ref(b->names);
        const bool all = i == 0 && next == b->kernels->len;
        p->kernels = all ? g_array_ref(b->kernels) : g_array_new(FALSE, FALSE, sizeof *kernel);
        if (!all) g_array_append_vals(p->kernels, kernel + i, next - i);
        g_ptr_array_add(profiles, p);
    }
    profile_builder_free(b);
    return profiles;
}

void profile_free(struct profile *p)
{
    if (!p) return;
    g_ptr_array_unref(p->names);
    g_array_unref(p->kernels);
    FREE_ALL(p->source, p->gpu, p);
}
