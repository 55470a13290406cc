/* kernel_command.c - `eptwin kernel`: shows the loops of the kernels, as the shipped sheets describe them. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "models/kernels/loops.h"
#include "sim/command.h"
#include "sim/command_line.h"

static const char help[] =
    "eptwin kernel - sheets: what the loops of the kernel libraries do, site by site\n"
    "\n"
    "  eptwin kernel list               list the sheets: library, sites, what was read, compiler\n"
    "  eptwin kernel show [NAME...]     print sheets, or the lines of sites with their comments\n"
    "  eptwin kernel words              explain the words of a line\n"
    "\n"
    "To predict another build of a kernel, pass --loops FILE: a sheet with the lines that differ.\n"
    "Exit status: 0 success, 1 the run failed, 2 bad input.\n"
    "\n"
    "  eptwin kernel show LL_RECEIVE_ROW >mine.loops\n"
    "  eptwin simulate --cluster h200 --kernel ll --num-ranks 4 --loops mine.loops\n";

/* Reads the sheet's next line, which begins at *at.  False after the last. */
static bool line_next(const char *text, size_t size_bytes, size_t *at, const char **line, int *length)
{
    if (*at >= size_bytes) return false;
    const char *newline = memchr(text + *at, '\n', size_bytes - *at);
    *line = text + *at;
    *length = (int)((newline ? (size_t)(newline - text) : size_bytes) - *at);
    *at += (size_t)*length + 1;
    return true;
}

/* The text after the word `head` in the first line that begins with it.  Free with g_free(). */
static char *head_text(uint32_t sheet, const char *head)
{
    size_t size_bytes, at = 0, head_length = strlen(head);
    const char *text = loops_sheet_text(sheet, &size_bytes), *line;
    int length;
    while (line_next(text, size_bytes, &at, &line, &length))
        if ((size_t)length > head_length && !strncmp(line, head, head_length) && line[head_length] == ' ')
            return g_strstrip(g_strndup(line + head_length, (gsize)length - head_length));
    return g_strdup("not said");
}

/* The site that a line describes; SITE_NONE if it describes none. */
static enum site line_site(const char *line, int length)
{
    int end = 0;
    while (end < length && (g_ascii_isalnum(line[end]) || line[end] == '_')) end++;
    g_autofree char *name = g_strndup(line, (gsize)end);
    return loops_site_find(name);
}

static uint32_t sites_count(uint32_t sheet)
{
    size_t size_bytes, at = 0;
    const char *text = loops_sheet_text(sheet, &size_bytes), *line;
    uint32_t count = 0;
    for (int length; line_next(text, size_bytes, &at, &line, &length);) count += line_site(line, length) != SITE_NONE;
    return count;
}

static void sheets_list(void)
{
    for (uint32_t i = 0; i < loops_sheet_count(); i++) {
        g_autofree char *library = head_text(i, "library"), *source = head_text(i, "source");
        g_autofree char *commit = head_text(i, "commit"), *compiler = head_text(i, "compiler");
        printf("%-10s %u sites\n           %s, %s\n           %s\n", library, sites_count(i), source, commit, compiler);
    }
}

/* Appends the line of a site, the lines that continue it, and the comment above it in the sheet. */
static bool site_append(enum site site, GString *out)
{
    for (uint32_t sheet = 0; sheet < loops_sheet_count(); sheet++) {
        size_t size_bytes, at = 0, from = 0;
        const char *text = loops_sheet_text(sheet, &size_bytes), *line;
        bool comment = false;
        for (int length; line_next(text, size_bytes, &at, &line, &length);) {
            const bool said = length > 0 && *line == '#';
            if (said && !comment) from = (size_t)(line - text);
            if (line_site(line, length) == site) {
                if (!comment) from = (size_t)(line - text);
                while (at < size_bytes && text[at] == ' ') (void)line_next(text, size_bytes, &at, &line, &length);
                g_string_append_len(out, text + from, (gssize)(at - from));
                return true;
            }
            comment = said;
        }
    }
    return false;
}

static bool sheet_append(const char *name, GString *out)
{
    for (uint32_t i = 0; i < loops_sheet_count(); i++) {
        g_autofree char *library = head_text(i, "library");
        size_t size_bytes;
        const char *text = loops_sheet_text(i, &size_bytes);
        if (name && strcmp(name, library) != 0) continue;
        if (!name && i) g_string_append_c(out, '\n');
        g_string_append_len(out, text, (gssize)size_bytes);
        if (name) return true;
    }
    return !name;
}

static int names_show(int count, char **name)
{
    g_autoptr(GString) out = g_string_new(NULL);
    if (!count) (void)sheet_append(NULL, out);
    for (int i = 0; i < count; i++) {
        const enum site site = loops_site_find(name[i]);
        if (site ? site_append(site, out) : sheet_append(name[i], out)) continue;
        fprintf(stderr,
                "eptwin kernel show: expected a library that `eptwin kernel list` names or a site, found '%s'\n",
                name[i]);
        return EXIT_BAD_INPUT;
    }
    fputs(out->str, stdout);
    return EXIT_OK;
}

static void words_print(void)
{
    const char *meaning, *name;
    for (uint32_t i = 0; (name = loops_word_name(i, &meaning)); i++) printf("%-14s %s\n", name, meaning);
}

int command_kernel(int argc, char **argv)
{
    static const char *const names[] = { "list", "show", "words", NULL };
    const char *const name = argc > 1 ? argv[1] : "";
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(help, stdout);
            return EXIT_OK;
        }
    if (!strcmp(name, "show")) return names_show(argc - 2, argv + 2);
    const bool list = !strcmp(name, "list");
    if (argc > 2 && (list || !strcmp(name, "words"))) {
        fprintf(stderr, "eptwin kernel %s: expected no argument, found '%s'\n", name, argv[2]);
        return EXIT_BAD_INPUT;
    }
    if (list) sheets_list();
    else if (!strcmp(name, "words")) words_print();
    else if (argc < 2) fputs(help, stderr);
    else return command_line_unknown("eptwin kernel", "subcommand", name, names);
    return argc < 2 ? EXIT_BAD_INPUT : EXIT_OK;
}
