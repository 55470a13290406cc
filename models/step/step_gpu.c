/* step_gpu.c - reads tables/gpus.ini, see step_gpu.h. */
#include "models/step/step_gpu.h"

#include <math.h>
#include "models/key_file.h"
#include "sim/error.h"
#include "sim/share.h"
#include "sim/text.h"

enum { LIKE_MAX = 4 };

static const struct key {
    const char *name;
    size_t offset;
} keys[] = {
    { "bf16-tflops", offsetof(struct step_gpu, bf16_tflops) },
    { "fp8-tflops", offsetof(struct step_gpu, fp8_tflops) },
    { "gemm-share", offsetof(struct step_gpu, gemm_share) },
    { "small-us", offsetof(struct step_gpu, small_us) },
    { "gap-us", offsetof(struct step_gpu, gap_us) },
    { "memory-gb", offsetof(struct step_gpu, memory_gb) },
    { "memory-gbs", offsetof(struct step_gpu, memory_gbs) },
    { "clock-ghz", offsetof(struct step_gpu, clock_ghz) },
    { "sustained-clock-ghz", offsetof(struct step_gpu, sustained_clock_ghz) },
    { "tensor-clock-ghz", offsetof(struct step_gpu, tensor_clock_ghz) },
    { "pause-clock-ghz", offsetof(struct step_gpu, pause_clock_ghz) },
    { "zeros-power", offsetof(struct step_gpu, zeros_power) },
    { "copies-power", offsetof(struct step_gpu, copies_power) },
    { "core-backward", offsetof(struct step_gpu, core_backward) },
    { "fp8-wgrad", offsetof(struct step_gpu, fp8_wgrad) },
};

/* The value of a key in the GPU's own section.  If that section lacks the key, the section that its key `like` names
 * is searched, and so on.  NULL: none has it. */
static char *text_of(const struct key_file *file, const char *section, const char *key)
{
    g_autofree char *at = g_strdup(section);
    for (int i = 0; at && i < LIKE_MAX; i++) {
        char *text = key_file_text(file, at, key);
        if (text) return text;
        char *like = key_file_text(file, at, "like");
        g_free(at);
        at = like;
    }
    return NULL;
}

static bool number_parse(const char *text, double *value)
{
    const char *end = text ? text_decimal(text, value) : NULL;
    return end && !end[strspn(end, " \t")] && isfinite(*value) && *value > 0;
}

static bool keys_read(const struct key_file *file, struct step_gpu *gpu, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        g_autofree char *text = text_of(file, gpu->name, keys[i].name);
        double *value = (double *)(void *)((char *)gpu + keys[i].offset);
        if (number_parse(text, value)) continue;
        return error_input(error, "%s: [%s] %s: expected a positive number, found \"%s\"", file->path, gpu->name,
                           keys[i].name, text ? text : "");
    }
    gpu->tables = key_file_text(file, gpu->name, "tables");
    g_autofree char *rate = gpu->tables ? text_of(file, gpu->tables, "memory-gbs") : NULL;
    if (!number_parse(rate, &gpu->tables_memory_gbs)) gpu->tables_memory_gbs = gpu->memory_gbs;
    return true;
}

/* The section whose `clusters` has a word of the cluster's name: "h800" for "H800 CX7" and "h800-cx7".  NULL: none. */
static char *section_of(const struct key_file *file, const char *cluster)
{
    g_autofree char *lower = g_ascii_strdown(cluster, -1);
    g_auto(GStrv) words = g_strsplit_set(lower, " -_./,()", 0), sections = g_key_file_get_groups(file->keys, NULL);
    for (char **s = sections; *s; s++) {
        g_autofree char *text = key_file_text(file, *s, "clusters");
        g_auto(GStrv) known = g_strsplit(text ? text : "", " ", 0);
        for (char **k = known; *k; k++)
            if (**k && g_strv_contains((const char *const *)words, *k)) return g_strdup(*s);
    }
    return NULL;
}

struct step_gpu *step_gpu_load(const char *name, const char *cluster, GError **error)
{
    g_autofree char *path = share_find(SHARE_TABLES, "gpus");
    g_autoptr(key_file) file = path ? key_file_load(path, error) : NULL;
    if (!path) error_input(error, "gpus.ini: expected it next to the tables, found none");
    if (!file) return NULL;
    g_autofree char *section = name ? g_ascii_strdown(name, -1) : section_of(file, cluster);
    if (!section || !g_key_file_has_group(file->keys, section)) {
        g_auto(GStrv) sections = g_key_file_get_groups(file->keys, NULL);
        g_autofree char *list = g_strjoinv(", ", sections);
        return error_null(error, "--gpu: expected one of %s; found %s%s", list,
                          name ? name : "none that is in the cluster's name, ", name ? "" : cluster);
    }
    struct step_gpu *gpu = g_new0(struct step_gpu, 1);
    gpu->name = g_steal_pointer(&section);
    if (keys_read(file, gpu, error)) return gpu;
    step_gpu_free(gpu);
    return NULL;
}

bool step_gpu_differs(const char *device, const char *cluster)
{
    g_autofree char *path = share_find(SHARE_TABLES, "gpus");
    g_autoptr(key_file) file = path ? key_file_load(path, NULL) : NULL;
    g_autofree char *of_device = file ? section_of(file, device) : NULL;
    g_autofree char *of_cluster = file ? section_of(file, cluster) : NULL;
    return of_device && of_cluster && strcmp(of_device, of_cluster) != 0;
}

void step_gpu_free(struct step_gpu *gpu)
{
    if (!gpu) return;
    g_free(gpu->name);
    g_free(gpu->tables);
    g_free(gpu);
}
