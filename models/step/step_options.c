/* step_options.c - the table of options of a step, see step_options.h. */
#include "models/step/step_options.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include "models/step/program.h"
#include "sim/error.h"
#include "sim/share.h"
#include "sim/text.h"
#include "traces/digest.h"

enum field_type { FIELD_TEXT, FIELD_COUNT, FIELD_NUMBER, FIELD_FLAG };

struct field {
    const char *name;
    enum field_type type;
    bool work; /* the option says what work there is */
    size_t offset;
    int least, most;
    const char *argument; /* the placeholder of the value in --help */
    const char *help;
};

#define AT(member) offsetof(struct step_options, member)
static const struct field fields[] = {
    { "net", FIELD_TEXT, true, AT(net), 0, 0, "NET", "A config.json, or a model that ships with eptwin (deepseek-v3)" },
    { "work", FIELD_TEXT, true, AT(work), 0, 0, "TIMES",
      "Instead of a net: times of compute, as in eptwin replay --schedule: " PROGRAM_WORK_GRAMMAR },
    { "phase", FIELD_TEXT, true, AT(phase), 0, 0, "NAME",
      "decode (default), prefill or train (a forward and a backward pass)" },
    { "batch", FIELD_COUNT, true, AT(batch), 1, 1 << 20, "N",
      "Tokens per GPU and step: sequences in decode (default 128), tokens in prefill and training (4096)" },
    { "context", FIELD_COUNT, true, AT(context), 1, 1 << 24, "N", "Tokens per sequence (default 4096)" },
    { "schedule", FIELD_TEXT, false, AT(schedule), 0, 0, "NAME",
      "sequential (default: no overlap), shared (the shared expert runs during dispatch; low latency: between its send "
      "and receive), two-batch (two batches overlap; normal kernels; in training a forward with another's backward "
      "pass, as in DualPipe), or stages (stages of two batches overlap; low latency with hooks)" },
    { "attention-tp", FIELD_COUNT, false, AT(attention_tp), 1, 1024, "N",
      "GPUs that share the attention heads (default 1)" },
    { "leave-sms", FIELD_COUNT, false, AT(leave_sms), 0, 1 << 12, "N",
      "SMs that GEMMs (of experts; in training all) leave free (default: two-batch, those of the kernels; else 0)" },
    { "redundant", FIELD_COUNT, false, AT(redundant), 0, 1 << 16, "N",
      "Redundant experts beside the model's own (default 0): replicas of the most loaded ones, as with --placement "
      "eplb:N, if a trace or the routing (zipf, lognormal, ...) says which those are" },
    { "gpu", FIELD_TEXT, false, AT(gpu), 0, 0, "NAME", "GPU for compute times (default: the cluster's)" },
    { "table", FIELD_TEXT, false, AT(table), 0, 0, "FILE",
      "Measured times of compute kernels, CSV: op,gpu,dtype,shape,tokens,context,us; or a record of eptwin measure "
      "--fabric cuda, for its GEMMs" },
    { "clock", FIELD_TEXT, false, AT(clock), 0, 0, "GHZ",
      "Clock under continuous load, GHz, derived from the times of GEMMs where tables are for the GPU's highest clock; "
      "nvidia-smi reads less (default: the GPU's, limited by power); or for each rank's GPU: 1.69|1.79" },
    { "layers", FIELD_TEXT, false, AT(layers), 0, 0, "N",
      "MoE layers to simulate; further layers count like the last ones (default: decode 12, else 4; all)" },
    { "launches", FIELD_FLAG, false, AT(launches), 0, 0, NULL, "The host launches each kernel (default: CUDA graphs)" },
    { "no-contention", FIELD_FLAG, false, AT(no_contention), 0, 0, NULL,
      "Kernels on one GPU share its SMs, but do not slow each other through memory or clock" },
    { "spread", FIELD_NUMBER, false, AT(spread_pct), 0, 20, "PCT",
      "Deviation of the GPUs' clocks, percent (default 0; with several draws and no --clock per rank: 2)" },
    { "jitter", FIELD_NUMBER, false, AT(jitter_pct), 0, 50, "PCT",
      "Deviation of the times of compute kernels, percent (default 0; with several draws: 1)" },
    { "draws", FIELD_COUNT, false, AT(draws), 1, 1000, "N",
      "Random draws of both deviations; the result is their median and range (default: two-batch 3, otherwise and in a "
      "sweep 1)" },
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static void *place(const struct step_options *o, const struct field *f) { return (char *)o + f->offset; }
static const char **text_at(const struct step_options *o, const struct field *f) { return place(o, f); }

void step_options_init(struct step_options *o)
{
    *o = (struct step_options){ .leave_sms = -1, .spread_pct = -1, .jitter_pct = -1 };
}

bool step_options_asked(const struct step_options *o) { return o->net || o->work; }

static const struct field *field_find(const char *name)
{
    g_autofree char *dashed = g_strdelimit(g_strdup(name), "_", '-');
    for (uint32_t i = 0; i < FIELDS; i++)
        if (strcmp(fields[i].name, dashed) == 0) return &fields[i];
    return NULL;
}

const char *step_option_find(const char *name)
{
    const struct field *f = field_find(name);
    return f ? f->name : NULL;
}

const char *step_option_name(uint32_t index) { return index < FIELDS ? fields[index].name : NULL; }

bool step_option_is_work(const char *name)
{
    const struct field *f = field_find(name);
    return f && f->work;
}

static bool refuse(const struct field *f, const char *expected, const char *text, GError **error)
{
    return error_input(error, "%s: expected %s, found %s", f->name, expected, text);
}

static bool count_set(struct step_options *o, const struct field *f, const char *text, GError **error)
{
    guint64 value;
    g_autofree char *expected = g_strdup_printf("a whole number from %d to %d", f->least, f->most);
    if (!text_whole(text, (guint64)f->least, (guint64)f->most, &value)) return refuse(f, expected, text, error);
    *(int *)place(o, f) = (int)value;
    return true;
}

static bool number_set(struct step_options *o, const struct field *f, const char *text, GError **error)
{
    double value;
    const char *end = text_decimal(text, &value);
    g_autofree char *expected = g_strdup_printf("a number from %d to %d", f->least, f->most);
    if (!end || *end || !(value >= f->least && value <= f->most)) return refuse(f, expected, text, error);
    *(double *)place(o, f) = value;
    return true;
}

bool step_option_set(struct step_options *o, const char *name, const char *text, GError **error)
{
    const struct field *f = field_find(name);
    assert(f);
    switch (f->type) {
    case FIELD_COUNT: return count_set(o, f, text, error);
    case FIELD_NUMBER: return number_set(o, f, text, error);
    case FIELD_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) return refuse(f, "true or false", text, error);
        *(bool *)place(o, f) = strcmp(text, "true") == 0;
        return true;
    case FIELD_TEXT:
        if (!*text) return refuse(f, f->argument, "nothing", error);
        *text_at(o, f) = g_intern_string(text);
        return true;
    }
    g_assert_not_reached();
}

char *step_option_text(const struct step_options *o, uint32_t index)
{
    assert(index < FIELDS);
    const struct field *f = &fields[index];
    struct step_options unset;
    step_options_init(&unset);
    switch (f->type) {
    case FIELD_TEXT: return g_strdup(*text_at(o, f));
    case FIELD_COUNT: {
        const int value = *(const int *)place(o, f);
        return value == *(const int *)place(&unset, f) ? NULL : g_strdup_printf("%d", value);
    }
    case FIELD_NUMBER: {
        const double value = *(const double *)place(o, f);
        return value >= 0 ? g_strdup_printf("%g", value) : NULL;
    }
    case FIELD_FLAG: return *(const bool *)place(o, f) ? g_strdup("true") : NULL;
    }
    g_assert_not_reached();
}

char *step_option_digest(uint32_t index, const char *value)
{
    assert(index < FIELDS);
    if (fields[index].offset != AT(net) && fields[index].offset != AT(table)) return NULL;
    g_autofree char *lower = g_ascii_strdown(value, -1);
    g_autofree char *shipped = g_file_test(value, G_FILE_TEST_IS_REGULAR) ? NULL : share_find(SHARE_NETS, lower);
    return digest_file("", shipped ? shipped : value);
}

/* The options that the command line fills.  They are global because GLib passes no data of the caller to callbacks
 * of main entries. */
static struct step_options *entries_of;

static gboolean entry_set(const gchar *option, const gchar *value, gpointer unused, GError **error)
{
    (void)unused;
    if (step_option_set(entries_of, option + strspn(option, "-"), value ? value : "true", error)) return TRUE;
    g_prefix_error(error, "--");
    return FALSE;
}

GOptionEntry *step_options_entries(struct step_options *o)
{
    static GOptionEntry entry[FIELDS + 1];
    union {
        GOptionArgFunc call;
        gpointer data;
    } callback = { .call = entry_set };
    entries_of = o;
    for (uint32_t i = 0; i < FIELDS; i++)
        entry[i] = (GOptionEntry){
            .long_name = fields[i].name,
            .flags = fields[i].type == FIELD_FLAG ? G_OPTION_FLAG_NO_ARG : G_OPTION_FLAG_FILENAME,
            .arg = G_OPTION_ARG_CALLBACK,
            .arg_data = callback.data,
            .description = fields[i].help,
            .arg_description = fields[i].argument,
        };
    return entry;
}
