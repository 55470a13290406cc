/* text_read.h - the common part of the readers of comma-separated traces: libcsv, comment lines, numbers, and errors
 * that name the line.
 *
 * Knows no columns.  Each format has functions that take the fields and the lines.  Internal to traces/formats. */
#ifndef TRACES_TEXT_READ_H
#define TRACES_TEXT_READ_H

#include "traces/table.h"

/* The first member of a format's own reader. */
struct text_reader {
    const struct text_format *format;
    struct trace *trace;
    struct stream *stream;
    struct table *table; /* made by the format's header_end() */
    struct table_claims claims;
    uint64_t line;   /* number of the line, from 1; comments count, too */
    uint32_t column; /* the column of the next field */
    bool header_seen;
    GError *error; /* the first error; everything after it is skipped */
};

struct text_format {
    const char *header; /* the header's name in messages */
    void (*header_field)(struct text_reader *r, const char *text, size_t length);
    void (*header_end)(struct text_reader *r);
    void (*field)(struct text_reader *r, const char *text, size_t length);
    void (*line)(struct text_reader *r); /* called after each line; `column` is then the number of its fields */
    void (*end)(struct text_reader *r);  /* called at the file's end; may be NULL */
};

/* Sets r->error, unless it is already set: "path: line N: field: expected ..., found 'found'". */
void text_error(struct text_reader *r, const char *field, const char *expected, const char *found, size_t length);

/* Reads a number of decimal digits.  Returns false for anything else, such as a sign. */
bool text_digits(const char *text, size_t length, uint32_t *value);
/* Reads the number of an expert, or -1.  Anything else is an error. */
int32_t text_expert(struct text_reader *r, const char *field, const char *text, size_t length);

/* Reads the stream to its end, closes it, and makes the table the source of r->trace.  False and *error on failure. */
bool text_read(struct text_reader *r, const struct trace_options *options, GError **error);

#endif
