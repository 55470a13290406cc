# Signals to ranks at random moments of set-up and run: each run ends soon, names the rank, and leaves nothing.
# tests/kills sends 200 of them.
source/tests/kills 15 $RANDOM | sed 's/; mpirun .*//; /^ended by a signal: /d; / to rank .* ms: [0-9]* ms$/d'
