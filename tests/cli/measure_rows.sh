# A short measurement has a row for every metric that replay/README.md explains; values are left out.  Metrics of one
# phase that are measured at the same sizes stand in one line, the sizes behind it.
$EPTWIN measure --ranks 2 --repeat 1 --sample-ms 1 --output out.csv
grep '^# ' out.csv | grep -vE '^# (version|machine|cpus)' |
    sed -E 's/^# (busy|cpu-[a-z-]*|run-queue|passes-[a-z]*): .*/# \1: VALUE/'
grep -v '^#' out.csv | grep -vE '_(min|max)(_[0-9]+)?,' | awk -F, '
    NR == 1 { next }
    { metric = $3; size = ""
      if (match(metric, /_[0-9]+$/)) { size = " " substr(metric, RSTART + 1); metric = substr(metric, 1, RSTART - 1) }
      key = $1 "," $2 "," metric "," $5
      if (!(key in sizes)) { order[++keys] = key; phase[key] = $1 "," $2; name[key] = metric " " $5 }
      sizes[key] = sizes[key] size }
    END { for (i = 1; i <= keys; i++) {
              line = phase[order[i]] " at" sizes[order[i]]
              if (!(line in metrics)) lines[++count] = line
              metrics[line] = metrics[line] ", " name[order[i]] }
          for (i = 1; i <= count; i++) {
              at = lines[i]; where = at; sub(/ at.*/, "", where); sub(/.* at/, " at", at); if (at == " at") at = ""
              print where ": " substr(metrics[lines[i]], 3) at } }'
