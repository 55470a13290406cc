/* diagnose.h - finds the single change of the cluster or of the run that explains why measurements differ from their
 * prediction.
 *
 *     rows (validate.h) ──► predicted as they are ──► residual of each row: ln(measured time / predicted time)
 *     each variant of each cause: the rows predicted again with it planted ──► residuals that it leaves
 *
 * Planting a cause in a row sets the row's case as the cause would change it.  A cause's weight is its prior times the
 * likelihood of the residuals that it leaves (diagnose_rank.h).  Its probability is its weight divided by the sum of
 * all weights.  An unknown cause and a sound machine have weights, too.  A cause explains 1 - (sum of squared residuals
 * with it / sum without it), over all rows.  Rows whose residual grows contradict it.  If the best cause leaves a
 * residual, a second round seeks one more cause. */
#ifndef MODELS_PREDICT_DIAGNOSE_H
#define MODELS_PREDICT_DIAGNOSE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"
#include "models/predict/validate.h"

enum { CAUSE_SETTINGS_MAX = 6, CAUSE_OPTIONS_MAX = 2, CAUSE_VARIANTS_MAX = 4 };

enum cause_scope {
    CAUSE_NETWORK = 1,      /* needs ranks that reach each other by NICs */
    CAUSE_NVLINK = 2,       /* needs ranks that share an NVLink domain */
    CAUSE_SMS = 4,          /* needs kernels whose number of SMs can be chosen */
    CAUSE_RATES = 8,        /* needs rows of normal or V2 kernels that give a bandwidth */
    CAUSE_DRAWN = 16,       /* needs rows whose routing is drawn, not given by a trace or a traffic matrix */
    CAUSE_PORTS = 32,       /* needs NICs of several ports */
    CAUSE_MOE = 64,         /* needs kernels that dispatch and combine tokens */
    CAUSE_SHARED = 128,     /* needs several ranks on a node */
    CAUSE_ETHERNET = 256,   /* likelier on RoCE: there, far more public threads ended with it than on InfiniBand */
    CAUSE_WORK = 512,       /* needs other work between the calls */
    CAUSE_GPU_PATH = 1024,  /* needs data in GPU memory */
    CAUSE_GPU_POSTS = 2048, /* needs a GPU that can post its requests itself */
    CAUSE_COUNTED = 4096,   /* needs a bandwidth that does not say which bytes it counts */
};

/* Facts that a row states (diagnose_record.c): no cause overrules them. */
enum row_evidence {
    KNOWN_COUNTED = 1,     /* which bytes its bandwidth counts */
    KNOWN_HOST_MEMORY = 2, /* its bytes are in the host's memory, so they pass no GPU */
    KNOWN_BACKEND = 4,     /* who posts its requests */
    KNOWN_NVSHMEM = 8,     /* NVSHMEM sends its requests */
    KNOWN_NCCL = 16,       /* NCCL sends its requests */
    KNOWN_CPU_POSTS = 32,  /* its requests are sent by a library for which a CPU always posts (verbs, UCX, MPI) */
    KNOWN_LAUNCHED = 64,   /* when its ranks launch */
};

/* The topic of public threads: kernels that dispatch and combine, or messages between two ends. */
enum cause_topic { CAUSE_OF_KERNELS, CAUSE_OF_MESSAGES, CAUSE_TOPICS };

/* One strength or form of a cause.  "N%" stands for that share of the rate or count that the row has.  EXCESS in an
 * option stands for the time by which the median row takes too long. */
struct cause_variant {
    const char *text; /* what distinguishes the variant from the cause's other variants, or NULL */
    const char *setting[CAUSE_SETTINGS_MAX], *option[CAUSE_OPTIONS_MAX];
    int local; /* 1: the measured bandwidth leaves out tokens that stay on the node; -1: it counts them */
};

/* How many strengths a variant stands for.  A variant with EXCESS stands for 8 (from 0.05 to 10 ms), because the rows
 * decide its strength.  Any other stands for 1. */
uint32_t cause_variant_strengths(const struct cause_variant *variant);

struct cause {
    const char *id;                 /* "one-nic" */
    const char *text;               /* "all ranks of a node use one NIC" */
    const char *check;              /* how one finds out */
    const char *change;             /* the remedy */
    unsigned scope;                 /* bits of enum cause_scope */
    uint32_t threads[CAUSE_TOPICS]; /* how many public threads ended with it (tests/accuracy/threads/README.md); its
                                     * prior follows from this number */
    struct cause_variant variant[CAUSE_VARIANTS_MAX]; /* all are equally likely; an empty one ends the list */
};

/* The table of causes.  The last entry has no id. */
const struct cause *diagnose_causes(void);
uint32_t cause_variants(const struct cause *cause);
/* Plants a variant in a row.  excess_us takes the place of EXCESS.  False if the variant does not apply to the row,
 * which is then unchanged. */
bool cause_plant(const struct cause *cause, uint32_t variant, const struct cluster *cluster, double excess_us,
                 struct validate_row *row);

/* One variant, with the residuals that it leaves. */
struct hypothesis {
    const struct cause *cause; /* NULL: nothing is planted */
    uint32_t variant;
    bool *applied;    /* [rows] whether the variant applies to the row */
    double *residual; /* [rows]; NAN: the row cannot be compared */
    bool fails;       /* a row with the variant cannot be simulated */
    bool skip;        /* hypotheses_predict() leaves it out, so residual and applied stay as they are */
};

/* How thoroughly rows are predicted (diagnose_predict.c). */
enum diagnose_effort {
    DIAGNOSE_SCREEN, /* from small cases of few nodes */
    DIAGNOSE_WHOLE,  /* from a few dozen cases, which stand for all cases */
};
/* Predicts the table's rows with each hypothesis planted in addition to `first` (NULL: none), on several worker
 * processes, and sets each hypothesis's residual and applied.  Large cases are predicted from smaller ones.  Of many
 * cases only representative ones are predicted. */
bool hypotheses_predict(const struct validate_table *table, const struct hypothesis *first, struct hypothesis *h,
                        uint32_t count, enum diagnose_effort effort, uint32_t workers, GError **error);

/* Whether predicting all rows with this many hypotheses costs no more than a first answer would. */
bool diagnose_works_at_once(const struct validate_table *table, uint32_t hypotheses);
/* Chooses the rows of the few cases on which the first answer is based.  row_of[rows] gets the indices of these rows.
 * Returns their number. */
uint32_t diagnose_few(const struct validate_table *table, uint32_t hypotheses, uint32_t *row_of);
/* Predicts the rows of `few` with no cause planted.  Large cases are predicted from smaller ones. */
bool diagnose_predict_few(struct validate_table *few, uint32_t workers, GError **error);
/* Spreads each hypothesis's effect on the few rows over all rows: sets applied, and sets residual to the change that
 * the hypothesis makes (0: none).  before[few], h[hypotheses], all[hypotheses]. */
void diagnose_effects_spread(const struct validate_table *table, const uint32_t *row_of, uint32_t few,
                             const double *before, const struct hypothesis *h, struct hypothesis *all,
                             uint32_t hypotheses);
/* What is known of the rows before their numbers are read. */
struct cause_context {
    enum cause_topic topic;
    bool ethernet;
    /* The rows are from the tuning loop of DeepEP's tests: no other test times cached handles.  The loop's routing is
     * uniform.  Its calls follow one another, so no rank is late in all of them. */
    bool public_test;
    bool sms_stated; /* all rows of kernels whose SMs can be chosen state how many they have */
};
/* The weight of a cause before any row is read, in the units of rank_prior(). */
double cause_prior(const struct cause *cause, const struct cause_context *context);
/* The weight of a cause that the table lacks.  Every thread that the table counts has its cause there, so the counts do
 * not show how often the table lacks one.  Good and Turing estimate this by the number of causes that only one thread
 * ended with.  Threads that ended without a cause are added. */
double cause_unknown_prior(const struct cause_context *context);
struct rank_rows;
/* ln of the density of the rows if the reason is none of the hypotheses h[count] (diagnose_unknown.c).  The rows have
 * no cause planted, so before[] equals residual[].  The hypotheses must have been predicted. */
double diagnose_unknown_density(const struct validate_table *table, const struct rank_rows *rows,
                                const struct hypothesis *h, uint32_t count, bool baseline);
/* Every variant of every cause except `but`.  Free with hypotheses_free(). */
struct hypothesis *hypotheses_new(const struct cause *but, uint32_t rows, uint32_t *count);
void hypotheses_free(struct hypothesis *h, uint32_t count);
/* ln of measured over predicted time of a row that has been predicted; NAN where it cannot be compared. */
double diagnose_residual(const struct validate_row *row);

/* The least share of the residuals' squares that a cause must explain to count as an explanation. */
#define CAUSE_EXPLAINS_LEAST 0.1

struct verdict {
    const struct cause *cause;
    uint32_t variant;             /* the likeliest variant */
    double prior;                 /* in the units of rank_prior(); 1 if all causes are equally likely */
    double probability;           /* the probabilities of all verdicts, of none and of fine add up to 1 */
    double explains;              /* share of the residuals' squares; below 0: the cause makes the residuals larger */
    double left;                  /* root mean square of the residuals that it leaves, as a factor: 1.1 is 10 % */
    double gives;                 /* the share of their time that the rows would take without the cause; at 0.5 they
                                   * would be twice as fast; never less than makes them as fast as expected */
    double over;                  /* mean over times of the smaller of two ln: the time with the cause over the
                                   * measured time, and over the time without the cause */
    uint32_t contradicting;       /* how many rows get a residual that is larger by more than a tenth */
    uint32_t applied;             /* how many rows the cause applies to */
    uint32_t first_contradicting; /* the line of the first contradicting row */
    double *residual;             /* [rows of the table] the residuals that it leaves */
};

struct diagnosis {
    double *sound;       /* [rows of the table] residuals of the baseline; NAN: it lacks the row; NULL: no baseline */
    uint32_t rows;       /* how many times and bandwidths were compared */
    uint32_t waits;      /* how many shares of waiting were compared */
    double before;       /* root mean square of the residuals of times and bandwidths, as a factor; 1: there are none */
    double before_waits; /* that of shares of waiting */
    double none, none_prior; /* probability and prior of an unknown cause */
    double fine, fine_prior; /* probability and prior of no cause: the prediction has its usual error */
    struct verdict *verdict; /* [verdict_count], the most probable first */
    uint32_t verdict_count;
    struct verdict second; /* a second cause, in addition to the first; cause NULL: none explains more */
};

/* Whether the measurements agree with the prediction.  Then no cause is sought. */
bool diagnose_agrees(const struct diagnosis *diagnosis);
/* Whether two causes have equal effects on the rows, so that the rows cannot tell them apart. */
bool diagnose_alike(const struct verdict *a, const struct verdict *b, uint32_t rows);

/* Reads a table (validate.h) or a record of measurements, such as a replay's, whose times become rows
 * (diagnose_record.c).  Programs with enough QPs use all ports of a NIC, so a table's rows of p2p are predicted with
 * all ports.  p2p itself has one QP, which would use one port. */
#define DIAGNOSE_PORTS_JOINED "nic.ports=1"
struct validate_table *diagnose_table_read(const char *path, const struct case_options *base, GError **error);

struct diagnosis;
struct diagnose_how {
    uint32_t workers;                /* processes */
    bool flat;                       /* all causes get equal priors */
    struct validate_table *baseline; /* measurements of this machine when it was sound, or NULL */
    bool first_only;                 /* of a large table, only the first answer is wanted */
    /* Called with a large table's first answer, which is based on the rows of few; or NULL. */
    void (*first)(const struct diagnosis *d, const struct validate_table *few, void *context);
    void *context;
};

/* Predicts the baseline's rows.  For each row of the table, sound[] gets the residual of the most similar case of the
 * baseline with equal phase, metric, kernel and number of ranks; NAN: there is none. */
bool diagnose_baseline(const struct validate_table *table, struct validate_table *baseline, uint32_t workers,
                       double *sound, GError **error);

/* Compares the table's rows with every cause; the rows need no predictions yet.  With a baseline, only rows that the
 * baseline has are compared, relative to it.  The table keeps its own predictions.  If this takes long, a few rows are
 * compared first, and then all rows with the causes that are still likely.  NULL and *error if no row can be compared
 * or no worker starts.  NULL without an error if `how` asks only for the first answer. */
struct diagnosis *diagnose_run(struct validate_table *table, const struct diagnose_how *how, GError **error);
void diagnosis_free(struct diagnosis *diagnosis);
typedef struct diagnosis diagnosis;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(diagnosis, diagnosis_free)

/* All verdicts as CSV, the most probable first, then "sound" (nothing is wrong) and "none" (an unknown cause). */
void diagnosis_table(const struct diagnosis *diagnosis, GString *out);
/* One line without its end: the most probable cause, "nothing is wrong", or "an unknown cause". */
void diagnosis_line(const struct diagnosis *diagnosis, GString *out);
/* Text for a terminal: verdicts, checks and remedies.  `most` limits the number of verdicts. */
void diagnosis_text(const struct diagnosis *diagnosis, const struct validate_table *table, uint32_t most, GString *out);

#endif
