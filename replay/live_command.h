/* live_command.h - what the commands that use live links share: the options that choose a link and a bootstrap, the
 * start of one process for each rank, and the facts about the machine in a record.  It knows processes and options,
 * but no kernels and no measurements. */
#ifndef REPLAY_LIVE_COMMAND_H
#define REPLAY_LIVE_COMMAND_H

#include <glib.h>
#include <stdbool.h>
#include "replay/bootstrap/bootstrap.h"
#include "replay/live.h"
#include "reports/record.h"

enum { LIVE_RANKS_NOT_GIVEN = G_MININT };

/* The options.  The caller first sets the struct to zero, then calls live_command_entries(), and at the end frees the
 * bootstrap. */
struct live_command {
    const char *name; /* the command's name, for messages */
    char *fabric, *provider, *device, *signalling;
    gint port, gid_index, service_level, traffic_class;
    gboolean gpu_memory;
    gboolean unbound; /* forked ranks are not bound to a CPU */
    gint timeout_s;
    gint ranks;            /* --ranks: how many ranks to fork, or LIVE_RANKS_NOT_GIVEN */
    gint rank, world_size; /* --rank, --world-size: for ranks connected by TCP; -1: not given */
    char *root, *secret_file;
    char *output, *format;
    enum record_format record_format;
    struct live_options live; /* derived from the options above by live_command_check() */
    char nvlink_carrier[LIVE_CARRIER_BYTES], network_carrier[LIVE_CARRIERS_BYTES]; /* live_command_note() sets them */
    uint32_t cpus;               /* number of CPUs that the run may use; live_command_run() or its caller sets it */
    struct bootstrap *bootstrap; /* set before the run if ranks join by TCP or PMIx; NULL if they are forked */
};

/* Sets the defaults, and returns the options, which write into *c.  The caller frees the array, which is valid as
 * long as *c is. */
GOptionEntry *live_command_entries(struct live_command *c);

/* Checks the values and sets c->live, except ranks_per_node and nvlink_disabled, which the case gives.  If a value
 * is wrong, returns false, and *error names the option, what was expected and what was found. */
bool live_command_check(struct live_command *c, GError **error);

/* Checks only the numbers, the format and the output, for commands without a link. */
bool live_command_output_check(struct live_command *c, GError **error);

/* Joins the other processes if another program started them.  False and *error on failure. */
bool live_command_join(struct live_command *c, GError **error);

/* Runs rank_main in every rank.  If this process has joined others, it is one rank.  Otherwise rank_count processes
 * are forked.  Unless c->unbound is set, forked rank r is bound to CPU r modulo the number of CPUs.  If a rank
 * fails, its rank_main returns false and *error, which is reported once.  Returns the exit status. */
int live_command_run(struct live_command *c, uint32_t rank_count,
                     bool (*rank_main)(struct bootstrap *b, void *context, GError **error), void *context);

/* Prints "eptwin replay: message" to stderr and frees the error.  Returns the exit status for the error's code. */
int live_command_fail(const struct live_command *c, GError *error);

/* Keeps in *c the names of the carriers of the world's bytes, for the record of this process. */
void live_command_note(struct live_command *c, const struct live_world *world);
/* Adds header lines: version, kind, machine. */
void live_command_record_machine(const struct live_command *c, struct record *record);
/* Adds header lines: those of live_command_record_machine(), the checks and the link. */
void live_command_record(const struct live_command *c, const struct bootstrap *b, struct record *record);

#endif
