/* test_validate.c - reading tables of cases, grouping them into jobs, and the arithmetic of their errors.
 *
 * Aim: models/predict/validate_table.c and validate_summary.c turn text and numbers into the right rows and figures.
 * Simulation is left to the command-line tests.  Method: small tables written to a temporary file; summaries of errors
 * that are set here, so that every figure is known. */
#include "models/predict/validate.h"
#include "tests/support_trace.h"
#include "tests/unit.h"

#include <math.h>

static struct validate_table *table_of(const char *text, GError **error)
{
    struct case_options base;
    case_init(&base);
    return validate_table_read(temporary_text("table.csv", text), &base, error);
}

TEST("columns and cells")
{
    g_autoptr(validate_table) table = MADE(table_of("\xef\xbb\xbf"
                                                    "Colour,phase,num_ranks,measured_us,LABEL,outside_us\r\n"
                                                    ",notify+dispatch,4,2.5, a b ,9.5\r\n",
                                                    NULL));
    CU_ASSERT(table->column_count == 6 && table->row_count == 1);
    CU_ASSERT_STRING_EQUAL(table->column[0], "Colour"); /* not an option, so it is a label */
    const struct validate_row *row = &table->row[0];
    CU_ASSERT_PTR_NULL(row->problem);
    CU_ASSERT(row->options.num_ranks == 4 && row->measured_us == 2.5 && isnan(row->measured_gbs));
    CU_ASSERT_STRING_EQUAL(row->cell[4], "a b");
    CU_ASSERT_EQUAL_FATAL(g_strv_length(row->phase), 2);
    CU_ASSERT_STRING_EQUAL(row->phase[1], "dispatch");
    CU_ASSERT_EQUAL(row->outside_us, 9.5);
    CU_ASSERT_EQUAL(validate_column_find(table, "label"), 4);
    CU_ASSERT_EQUAL(validate_column_find(table, "labels"), -1);
    CU_ASSERT_PTR_NULL(table->warning);
}

TEST("line numbers")
{
    g_autoptr(validate_table) table = MADE(table_of("# a comment, \"not closed\n"
                                                    "phase,note\n"
                                                    "\n"
                                                    "dispatch,\"two\nlines\"\n"
                                                    "# between\n"
                                                    "combine,one",
                                                    NULL));
    CU_ASSERT_EQUAL_FATAL(table->row_count, 2);
    CU_ASSERT(table->row[0].line == 4 && table->row[1].line == 7);
    CU_ASSERT_STRING_EQUAL(table->row[0].cell[1], "two lines");
}

/* Rows that describe one case, in whatever words, are one job. */
TEST("rows of one case")
{
    g_autoptr(validate_table) table = MADE(table_of("phase,num-tokens,cached,label\n"
                                                    "dispatch,8,true,a\n"
                                                    "combine,8,1,b\n"
                                                    "dispatch,9,true,a\n"
                                                    "dispatch,none,true,a\n"
                                                    "combine,9,yes,c\n"
                                                    "combine,9,no,c\n",
                                                    NULL));
    CU_ASSERT_EQUAL(table->job_count, 3);
    CU_ASSERT(table->row[0].job == table->row[1].job && table->row[2].job == table->row[4].job);
    CU_ASSERT(table->row[0].job != table->row[2].job && table->row[5].job != table->row[4].job);
    CU_ASSERT_PTR_NOT_NULL(table->row[3].problem);
}

/* For a row of several phases, in either order, the bottleneck is that of the longest phase, and times add up. */
TEST("bottleneck of the longest phase")
{
    g_autoptr(validate_table) table = MADE(table_of("kernel,num-ranks,num-tokens,hidden,num-experts,num-topk,phase\n"
                                                    "ll,16,48,7168,288,8,dispatch\n"
                                                    "ll,16,48,7168,288,8,combine\n"
                                                    "ll,16,48,7168,288,8,dispatch+combine\n"
                                                    "ll,16,48,7168,288,8,combine+dispatch\n",
                                                    NULL));
    for (uint32_t i = 0; i < 4; i++) CU_ASSERT(case_set(&table->row[i].options, "cluster", "h100-cx7", NULL));
    CU_ASSERT_TRUE_FATAL(validate_table_run(table, 1, NULL));
    const struct validate_row *row = table->row;
    for (uint32_t i = 0; i < 4; i++) CU_ASSERT_PTR_NULL(row[i].problem);
    const uint32_t longest = row[1].predicted_us > row[0].predicted_us, shortest = !longest;
    CU_ASSERT_STRING_NOT_EQUAL(row[longest].bottleneck, row[shortest].bottleneck); /* otherwise the test would prove
                                                                                    * nothing */
    for (uint32_t i = 2; i < 4; i++) {
        CU_ASSERT_DOUBLE_EQUAL(row[i].predicted_us, row[0].predicted_us + row[1].predicted_us, 1e-6);
        CU_ASSERT_STRING_EQUAL(row[i].bottleneck, row[longest].bottleneck);
    }
}

static bool read_fails(const char *text, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(validate_table) table = table_of(text, &error);
    return !table && g_str_has_suffix(error->message, message);
}

TEST("bad tables")
{
    CU_ASSERT(read_fails("# only\n# comments\n", "expected a header line with the names of columns, found nothing"));
}

/* Two columns for one option must be refused, because one of them would be ignored. */
TEST("columns twice")
{
    CU_ASSERT(read_fails("phase,num-ranks,num_ranks\ndispatch,4,8\n",
                         ":1: expected each column once, found 'num-ranks' and 'num_ranks'"));
    CU_ASSERT(read_fails("# a\nphase,tokens,num-tokens\ndispatch,4,8\n",
                         ":2: expected each column once, found 'tokens' and 'num-tokens'"));
    CU_ASSERT(
        read_fails("phase,Phase\ndispatch,combine\n", ":1: expected each column once, found 'phase' and 'Phase'"));
    CU_ASSERT(read_fails("phase,set,SET", ":1: expected each column once, found 'set' and 'SET'"));
    g_autoptr(validate_table) table = table_of("phase,,\ndispatch,,\n", NULL); /* spreadsheets end rows with empty
                                                                                * cells */
    CU_ASSERT_PTR_NOT_NULL(table);
}

TEST("near misses")
{
    static const struct {
        const char *name, *meant;
    } misses[] = {
        { "num-rnaks", "num-ranks" },
        { "num_tokns", "num-tokens" },
        { "measured_ms", "measured_us" },
        { "phases", "phase" },
        { "hiden", "hidden" },
        { "token", "tokens" },
        { "Kernal", "kernel" },
        { "colour", NULL },
        { "set", NULL },
        { "source", NULL },
        { "skew", NULL },
        { "id", NULL },
        { "note", NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(misses); i++) {
        g_autofree char *text = g_strdup_printf("%s,phase\nx,dispatch\n", misses[i].name);
        g_autofree char *said = g_strdup_printf(":1: warning: column '%s' is taken as a label; did you mean '%s'?\n",
                                                misses[i].name, misses[i].meant);
        g_autoptr(validate_table) table = MADE(table_of(text, NULL));
        if (misses[i].meant) CU_ASSERT(table->warning && g_str_has_suffix(table->warning, said));
        if (!misses[i].meant) CU_ASSERT_PTR_NULL(table->warning);
    }
}

static struct validate_table *table_with_errors(void)
{
    static const double errors[] = { 1, -2, 3, -4, 10, NAN };
    struct validate_table *table = MADE(table_of("phase,kernel,num-tokens,set\n"
                                                 "dispatch,normal,8,x\n"
                                                 "dispatch,normal,16,x\n"
                                                 "dispatch,normal,128,y\n"
                                                 "combine,normal,8,y\n"
                                                 "combine,,8,y\n"
                                                 "combine,,8,unmeasured\n",
                                                 NULL));
    for (uint32_t i = 0; i < table->row_count; i++) table->row[i].error_pct = errors[i];
    return table;
}

TEST("distributions")
{
    g_autoptr(validate_table) table = table_with_errors();
    char *by[] = { "set", "phase", "num-experts", NULL };
    g_autoptr(GString) text = g_string_new(NULL);
    validate_summary_append(table, by, text);
    CU_ASSERT_STRING_EQUAL(text->str, "by                     cases  median %  p90 %  worst %  bias %\n"
                                      "-----------  --------  -----  --------  -----  -------  ------\n"
                                      "all                        5       3.0    7.6    +10.0    +1.6\n"
                                      "phase        combine       2       7.0    9.4    +10.0    +3.0\n"
                                      "phase        dispatch      3       2.0    2.8     +3.0    +0.7\n"
                                      "kernel       ll            1      10.0   10.0    +10.0   +10.0\n"
                                      "kernel       normal        4       2.5    3.7     -4.0    -0.5\n"
                                      "num-tokens   8             3       4.0    8.8    +10.0    +2.3\n"
                                      "num-tokens   16            1       2.0    2.0     -2.0    -2.0\n"
                                      "num-tokens   128           1       3.0    3.0     +3.0    +3.0\n"
                                      "set          x             2       1.5    1.9     -2.0    -0.5\n"
                                      "set          y             3       4.0    8.8    +10.0    +3.0\n"
                                      "num-experts  256           4       2.5    3.7     -4.0    -0.5\n"
                                      "num-experts  288           1      10.0   10.0    +10.0   +10.0\n");
}

TEST("rows written back")
{
    g_autoptr(validate_table) table = MADE(table_of("phase,error_pct,label,predicted_us\n"
                                                    "dispatch,99,\"a,b\",7\n"
                                                    "combine,99\n",
                                                    NULL));
    table->row[0].predicted_us = 12.3456;
    table->row[0].predicted_gbs = 1e6;
    table->row[0].posted_by = g_strdup("ibgda");
    table->row[0].bottleneck = g_strdup("nic_tx");
    g_autoptr(GString) text = g_string_new(NULL);
    validate_table_append(table, text);
    CU_ASSERT_STRING_EQUAL(text->str, "phase,label,posted_by,predicted_us,predicted_gbs,error_pct,bottleneck\n"
                                      "dispatch,\"a,b\",ibgda,12.346,1000000.000,,nic_tx\n"
                                      "combine,,,,,,\n");
}
