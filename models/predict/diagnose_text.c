/* diagnose_text.c - a diagnosis for people: the causes of the measurements, checks and remedies. */
#include "models/predict/diagnose.h"

#include <math.h>

#include "reports/record.h"
#include "reports/text_table.h"

#define ALIKE_LEAST 0.02 /* causes with equal effects are not named if they are less probable than this */

static void rows_append(const struct diagnosis *d, const struct validate_table *table, GString *out)
{
    static const char *const titles[] = { "line", "ranks", "kernel", "phase", "measured", "expected", "measured is" };
    g_autoptr(text_table) text = text_table_new("rrllrrl", titles);
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct validate_row *row = &table->row[i];
        if (row->problem || row->native || validate_row_waits(row) || (d->sound && isnan(d->sound[i]))) continue;
        if (isnan(diagnose_residual(row))) continue;            /* nothing was measured */
        const double machine = d->sound ? exp(d->sound[i]) : 1; /* the sound machine's time over the prediction */
        const bool time = isfinite(row->measured_us);
        const double measured = time ? row->measured_us : row->measured_gbs,
                     expected = time ? row->predicted_us * machine : row->predicted_gbs / machine,
                     slower = time ? measured / expected : expected / measured;
        g_autofree char *phase = g_strjoinv("+", row->phase);
        text_table_cell(text, "%u", row->line);
        text_table_cell(text, "%u", row->options.num_ranks);
        text_table_cell(text, "%s", case_kernel(&row->options));
        text_table_cell(text, "%s", phase);
        text_table_cell(text, "%.4g %s", measured, time ? "us" : "GB/s");
        text_table_cell(text, "%.4g %s", expected, time ? "us" : "GB/s");
        const double times = slower >= 1 ? slower : 1 / slower;
        if (times < 1.005) text_table_cell(text, "the same");
        else text_table_cell(text, "%.2f times as %s", times, slower >= 1 ? "slow" : "fast");
    }
    text_table_append(text, out);
}

static void ports_append(const struct validate_table *table, GString *out)
{
    for (uint32_t i = 0; i < table->row_count; i++) {
        char **settings = table->row[i].settings;
        if (!settings || !g_strv_contains((const char *const *)settings, DIAGNOSE_PORTS_JOINED)) continue;
        g_string_append(out, "\n"
                             "Expected for messages: the rate of all ports of the NIC, as with enough QPs.\n");
        return;
    }
}

static void baseline_append(const struct diagnosis *d, const struct validate_table *table, GString *out)
{
    uint32_t without = 0;
    if (!d->sound) return;
    for (uint32_t i = 0; i < table->row_count; i++)
        without += isnan(d->sound[i]) && !table->row[i].problem && !table->row[i].native;
    g_string_append(out, "\n"
                         "Expected: the baseline's measurement, scaled by predictions where cases differ.\n");
    if (without)
        g_string_append_printf(out, "%u row%s that the baseline does not have %s left out.\n", without,
                               without > 1 ? "s" : "", without > 1 ? "are" : "is");
}

static void name_append(const struct verdict *v, GString *out)
{
    g_string_append(out, v->cause->text);
    if (v->cause->variant[v->variant].text) g_string_append_printf(out, ", %s", v->cause->variant[v->variant].text);
}

/* Appends the check and the remedy, and how many times as fast the rows would be with it. */
static void remedy_append(const struct verdict *v, GString *out)
{
    g_string_append_printf(out, "   check:  %s\n   change: %s\n", v->cause->check, v->cause->change);
    if (v->gives < 1 / 1.05) g_string_append_printf(out, "   gives:  %.2f times as fast\n", 1 / v->gives);
}

/* Names the causes whose effects equal those of verdict i, which is the most probable of these causes. */
static void alike_append(const struct diagnosis *d, uint32_t i, uint32_t rows, GString *out)
{
    for (uint32_t j = i + 1; j < d->verdict_count; j++) {
        const struct verdict *v = &d->verdict[j];
        if (v->probability < ALIKE_LEAST || !diagnose_alike(&d->verdict[i], v, rows)) continue;
        g_string_append(out, "   or:     ");
        name_append(v, out);
        g_string_append_printf(out, " (%s), %.0f %%: these rows cannot tell them apart\n           check: %s\n",
                               v->cause->id, 100 * v->probability, v->cause->check);
    }
}

/* Whether a more probable cause has equal effects. */
static bool told_before(const struct diagnosis *d, uint32_t i, uint32_t rows)
{
    bool told = false;
    for (uint32_t j = 0; j < i && !told; j++) told = diagnose_alike(&d->verdict[j], &d->verdict[i], rows);
    return told;
}

static void verdict_append(const struct verdict *v, uint32_t place, GString *out)
{
    g_string_append_printf(out, "%u. ", place);
    name_append(v, out);
    g_string_append_printf(out,
                           " (%s)\n"
                           "   probability %.0f %%; explains %.0f %% of the difference; a factor of %.2f is left\n",
                           v->cause->id, 100 * v->probability, 100 * v->explains, v->left);
    if (v->contradicting)
        g_string_append_printf(out, "   contradicted by %u row%s, the first in line %u\n", v->contradicting,
                               v->contradicting > 1 ? "s" : "", v->first_contradicting);
    remedy_append(v, out);
}

static void second_append(const struct verdict *v, GString *out)
{
    g_string_append(out, "\n"
                         "In addition to the first: ");
    name_append(v, out);
    g_string_append_printf(out,
                           " (%s)\n"
                           "   explains %.0f %% of the rest; with both, a factor of %.2f is left\n",
                           v->cause->id, 100 * v->explains, v->left);
    remedy_append(v, out);
}

/* The likeliest explanation. */
enum answer { ANSWER_AGREES, ANSWER_SOUND, ANSWER_UNKNOWN, ANSWER_CAUSE };

static enum answer answer_of(const struct diagnosis *d)
{
    const double cause = d->verdict_count ? d->verdict[0].probability : 0;
    if (diagnose_agrees(d)) return ANSWER_AGREES;
    if (d->fine >= fmax(d->none, cause)) return ANSWER_SOUND;
    return cause > d->none ? ANSWER_CAUSE : ANSWER_UNKNOWN;
}

void diagnosis_line(const struct diagnosis *d, GString *out)
{
    switch (answer_of(d)) {
    case ANSWER_AGREES: g_string_append(out, "measured as expected"); break;
    case ANSWER_SOUND: g_string_append_printf(out, "nothing points to a fault (%.0f %%)", 100 * d->fine); break;
    case ANSWER_UNKNOWN: g_string_append_printf(out, "none of the known causes (%.0f %%)", 100 * d->none); break;
    case ANSWER_CAUSE:
        name_append(d->verdict, out);
        g_string_append_printf(out, " (%s), %.0f %%", d->verdict->cause->id, 100 * d->verdict->probability);
    }
}

/* Appends how far off the rows of a kind are: those of the table above, or shares of waiting. */
static void off_append(uint32_t count, bool waits, double factor, GString *out)
{
    if (!count) return;
    g_string_append_printf(out, "\n%u %s%s%s, off by a factor of %.2f (root mean square)\n", count,
                           waits ? "share" : "row", count > 1 ? "s" : "", waits ? " of waiting" : "", factor);
}

void diagnosis_text(const struct diagnosis *d, const struct validate_table *table, uint32_t most, GString *out)
{
    rows_append(d, table, out);
    baseline_append(d, table, out);
    ports_append(table, out);
    off_append(d->rows, false, d->before, out);
    off_append(d->waits, true, d->before_waits, out);
    g_string_append_c(out, '\n');
    const enum answer answer = answer_of(d);
    if (answer == ANSWER_AGREES) {
        g_string_append(out, "Measured as expected: there is nothing to explain.\n");
        return;
    }
    if (answer == ANSWER_SOUND) {
        g_string_append_printf(
            out, "Nothing points to a fault (%.0f %%): predictions of machines without faults are as far off.\n",
            100 * d->fine);
        return;
    }
    uint32_t shown = 0;
    const bool convincing = answer == ANSWER_CAUSE;
    if (!convincing && d->verdict_count)
        g_string_append_printf(out,
                               "Most likely it is none of these (%.0f %%).  The nearest:\n"
                               "\n",
                               100 * d->none);
    for (uint32_t i = 0; i < d->verdict_count && shown < most; i++) {
        if (told_before(d, i, table->row_count)) continue;
        verdict_append(&d->verdict[i], ++shown, out);
        alike_append(d, i, table->row_count, out);
    }
    if (!shown)
        g_string_append_printf(
            out, "No known cause brings prediction and measurement closer: the cause is unknown (%.0f %%).\n",
            100 * d->none);
    else if (convincing)
        g_string_append_printf(out, "An unknown cause instead: %.0f %%; nothing wrong: %.0f %%\n", 100 * d->none,
                               100 * d->fine);
    if (d->second.cause) second_append(&d->second, out);
    if (convincing && shown)
        g_string_append(out, "\n"
                             "Without the fault, the machine should reach the column \"expected\" above.\n");
}

void diagnosis_table(const struct diagnosis *d, GString *out)
{
    g_string_append(out, "cause,form,prior,probability,explains,left,gives,contradicting\n");
    for (uint32_t i = 0; i < d->verdict_count; i++) {
        const struct verdict *v = &d->verdict[i];
        const char *form = v->cause->variant[v->variant].text;
        g_string_append_printf(out, "%s,", v->cause->id);
        record_csv_field_append(out, form ? form : "");
        g_string_append_printf(out, ",%.6g,%.6g,%.6g,%.6g,%.6g,%u\n", v->prior, v->probability, v->explains, v->left,
                               v->gives, v->contradicting);
    }
    g_string_append_printf(out, "sound,,%.6g,%.6g,0,%.6g,1,0\n", d->fine_prior, d->fine, d->before);
    g_string_append_printf(out, "none,,%.6g,%.6g,0,%.6g,1,0\n", d->none_prior, d->none, d->before);
}
