# SPDX-License-Identifier: MIT OR Apache-2.0
# Prints what `benches/serve` has measured, in one sitting or in several.
#
# Lines are `SITTING ask RW BS DEPTH CLIENTS SERVER ROUND RATE SERVER-US USER-US CLIENT-US CALLS
# SWITCHES`, `SITTING cost RW WHAT US`, and `SITTING beside PERCENT`, before and after. A figure of a
# sitting is the median of its rounds; of several sittings least, median and most are told.
#
# The most that a server can reach: at depth 1 a request takes what the client computes, and the
# least that calls and wake-ups of both sides took between two threads that do nothing else. At
# depth 32 it takes the processor time of the client, which never waits.

function sorted(list, v,   n, i, j, x) {
  n = split(list, v, " ")
  for (i = 2; i <= n; i++) {
    x = v[i] + 0
    for (j = i - 1; j >= 1 && v[j] + 0 > x; j--) v[j + 1] = v[j]
    v[j + 1] = x
  }
  return n
}
function median(list,   v, n) {
  n = sorted(list, v)
  return n ? (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2 : 0
}
function spread(list, form, strong,   v, n, middle) {
  n = sorted(list, v)
  if (!n) return "-"
  middle = sprintf(strong ? "**" form "**" : form, median(list))
  return n == 1 ? middle : sprintf(form ", %s, " form, v[1], middle, v[n])
}
# A figure in the rounds of a sitting: column `what` of `server`, divided by that of `other` if
# one is given.
function each(row, what, server, other, s,   r, one) {
  one = ""
  for (r = 0; r <= rounds; r++) {
    if (!((s, row, server, r, what) in got)) continue
    if (other == "") one = one " " got[s, row, server, r, what]
    else if (got[s, row, other, r, what] > 0)
      one = one " " got[s, row, server, r, what] / got[s, row, other, r, what]
  }
  return one
}
# The same in all sittings, each of which is told by its median.
function figures(row, what, server, other,   s, one, all) {
  all = ""
  for (s = 1; s <= sittings; s++) {
    one = each(row, what, server, other, s)
    if (one != "") all = all " " median(one)
  }
  return all
}
BEGIN { split("nbdkit bound noop bfq", name, " ") }
{ if (!($1 in known)) { known[$1] = ++sittings } s = known[$1] }
$2 == "ask" {
  row = $3 " " $4 ", depth " $5 ($6 == 1 ? "" : ", " $6 " clients")
  if (!(row in seen)) { seen[row] = 1; rows[++count] = row }
  if ($8 > rounds) rounds = $8
  for (i = 9; i <= NF; i++) if (i < 13 || $i > 0) got[s, row, $7, $8, i - 8] = $i
  if ($7 != "nbdkit") { user[s, row] += $11; asks[s, row]++ }
  counted = counted || $13 > 0
  unequal[row] = unequal[row] || $7 == "unequal"
}
$2 == "beside" { beside = beside " " $3 }
$2 == "cost" { cost[s, $3, $4] = $5; costs = 1; if (!($4 in place)) { place[$4] = ++places; places_of[places] = $4 } }
END {
  printf "%d sitting%s; other programs had %s %% of the processors before and after.\n\n", sittings, sittings == 1 ? "" : "s", spread(beside, "%.0f", 0)
  print "| workload | nbdkit, /s | bound / nbdkit | noop / nbdkit | bfq / nbdkit | bfq / bound | bfq / noop | us: nbdkit | bound | noop | bfq | client |"
  print "|---|---|---|---|---|---|---|---|---|---|---|---|"
  for (i = 1; i <= count; i++) {
    row = rows[i]
    printf "| %s | %s |", row, spread(figures(row, 1, "nbdkit"), "%.0f", 0)
    printf " %s |", spread(figures(row, 1, "bound", "nbdkit"), "%.2f", 1)
    printf " %s |", spread(figures(row, 1, "noop", "nbdkit"), "%.2f", 1)
    printf " %s |", spread(figures(row, 1, "bfq", "nbdkit"), "%.2f", 1)
    printf " %s |", spread(figures(row, 1, "bfq", "bound"), "%.2f", 1)
    printf " %s |", spread(figures(row, 1, "bfq", "noop"), "%.2f", 1)
    for (j = 1; j <= 4; j++) printf " %s |", spread(figures(row, 2, name[j]), "%.1f", 0)
    printf " %s |\n", spread(figures(row, 4, "bfq"), "%.1f", 0)
    if (unequal[row]) printf "| %s, weights 100:300 | | | | | | %s | | | | | |\n", row, spread(figures(row, 1, "unequal", "noop"), "%.2f", 0)
  }
  if (counted) {
    print "\n| for a request | calls: nbdkit | bound | noop | bfq | switches: nbdkit | bound | noop | bfq |"
    print "|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= count; i++) {
      printf "| %s |", rows[i]
      for (w = 5; w <= 6; w++) for (j = 1; j <= 4; j++) printf " %s |", spread(figures(rows[i], w, name[j]), "%.2f", 0)
      print ""
    }
  }
  if (!costs) exit
  printf "\n| us |"
  for (i = 1; i <= places; i++) printf " %s |", places_of[i]
  printf "\n|---|"
  for (i = 1; i <= places; i++) printf "---|"
  print ""
  for (k = 1; k <= 2; k++) {
    kind = k == 1 ? "randread" : "randwrite"
    printf "| %s |", kind
    for (i = 1; i <= places; i++) {
      all = ""
      for (s = 1; s <= sittings; s++) if ((s, kind, places_of[i]) in cost) all = all " " cost[s, kind, places_of[i]]
      printf " %s |", spread(all, "%.1f", 0)
    }
    print ""
  }
  print "\n| the most there can be | us: nbdkit | client computes | calls and wake-ups | client in all | of nbdkit |"
  print "|---|---|---|---|---|---|"
  for (k = 1; k <= 4; k++) {
    kind = k % 2 ? "randread" : "randwrite"
    row = kind " 4k, depth " (k < 3 ? 1 : 32)
    if (!(row in seen)) continue
    t = own = waits = whole = most = ""
    for (s = 1; s <= sittings; s++) {
      if (!((s, row, "nbdkit", 0, 1) in got)) continue
      nbdkit = 1e6 / median(each(row, 1, "nbdkit", "", s))
      computes = user[s, row] / asks[s, row]
      game = 0
      for (i = 3; i <= places; i++) {
        x = cost[s, kind, places_of[i]]
        if (game == 0 || x < game) game = x
      }
      all = 0
      for (i = 2; i <= 4; i++) {
        x = median(each(row, 4, name[i], "", s))
        if (all == 0 || x < all) all = x
      }
      t = t " " nbdkit
      own = own " " computes
      waits = waits " " game
      whole = whole " " all
      most = most " " nbdkit / (k < 3 ? computes + game : all)
    }
    printf "| %s | %s | %s |", row, spread(t, "%.1f", 0), k < 3 ? spread(own, "%.1f", 0) : ""
    printf " %s | %s | %s |\n", k < 3 ? spread(waits, "%.1f", 0) : "", k < 3 ? "" : spread(whole, "%.1f", 0), spread(most, "%.2f", 1)
  }
}
