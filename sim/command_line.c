/* command_line.c - options, help and their errors; see command_line.h. */
#include "sim/command_line.h"
#include "sim/error.h"
#include "sim/nearest.h"
#include "sim/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMNS = 100, HELP_OPTION_COLUMNS = 30, OPTIONS_MAX = 256, SUBCOMMANDS_MAX = 16 };

/* ---- help ---- */

/* Appends text whose first line begins at `column`.  Breaks lines between words at HELP_COLUMNS, and indents further
 * lines by `indent`. */
static void wrapped_append(GString *out, const char *text, size_t column, size_t indent)
{
    while (*text) {
        const size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > HELP_COLUMNS) {
            g_string_append_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            g_string_append_c(out, ' ');
            column++;
        }
        g_string_append_len(out, text, (gssize)word);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    g_string_append_c(out, '\n');
}

static char *option_spelt(const GOptionEntry *e)
{
    const bool takes = e->arg_description != NULL;
    char shown[8] = "    ";
    if (e->short_name) g_snprintf(shown, sizeof shown, "-%c, ", e->short_name);
    return g_strdup_printf("  %s--%s%s%s", shown, e->long_name, takes ? "=" : "", takes ? e->arg_description : "");
}

static bool entry_shown(const GOptionEntry *e) { return *e->long_name && !(e->flags & G_OPTION_FLAG_HIDDEN); }

static size_t option_columns(const struct command_topic *topics, bool all)
{
    size_t columns = 0;
    for (const struct command_topic *t = topics; t->title; t++)
        for (const GOptionEntry *e = t->entries; (all || !t->shared) && e->long_name; e++) {
            g_autofree char *spelt = option_spelt(e);
            if (entry_shown(e) && strlen(spelt) <= HELP_OPTION_COLUMNS) columns = MAX(columns, strlen(spelt));
        }
    return columns + 2;
}

static void option_append(GString *out, const GOptionEntry *e, size_t indent)
{
    g_autofree char *spelt = option_spelt(e);
    const size_t length = strlen(spelt);
    g_string_append(out, spelt);
    if (length + 2 > indent) g_string_append_printf(out, "\n%*s", (int)indent, "");
    else g_string_append_printf(out, "%*s", (int)(indent - length), "");
    wrapped_append(out, e->description ? e->description : "", indent, indent);
}

/* Appends the names of the options in shared topics, without their explanations. */
static void shared_append(const struct command_line *line, GString *out)
{
    bool any = false;
    for (const struct command_topic *t = line->topics; t->title; t++) {
        if (!t->shared) continue;
        if (!any)
            g_string_append_printf(out,
                                   "\n"
                                   "Options shared with other commands (eptwin %s --help all explains them):\n",
                                   line->name);
        any = true;
        g_autoptr(GString) names = g_string_new(NULL);
        for (const GOptionEntry *e = t->entries; e->long_name; e++)
            if (entry_shown(e)) g_string_append_printf(names, "--%s ", e->long_name);
        g_string_append_printf(out, "  %s:", t->title);
        wrapped_append(out, names->str, strlen(t->title) + 3, 4);
    }
}

static void help_append(const struct command_line *line, bool all, GString *out)
{
    static GOptionEntry help[] = { { "help", 'h', 0, G_OPTION_ARG_NONE, NULL, "Explain the command", NULL }, { 0 } };
    const size_t indent = option_columns(line->topics, all);
    g_string_append_printf(out, "Usage: eptwin %s [OPTION...]%s%s\n\n%s\n", line->name, line->arguments ? " " : "",
                           line->arguments ? line->arguments : "", line->about);
    for (const struct command_topic *t = line->topics; t->title; t++) {
        if (t->shared && !all) continue;
        g_string_append_printf(out, "\n%s:\n", t->title);
        for (const GOptionEntry *e = t->entries; e->long_name; e++)
            if (entry_shown(e)) option_append(out, e, indent);
        if (t == line->topics) option_append(out, help, indent);
    }
    if (!all) shared_append(line, out);
    if (line->details) g_string_append_printf(out, "\n%s\n", line->details);
}

static bool help_wanted(int argc, char **argv, bool *all)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *all = i + 1 < argc && strcmp(argv[i + 1], "all") == 0;
            return true;
        }
    return false;
}

static void help_print_and_end(const struct command_line *line, bool all)
{
    g_autoptr(GString) text = g_string_new(NULL);
    help_append(line, all, text);
    fputs(text->str, stdout);
    if (fflush(stdout) == 0 && !ferror(stdout)) exit(EXIT_OK);
    perror("eptwin: standard output");
    exit(EXIT_RUN_FAILED);
}

/* ---- errors ---- */

/* The option that a message names behind `before`; NULL: the message does not begin so. */
static const char *option_behind(const char *message, const char *before)
{
    return g_str_has_prefix(message, before) ? message + strlen(before) : NULL;
}

static char *unknown_text(const struct command_line *line, const char *option)
{
    const char *names[OPTIONS_MAX + 1], *const name = option + strspn(option, "-");
    size_t count = 0;
    for (const struct command_topic *t = line->topics; t->title; t++)
        for (const GOptionEntry *e = t->entries; e->long_name && count < OPTIONS_MAX; e++)
            names[count++] = e->long_name;
    names[count] = NULL;
    g_autofree char *plain = g_strndup(name, strcspn(name, "="));
    g_autofree char *counted = g_strconcat("num-", plain, NULL); /* finds "--num-tokens" for "--tokens" */
    const char *nearest = g_strv_contains(names, counted) ? counted : nearest_find(plain, names);
    return g_strdup_printf("unknown option %s, expected one that eptwin %s --help lists%s%s%s", option, line->name,
                           nearest ? "; did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
}

/* Sets *error from GLib's error, which it takes over.  An error that a callback of the entries made is passed on
 * unchanged. */
static void error_put(const struct command_line *line, GError *glib, GError **error)
{
    g_autofree char *text = NULL;
    if (g_error_matches(glib, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION)) {
        const char *option = option_behind(glib->message, "Unknown option ");
        if (option) text = unknown_text(line, option);
    } else if (glib->domain == G_OPTION_ERROR) {
        const char *option = option_behind(glib->message, "Missing argument for ");
        if (option) text = g_strdup_printf("%s: expected a value, found none", option);
    }
    if (!text && glib->domain != G_OPTION_ERROR) {
        g_propagate_error(error, glib);
        return;
    }
    error_input(error, "%s", text ? text : glib->message);
    g_error_free(glib);
}

int command_line_fail(const char *name, GError *error)
{
    const int status = error_status(error);
    g_autofree char *message = text_printable(error->message, strlen(error->message));
    fprintf(stderr, "eptwin %s: %s\n", name, message);
    g_error_free(error);
    return status;
}

int command_line_unknown(const char *program, const char *what, const char *found, const char *const *names)
{
    const char *const nearest = nearest_find(found, names);
    g_autofree char *shown = text_printable(found, strlen(found));
    fprintf(stderr, "%s: unknown %s '%s', expected one that %s --help lists%s%s%s\n", program, what, shown, program,
            nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return EXIT_BAD_INPUT;
}

/* ---- groups ---- */

static void group_help(const struct command_group *group, FILE *out)
{
    fputs(group->begin, out);
    for (const struct subcommand *s = group->subcommands; s->name; s++) fprintf(out, "%-10s%s\n", s->name, s->purpose);
    fputs(group->end, out);
}

static bool is_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

int command_group_run(const struct command_group *group, int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "", *names[SUBCOMMANDS_MAX + 1] = { NULL };
    const struct subcommand *s = group->subcommands;
    for (size_t i = 0; s->name && strcmp(name, s->name) != 0; s++, i++) names[i] = s->name;
    bool all;
    if (s->name && (!s->details || !help_wanted(argc - 1, argv + 1, &all))) return s->run(argc - 1, argv + 1);
    if (s->name)
        printf("Usage: eptwin %s %s%s%s\n\n%c%s.\n\n%s", group->name, s->name, *s->arguments ? " " : "", s->arguments,
               g_ascii_toupper(*s->purpose), s->purpose + 1, s->details);
    else if (argc < 2 || is_help(name)) group_help(group, argc < 2 ? stderr : stdout);
    if (s->name || is_help(name)) return EXIT_OK;
    if (argc < 2) return EXIT_BAD_INPUT;
    g_autofree char *program = g_strconcat("eptwin ", group->name, NULL);
    return command_line_unknown(program, "subcommand", name, names);
}

/* ---- parsing ---- */

/* Accepts "-j4", as make does, by turning it into "--jobs=4".  GLib itself knows only "-j 4". */
static char *argument_spell_out(const struct command_line *line, const char *text)
{
    for (const struct command_topic *t = line->topics; text[0] == '-' && g_ascii_isalpha(text[1]) && t->title; t++)
        for (const GOptionEntry *e = t->entries; e->long_name; e++)
            if (e->short_name == text[1] && e->arg == G_OPTION_ARG_INT && g_ascii_isdigit(text[2]))
                return g_strdup_printf("--%s=%s", e->long_name, text + 2);
    return g_strdup(text);
}

/* Refuses "--hook=false", which GLib would take for "--hook". */
static bool argument_check(const struct command_line *line, const char *text, GError **error)
{
    const char *const equals = strchr(text, '=');
    if (!g_str_has_prefix(text, "--") || !equals) return true;
    g_autofree char *name = g_strndup(text + 2, (gsize)(equals - text - 2));
    for (const struct command_topic *t = line->topics; t->title; t++)
        for (const GOptionEntry *e = t->entries; e->long_name; e++) {
            if (strcmp(e->long_name, name) != 0) continue;
            if (e->arg != G_OPTION_ARG_NONE && !(e->flags & G_OPTION_FLAG_NO_ARG)) return true;
            return error_input(error, "--%s: expected no value, found '%s'", name, equals + 1);
        }
    return true;
}

/* ---- numbers ----
 *
 * GLib reads "010" as 8, "0x10" as 16, and "nan" as a number.  So it gets the options of numbers as options of texts,
 * which are read here, in decimal. */

static bool is_number(const GOptionEntry *e)
{
    return e->arg == G_OPTION_ARG_INT || e->arg == G_OPTION_ARG_INT64 || e->arg == G_OPTION_ARG_DOUBLE;
}

/* Copies entries, with options of texts in place of those of numbers.  Those write to text[], from its begin.  Returns
 * how many there are. */
static size_t numbers_as_texts(const GOptionEntry *entries, GArray *copy, char **text)
{
    size_t count = 0;
    for (; entries->long_name; entries++) {
        GOptionEntry entry = *entries;
        if (is_number(&entry)) {
            entry.arg = G_OPTION_ARG_STRING;
            entry.arg_data = &text[count++];
        }
        g_array_append_val(copy, entry);
    }
    return count;
}

static bool value_refuse(const GOptionEntry *e, const char *expected, const char *text, GError **error)
{
    return error_input(error, "--%s: expected %s, found '%s'", e->long_name, expected, text);
}

/* Writes the number that the text of an option gives to the option's variable.  --jobs of any command is at least 1. */
static bool number_store(const GOptionEntry *e, const char *text, GError **error)
{
    const bool wide = e->arg == G_OPTION_ARG_INT64, jobs = strcmp(e->long_name, "jobs") == 0;
    gint64 value = 0;
    if (e->arg == G_OPTION_ARG_DOUBLE) {
        double *number = e->arg_data;
        const char *end = text_decimal(text, number);
        if (!end || *end) return value_refuse(e, "a number", text, error);
        return isfinite(*number) || value_refuse(e, "a smaller number", text, error);
    }
    if (!text_is_whole(text)) return value_refuse(e, "a whole number", text, error);
    if (!g_ascii_string_to_signed(text, 10, wide ? G_MININT64 : G_MININT, wide ? G_MAXINT64 : G_MAXINT, &value, NULL))
        return value_refuse(e, *text == '-' ? "a larger whole number" : "a smaller whole number", text, error);
    if (jobs && value < 1) return value_refuse(e, "a whole number from 1", text, error);
    if (wide) *(gint64 *)e->arg_data = value;
    else *(gint *)e->arg_data = (gint)value;
    return true;
}

/* Stores the texts that numbers_as_texts() had written, in its order.  NULL: the option was not given. */
static bool numbers_store(const struct command_line *line, char *const *text, GError **error)
{
    for (const struct command_topic *t = line->topics; t->title; t++)
        for (const GOptionEntry *e = t->entries; e->long_name; e++) {
            if (!is_number(e)) continue;
            if (*text && !number_store(e, *text, error)) return false;
            text++;
        }
    return true;
}

/* Keeps memory reachable until the process ends. */
static void keep(void *memory)
{
    static GPtrArray *kept;
    if (!kept) kept = g_ptr_array_new();
    g_ptr_array_add(kept, memory);
}

static void texts_keep(const struct command_line *line)
{
    for (const struct command_topic *t = line->topics; t->title; t++)
        for (const GOptionEntry *e = t->entries; e->long_name; e++)
            if (e->arg == G_OPTION_ARG_STRING || e->arg == G_OPTION_ARG_FILENAME ||
                e->arg == G_OPTION_ARG_STRING_ARRAY || e->arg == G_OPTION_ARG_FILENAME_ARRAY)
                keep(*(void **)e->arg_data);
}

/* Whether every option of a file names one. */
static bool files_check(const struct command_line *line, GError **error)
{
    for (const struct command_topic *t = line->topics; t->title; t++)
        for (const GOptionEntry *e = t->entries; e->long_name; e++) {
            const char *const name = e->arg == G_OPTION_ARG_FILENAME ? *(char **)e->arg_data : NULL;
            if (name && !*name) return value_refuse(e, e->arg_description, name, error);
        }
    return true;
}

bool command_line_parse(const struct command_line *line, int argc, char **argv, char ***words, GError **error)
{
    bool all = false;
    if (help_wanted(argc, argv, &all)) help_print_and_end(line, all);
    g_auto(GStrv) rest = NULL;
    GOptionEntry remaining[] = {
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &rest, NULL, NULL },
        { 0 },
    };
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!argument_check(line, argv[i], error)) return false;
    g_auto(GStrv) spelt = g_new0(char *, (gsize)argc + 1);
    for (int i = 0; i < argc; i++) spelt[i] = argument_spell_out(line, argv[i]);
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_option_context_set_help_enabled(context, FALSE);
    g_autoptr(GArray) entries = g_array_new(TRUE, TRUE, sizeof(GOptionEntry));
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free); /* NULL where an option is not given */
    g_ptr_array_set_size(texts, OPTIONS_MAX);
    char **const text = (char **)texts->pdata;
    size_t numbers = 0;
    for (const struct command_topic *t = line->topics; t->title; t++)
        numbers += numbers_as_texts(t->entries, entries, text + numbers);
    g_assert(numbers <= OPTIONS_MAX);
    g_option_context_add_main_entries(context, (const GOptionEntry *)(void *)entries->data, NULL);
    g_option_context_add_main_entries(context, remaining, NULL);
    GError *glib = NULL;
    const bool good = g_option_context_parse_strv(context, &spelt, &glib);
    if (!good) {
        error_put(line, glib, error);
        return false;
    }
    texts_keep(line);
    if (!numbers_store(line, text, error) || !files_check(line, error)) return false;
    if (rest && *rest && !words) return error_input(error, "expected options only, found '%s'", *rest);
    if (words) keep(*words = rest ? g_steal_pointer(&rest) : g_new0(char *, 1));
    return true;
}
