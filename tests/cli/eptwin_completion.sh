# Completion by bash asks the program: commands, subcommands, options, clusters, backends.
source source/sim/packaging/eptwin.bash
eptwin() { $EPTWIN "$@"; }
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _eptwin; echo "$*: ${COMPREPLY[*]}"; }
touch measured.csv
complete_words eptwin si
complete_words eptwin help re
complete_words eptwin trace s
complete_words eptwin cluster sh
complete_words eptwin simulate --num-to
complete_words eptwin trace slice --la
complete_words eptwin simulate --cluster h8
complete_words eptwin simulate --cluster = h8
complete_words eptwin simulate --backend ibg
complete_words eptwin wh
complete_words eptwin which --at
complete_words eptwin which --by d
complete_words eptwin compare mea
complete_words eptwin nonsense --x
