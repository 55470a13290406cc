/* sweep_plan.c - names and values of a sweep, and the points that they make.  Runs nothing. */
#include "models/predict/sweep.h"
#include "sim/command_line.h"

#include <string.h>

void sweep_plan_init(struct sweep_plan *plan)
{
    *plan = (struct sweep_plan){ .settings = g_ptr_array_new_with_free_func(g_free),
                                 .names = g_array_new(FALSE, FALSE, sizeof(struct sweep_name)) };
    case_init(&plan->base);
    step_options_init(&plan->step);
}

static struct sweep_name *name_at(const struct sweep_plan *plan, uint32_t index)
{
    return &g_array_index(plan->names, struct sweep_name, index);
}

const struct sweep_name *sweep_plan_find(const struct sweep_plan *plan, const char *name)
{
    for (guint i = 0; i < plan->names->len; i++)
        if (strcmp(name_at(plan, i)->name, name) == 0) return name_at(plan, i);
    return NULL;
}

void sweep_plan_clear(struct sweep_plan *plan)
{
    for (guint i = 0; i < plan->names->len; i++) {
        g_free(name_at(plan, i)->name);
        g_strfreev(name_at(plan, i)->value);
    }
    g_array_unref(plan->names);
    g_ptr_array_unref(plan->settings);
    g_free(plan->baseline);
}

/* Whether a word is a ratio, such as oversubscription's "2:1".  In a range, such as "1:2", the second number is the
 * larger one. */
static bool is_ratio(const char *word)
{
    char *end, *rest;
    const guint64 first = g_ascii_strtoull(word, &end, 10);
    if (end == word || *end != ':') return false;
    const guint64 second = g_ascii_strtoull(end + 1, &rest, 10);
    return rest != end + 1 && !*rest && second > 0 && second <= first;
}

/* Adds the numbers of a range to values.  False if the word is not a range, or (with *error) if it is an impossible
 * one. */
static bool range_expand(const char *word, bool key, GPtrArray *values, GError **error)
{
    g_auto(ranges) numbers = { 0 };
    if (strspn(word, "0123456789:x") != strlen(word) || !strchr(word, ':') || (key && is_ratio(word))) return false;
    if (!ranges_parse(word, UINT32_MAX, SWEEP_VALUES_MAX, &numbers))
        return error_input(
            error, "expected A:B, A:B:STEP or A:B:xFACTOR that rise to B (excluded), at most %d values, found '%s'",
            SWEEP_VALUES_MAX, word);
    for (uint32_t i = 0; i < numbers.count; i++) g_ptr_array_add(values, g_strdup_printf("%u", numbers.number[i]));
    return true;
}

/* The values in a list, for a key of the cluster file or for an option.  NULL and *error on failure. */
static char **values_expand(const char *text, bool key, GError **error)
{
    g_auto(GStrv) part = g_strsplit(text, ",", 0);
    g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func(g_free);
    GError *failure = NULL;
    for (char **p = part; *p && !failure; p++) {
        char *word = g_strstrip(*p);
        if (!*word) error_input(&failure, "expected values between commas, found '%s'", text);
        else if (!range_expand(word, key, values, &failure) && !failure) g_ptr_array_add(values, g_strdup(word));
    }
    if (!failure && (values->len == 0 || values->len > SWEEP_VALUES_MAX))
        error_input(&failure, "expected 1 to %d values, found '%s'", SWEEP_VALUES_MAX, text);
    for (guint i = 0; !failure && i < values->len; i++)
        for (guint k = 0; !failure && k < i; k++)
            if (strcmp(values->pdata[i], values->pdata[k]) == 0)
                error_input(&failure, "expected each value once, found '%s' twice", (char *)values->pdata[i]);
    if (failure) {
        g_propagate_error(error, failure);
        return NULL;
    }
    g_ptr_array_add(values, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&values), FALSE);
}

/* Sets the name's option of the case or of the step to the value.  Does nothing for a key of the cluster file. */
static bool value_set(struct case_options *c, struct step_options *o, const struct sweep_name *name, const char *value,
                      GError **error)
{
    switch (name->kind) {
    case SWEEP_CASE: return case_set(c, name->name, value, error);
    case SWEEP_STEP: return step_option_set(o, name->name, value, error);
    case SWEEP_KEY: return true;
    }
    g_assert_not_reached();
}

static bool values_check(const struct sweep_name *name, GError **error)
{
    for (uint32_t i = 0; i < name->count; i++) {
        if (name->count > 1 && strpbrk(name->value[i], "\",\n\r"))
            return error_input(error, "%s: expected a value without quotes, found '%s'", name->name, name->value[i]);
        struct case_options c;
        struct step_options o;
        case_init(&c);
        step_options_init(&o);
        if (!value_set(&c, &o, name, name->value[i], error)) return false;
    }
    return true;
}

static char **one_value(const char *text)
{
    char **values = g_new0(char *, 2);
    values[0] = g_strdup(text);
    return values;
}

bool sweep_plan_add(struct sweep_plan *plan, const char *name, bool key, const char *values, GError **error)
{
    const char *of_case = key ? NULL : case_option_find(name), *of_step = key ? NULL : step_option_find(name);
    const char *option = key ? name : of_case ? of_case : of_step;
    if (!option) return error_input(error, "%s: there is no such option of a case", name);
    if (sweep_plan_find(plan, option)) return error_input(error, "%s: expected once, found twice", option);
    const bool whole = of_step && strcmp(of_step, "work") == 0; /* one value, because its grammar has commas */
    struct sweep_name added = { .name = g_strdup(option),
                                .kind = key       ? SWEEP_KEY
                                        : of_case ? SWEEP_CASE
                                                  : SWEEP_STEP,
                                .value = whole ? one_value(values) : values_expand(values, key, error) };
    if (!added.value) g_prefix_error(error, "%s: ", option);
    added.count = added.value ? g_strv_length(added.value) : 0;
    bool good = added.value && values_check(&added, error);
    if (good && added.count > 1) {
        g_array_append_val(plan->names, added);
        return true;
    }
    if (good && key) g_ptr_array_add(plan->settings, g_strdup_printf("%s=%s", added.name, added.value[0]));
    else if (good) good = value_set(&plan->base, &plan->step, &added, added.value[0], error);
    g_free(added.name);
    g_strfreev(added.value);
    return good;
}

bool sweep_name_is_work(const char *name) { return case_option_is_work(name) || step_option_is_work(name); }

/* The name's place in the order of loops, 0 for the outermost.  Names that change the cluster come first.  Settings of
 * a launch, which do not change the routing, come last.  So points that share a cluster or a routing follow one
 * another. */
static int name_depth(const struct sweep_name *name)
{
    if (name->kind == SWEEP_KEY || strcmp(name->name, "cluster") == 0) return 0;
    return sweep_name_is_launch(name->name) ? 2 : 1;
}

static bool baseline_check(const struct sweep_plan *plan, GError **error)
{
    g_auto(GStrv) part = g_strsplit(plan->baseline ? plan->baseline : "", ",", 0);
    for (char **p = part; *p; p++) {
        char *equals = strchr(*p, '=');
        bool known = false, again = false;
        for (char **before = part; equals && before < p; before++)
            again |= strncmp(*before, *p, (size_t)(equals + 1 - *p)) == 0;
        if (again) return error_input(error, "--baseline: expected each name once, found '%s' too", *p);
        for (guint i = 0; equals && i < plan->names->len; i++) {
            const struct sweep_name *name = name_at(plan, i);
            known |= strlen(name->name) == (size_t)(equals - *p) && g_str_has_prefix(*p, name->name) &&
                     g_strv_contains((const char *const *)name->value, equals + 1);
        }
        if (!known)
            return error_input(error,
                               "--baseline: expected NAME=VALUE of a name and a value that are swept, found '%s'", *p);
    }
    return true;
}

bool sweep_plan_of_steps(const struct sweep_plan *plan)
{
    return step_options_asked(&plan->step) || sweep_plan_find(plan, "net") || sweep_plan_find(plan, "work");
}

static bool steps_check(const struct sweep_plan *plan, GError **error)
{
    for (uint32_t i = 0; step_option_name(i) && !sweep_plan_of_steps(plan); i++) {
        g_autofree char *shared = step_option_text(&plan->step, i);
        if (!shared && !sweep_plan_find(plan, step_option_name(i))) continue;
        return error_input(error, "--%s: expected --net or --work with it, found neither", step_option_name(i));
    }
    return true;
}

/* Refuses kernels that would run different batches, which nothing in the results says: each has its own default. */
static bool batches_check(const struct sweep_plan *plan, const char *const *kernels, GError **error)
{
    static const char *const batches[] = { "num-tokens", "tokens-per-rank", "trace", "traffic" };
    const struct case_options *base = &plan->base;
    bool given = base->num_tokens || base->tokens_per_rank || base->trace || base->traffic;
    for (size_t i = 0; i < G_N_ELEMENTS(batches); i++) given = given || sweep_plan_find(plan, batches[i]);
    for (size_t i = 1; !given && kernels[0] && kernels[i]; i++) {
        struct case_options first = *base, other = *base;
        if (!case_set(&first, "kernel", kernels[0], error) || !case_set(&other, "kernel", kernels[i], error))
            return false;
        if (case_tokens(&first) != case_tokens(&other))
            return error_input(error, "num-tokens: expected a number for all kernels, found none (%s has %u, %s %u)",
                               kernels[0], case_tokens(&first), kernels[i], case_tokens(&other));
    }
    return true;
}

/* Refuses an option that none of the kernels has. */
static bool kernels_check(const struct sweep_plan *plan, GError **error)
{
    const char *const base[] = { case_kernel(&plan->base), NULL };
    const struct sweep_name *swept = sweep_plan_find(plan, "kernel");
    const char *const *kernels = swept ? (const char *const *)swept->value : base;
    bool good = sweep_plan_of_steps(plan) ||
                (case_kernels_take(&plan->base, kernels, error) && batches_check(plan, kernels, error));
    for (guint i = 0; good && i < plan->names->len && !sweep_plan_of_steps(plan); i++)
        for (char **value = name_at(plan, i)->value; good && *value; value++) {
            struct case_options c = plan->base;
            good = value_set(&c, NULL, name_at(plan, i), *value, error) && case_kernels_take(&c, kernels, error);
        }
    if (!good) g_prefix_error(error, "--");
    return good;
}

bool sweep_plan_settle(struct sweep_plan *plan, GError **error)
{
    GArray *sorted = g_array_new(FALSE, FALSE, sizeof(struct sweep_name));
    for (int depth = 0; depth < 3; depth++)
        for (guint i = 0; i < plan->names->len; i++)
            if (name_depth(name_at(plan, i)) == depth) g_array_append_val(sorted, *name_at(plan, i));
    g_array_unref(plan->names);
    plan->names = sorted;
    uint64_t points = 1;
    bool fits = true;
    for (guint i = 0; fits && i < plan->names->len; i++) {
        points *= name_at(plan, i)->count;
        fits = points <= SWEEP_POINTS_MAX;
    }
    if (fits) return steps_check(plan, error) && kernels_check(plan, error) && baseline_check(plan, error);
    return error_input(error, "expected at most %d combinations, found more", SWEEP_POINTS_MAX);
}

uint64_t sweep_plan_points(const struct sweep_plan *plan)
{
    uint64_t points = 1;
    for (guint i = 0; i < plan->names->len; i++) points *= name_at(plan, i)->count;
    return points;
}

/* The index of a name's value at a point. */
static uint32_t value_index(const struct sweep_plan *plan, uint64_t point, uint32_t name)
{
    for (guint i = plan->names->len - 1; i > name; i--) point /= name_at(plan, i)->count;
    return (uint32_t)(point % name_at(plan, name)->count);
}

const char *sweep_plan_value(const struct sweep_plan *plan, uint64_t point, uint32_t name)
{
    return name_at(plan, name)->value[value_index(plan, point, name)];
}

char *sweep_plan_baseline(const struct sweep_plan *plan)
{
    if (plan->baseline) return g_strdup(plan->baseline);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < plan->names->len; i++)
        if (!sweep_name_is_work(name_at(plan, i)->name))
            g_string_append_printf(text, "%s%s=%s", text->len ? "," : "", name_at(plan, i)->name,
                                   name_at(plan, i)->value[0]);
    return g_string_free(text, FALSE);
}

void sweep_plan_case(const struct sweep_plan *plan, uint64_t point, struct case_options *c)
{
    *c = plan->base;
    for (guint i = 0; i < plan->names->len; i++) {
        const struct sweep_name *name = name_at(plan, i);
        const bool good = name->kind != SWEEP_CASE || case_set(c, name->name, sweep_plan_value(plan, point, i), NULL);
        g_assert(good); /* checked when it was added */
    }
    if (sweep_plan_find(plan, "kernel")) case_settings_drop(c);
}

void sweep_plan_step(const struct sweep_plan *plan, uint64_t point, struct step_options *o)
{
    *o = plan->step;
    for (guint i = 0; i < plan->names->len; i++) {
        const struct sweep_name *name = name_at(plan, i);
        const bool good =
            name->kind != SWEEP_STEP || step_option_set(o, name->name, sweep_plan_value(plan, point, i), NULL);
        g_assert(good); /* checked when it was added */
    }
    if (!o->draws) o->draws = 1; /* there are many points, so each gets several draws only if the user asks for them */
}

uint32_t sweep_plan_cluster_index(const struct sweep_plan *plan, uint64_t point)
{
    uint32_t index = 0;
    for (guint i = 0; i < plan->names->len && name_depth(name_at(plan, i)) == 0; i++)
        index = index * name_at(plan, i)->count + value_index(plan, point, i);
    return index;
}

uint32_t sweep_plan_clusters(const struct sweep_plan *plan)
{
    uint32_t count = 1;
    for (guint i = 0; i < plan->names->len && name_depth(name_at(plan, i)) == 0; i++) count *= name_at(plan, i)->count;
    return count;
}

static void input_add(GPtrArray *inputs, const char *name, const char *value, const char *digest)
{
    g_ptr_array_add(inputs, g_strdup_printf("%s %s %s", name, value, digest ? digest : "unreadable"));
}

static void cluster_add(GPtrArray *inputs, const struct sweep_plan *plan, const char *path)
{
    g_autoptr(GPtrArray) settings = g_ptr_array_copy(plan->settings, NULL, NULL);
    g_ptr_array_set_free_func(settings, NULL);
    g_ptr_array_add(settings, NULL);
    g_autoptr(cluster) cluster = cluster_load_set(path, (const char *const *)settings->pdata, NULL);
    input_add(inputs, "cluster", path, cluster ? cluster->digest : NULL);
}

/* If the option's value names a file, adds the file to the inputs. */
static void value_add(GPtrArray *inputs, const struct sweep_plan *plan, uint32_t option, const char *value)
{
    const char *name = case_option_name(option);
    g_autofree char *digest = NULL;
    if (strcmp(name, "cluster") == 0) cluster_add(inputs, plan, value);
    else if ((digest = case_file_digest(option, value))) input_add(inputs, name, value, digest);
}

static void step_value_add(GPtrArray *inputs, uint32_t option, const char *value)
{
    g_autofree char *digest = step_option_digest(option, value);
    if (digest) input_add(inputs, step_option_name(option), value, digest);
}

char **sweep_plan_inputs(const struct sweep_plan *plan)
{
    GPtrArray *inputs = g_ptr_array_new();
    for (uint32_t i = 0; case_option_name(i); i++) {
        if (!case_option_names_file(i)) continue;
        const struct sweep_name *swept = sweep_plan_find(plan, case_option_name(i));
        g_autofree char *shared = swept ? NULL : case_option_text(&plan->base, i);
        for (uint32_t v = 0; swept && v < swept->count; v++) value_add(inputs, plan, i, swept->value[v]);
        if (shared) value_add(inputs, plan, i, shared);
    }
    for (uint32_t i = 0; step_option_name(i); i++) {
        const struct sweep_name *swept = sweep_plan_find(plan, step_option_name(i));
        g_autofree char *shared = swept ? NULL : step_option_text(&plan->step, i);
        for (uint32_t v = 0; swept && v < swept->count; v++) step_value_add(inputs, i, swept->value[v]);
        if (shared) step_value_add(inputs, i, shared);
    }
    g_ptr_array_add(inputs, NULL);
    return (char **)g_ptr_array_free(inputs, FALSE);
}

struct cluster *sweep_plan_cluster(const struct sweep_plan *plan, uint32_t index, GError **error)
{
    const uint64_t point = (uint64_t)index * (sweep_plan_points(plan) / sweep_plan_clusters(plan));
    const char *path = plan->base.cluster;
    g_autoptr(GPtrArray) settings = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < plan->settings->len; i++)
        g_ptr_array_add(settings, g_strdup(g_ptr_array_index(plan->settings, i)));
    for (guint i = 0; i < plan->names->len; i++) {
        const struct sweep_name *name = name_at(plan, i);
        const char *value = sweep_plan_value(plan, point, i);
        if (name->kind == SWEEP_KEY) g_ptr_array_add(settings, g_strdup_printf("%s=%s", name->name, value));
        else if (strcmp(name->name, "cluster") == 0) path = value;
    }
    g_ptr_array_add(settings, NULL);
    if (path) return cluster_load_set(path, (const char *const *)settings->pdata, error);
    return error_null(error, "--cluster: expected a cluster file or several, found none");
}
